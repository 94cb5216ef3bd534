"""minimizer: reduces a script that torch.compile breaks to a verified, standalone repro."""

__all__ = ["__version__"]
__version__ = "0.1.0"

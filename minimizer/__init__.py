"""minimizer: reduces a script that torch.compile breaks to a verified, standalone repro.

The public interface is what `__all__` names; docs/api.md describes it. It is loaded when it is first used, so that
``import minimizer`` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minimizer.api import minimize
    from minimizer.errors import MinimizerError, UserError
    from minimizer.report.model import Report

__all__ = ["MinimizerError", "Report", "UserError", "__version__", "minimize"]
__version__ = "0.1.0"

_HOMES = {"minimize": "api", "Report": "report.model", "MinimizerError": "errors", "UserError": "errors"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minimizer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"minimizer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]

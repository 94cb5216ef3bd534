"""The witness: PyTorch's own minifier on the same script, and what becomes of a graph that only it has found."""

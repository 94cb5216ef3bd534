"""The witness: runs PyTorch's own minifier on the same script, and reduces a graph that only it has found."""

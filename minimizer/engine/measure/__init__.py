"""Measurements without a verdict: the error of each layer, and the health of the compiled code."""

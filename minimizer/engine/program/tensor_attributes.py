"""The compared attributes of a tensor, other than its values, each with the expression that reads it.

A failure in one of them is `Kind.is_of_metadata`; repros of graphs and of scripts assert it by this expression.
"""

from __future__ import annotations

SUFFIXES = {
    "dtype": ".dtype", "shape": ".shape", "stride": ".stride()", "requires_grad": ".requires_grad", "layout": ".layout",
    "device": ".device",
}  # fmt: skip

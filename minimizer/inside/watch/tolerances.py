"""Records the script's own ``assert_close`` calls that fail: their tolerances, and whether any tolerance would pass."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

WIDEST = {"rtol": 0.0, "atol": sys.float_info.max}
"""A tolerance that accepts any finite difference."""


def watch() -> list[dict[str, float]]:
    """Wrap ``torch.testing.assert_close`` for the rest of this process; every call that fails appends a dict to the returned list.

    Its keys: ``rtol`` and ``atol``, if they were passed; ``tolerable``, 0 if no tolerance would pass (shape, type, NaN, a missing
    value); ``of_values``, 1 if the two differ in values only, NaN and infinities included.
    """
    failed: list[dict[str, float]] = []
    original = torch.testing.assert_close

    def assert_close(actual: Any, expected: Any, **kwargs: Any) -> None:
        try:
            original(actual, expected, **kwargs)
        except AssertionError:
            own = {key: float(kwargs[key]) for key in ("rtol", "atol") if kwargs.get(key) is not None}
            tolerable = _passes(lambda: original(actual, expected, **{**kwargs, **WIDEST}))
            of_values = _passes(lambda: original(_zeros(actual), _zeros(expected), **kwargs))
            failed.append({**own, "tolerable": float(tolerable), "of_values": float(of_values)})
            raise

    torch.testing.assert_close = assert_close
    return failed


def _passes(compare: Callable[[], None]) -> bool:
    try:
        compare()
    except Exception:
        return False
    return True


def _zeros(values: Any) -> Any:
    """A copy of nested containers with every number and tensor element set to zero."""
    return pytree.tree_map_only(
        (torch.Tensor, int, float, complex),
        lambda value: torch.zeros_like(value) if isinstance(value, torch.Tensor) else type(value)(0),
        values,
    )

"""The tolerances of a script's own comparisons that fail: its idea of wrong, and whether any tolerance would do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

WIDEST = {"rtol": 0.0, "atol": sys.float_info.max}


def watch() -> list[dict[str, float]]:
    """From now on every ``torch.testing.assert_close`` that fails adds what it was given to the list: ``rtol`` and ``atol`` if it
    was; ``tolerable``, 0 where it fails with any: by a shape, a type, something missing, or NaN; and ``of_values``, 1 where the two
    differ in nothing but values, NaN and infinities among them."""
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
    """The same with zero in the place of every value."""
    return pytree.tree_map_only(
        (torch.Tensor, int, float, complex),
        lambda value: torch.zeros_like(value) if isinstance(value, torch.Tensor) else type(value)(0),
        values,
    )

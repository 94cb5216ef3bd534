"""The tolerances of a script's own comparisons that fail: its idea of wrong, and whether any tolerance would do."""

from __future__ import annotations

import sys
from typing import Any

import torch

WIDEST = {"rtol": 0.0, "atol": sys.float_info.max}


def watch() -> list[dict[str, float]]:
    """From now on every ``torch.testing.assert_close`` that fails adds what it was given to the list: ``rtol`` and ``atol`` if it
    was, and ``tolerable``, 0 where it fails with any: by a shape, a type, something missing, or NaN."""
    failed: list[dict[str, float]] = []
    original = torch.testing.assert_close

    def assert_close(actual: Any, expected: Any, **kwargs: Any) -> None:
        try:
            original(actual, expected, **kwargs)
        except AssertionError:
            own = {key: float(kwargs[key]) for key in ("rtol", "atol") if kwargs.get(key) is not None}
            failed.append({**own, "tolerable": float(passes(actual, expected, {**kwargs, **WIDEST}))})
            raise

    def passes(actual: Any, expected: Any, kwargs: dict[str, Any]) -> bool:
        try:
            original(actual, expected, **kwargs)
        except Exception:
            return False
        return True

    torch.testing.assert_close = assert_close
    return failed

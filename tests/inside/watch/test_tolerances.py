"""Comparisons of a script's own that fail: with which tolerance, and whether any would have done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from minimizer.inside.watch import tolerances


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, float]]]:
    monkeypatch.setattr(torch.testing, "assert_close", torch.testing.assert_close)
    yield tolerances.watch()


ONES = torch.ones(3)


@pytest.mark.parametrize(
    ("actual", "expected", "tolerable", "of_values"),
    [
        (ONES * 2, ONES, 1.0, 1.0),
        (ONES.half() * 2, ONES.half(), 1.0, 1.0),
        ([ONES, ONES + 1], [ONES, ONES], 1.0, 1.0),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), 1.0, 1.0),
        ({"loss": 1.5}, {"loss": 1.0}, 1.0, 1.0),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0]), 0.0, 1.0),
        (torch.tensor([torch.inf]), torch.tensor([1.0]), 0.0, 1.0),
        (None, ONES, 0.0, 0.0),
        (ONES, ONES.double(), 0.0, 0.0),
        (ONES, torch.ones(4), 0.0, 0.0),
        ([ONES], [ONES, ONES], 0.0, 0.0),
        ([ONES, None], [ONES * torch.nan, ONES], 0.0, 0.0),
    ],
    ids=[
        "value",
        "half",
        "in a list",
        "integer",
        "number",
        "nan",
        "inf",
        "missing",
        "dtype",
        "shape",
        "length",
        "nan and missing",
    ],
)
def test_what_fails_is_noted(
    failed: list[dict[str, float]], actual: Any, expected: Any, tolerable: float, of_values: float
) -> None:
    with contextlib.suppress(AssertionError):
        torch.testing.assert_close(actual, expected, rtol=1e-7, atol=0.0)
    assert failed == [{"rtol": 1e-7, "atol": 0.0, "tolerable": tolerable, "of_values": of_values}]


def test_what_passes_is_not(failed: list[dict[str, float]]) -> None:
    torch.testing.assert_close(ONES, ONES.clone())
    assert failed == []

"""Groups of elements by order of magnitude: where there is a gap, and none where values go on without one."""

from __future__ import annotations

from typing import Any

import torch

from minimizer.inside.values.magnitudes import LEAST, magnitudes


def groups(reference: torch.Tensor) -> list[list[float]]:
    return [reference[group].flatten().tolist() for group in magnitudes(reference)]


def double(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_values_without_a_gap_are_one_group() -> None:
    for reference in (
        double(*(2.0 ** torch.arange(-40, 40))),
        torch.randn(1000, dtype=torch.float64),
        torch.zeros(3),
        double(),
    ):
        assert magnitudes(reference) == [...]


def test_a_gap_parts_small_values_from_large_ones() -> None:
    small, large = [1.0 + i / 100 for i in range(LEAST)], [-1e9, 2e9]
    assert groups(double(large[0], *small, large[1])) == [small, large]


def test_zeros_and_what_is_not_finite_are_in_the_lowest_group() -> None:
    small = [*[1.0] * LEAST, 0.0, float("inf")]
    assert groups(double(*small, 1e9)) == [small, [1e9]]


def test_few_small_values_are_judged_with_the_next_larger_ones() -> None:
    few, more, large = [1e-9] * (LEAST - 1), [1.0] * LEAST, [1e9]
    assert groups(double(*few, *more, *large)) == [[*few, *more], large]


def test_complex_values_go_by_their_distance_from_zero() -> None:
    small, large = [1j] * LEAST, [1e9 + 1j]
    found = magnitudes(torch.tensor([*small, *large], dtype=torch.complex128))
    assert [int(group.sum()) for group in found if group is not ...] == [LEAST, 1]

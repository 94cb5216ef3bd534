"""The figures of a layer: the worst of its places, and none where no number is the worst."""

from __future__ import annotations

import math

import pytest
import torch

from minimizer.inside.referee import distance
from minimizer.inside.referee.figures import figures
from minimizer.report import confidence

ONES = torch.ones(3)
TOLERANCES = {"required_atol", "required_rtol"}


def test_the_worst_of_all_places() -> None:
    found = figures([(ONES, ONES * 1.25, None), (ONES, ONES * 1.5, None), (ONES, ONES, None)])
    assert (found["max_abs"], found["required_rtol"]) == (0.5, pytest.approx(0.5, rel=1e-4))


def test_no_relative_tolerance_is_enough_for_all_where_one_place_has_none() -> None:
    zeros = torch.zeros(3)
    found = figures([(ONES, ONES * 1.5, None), (zeros, zeros + 2.0, None), (ONES, ONES, None)])
    assert "required_rtol" not in found
    assert found["required_atol"] == 2.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("compiled_is_bad", [True, False])
def test_no_tolerance_passes_what_is_finite_on_one_side_only(bad: float, compiled_is_bad: bool) -> None:
    lost = torch.tensor([1.0, bad, 1.0])
    pair = (ONES, lost) if compiled_is_bad else (lost, ONES)
    found = figures([(*pair, ONES.double()), (ONES, ONES * 1.5, ONES.double())])
    assert found.keys().isdisjoint({"max_abs", "cosine", *TOLERANCES})
    wrong, right = ("compiled_vs_fp64", "eager_vs_fp64") if compiled_is_bad else ("eager_vs_fp64", "compiled_vs_fp64")
    assert wrong not in found and right in found
    assert found["nonfinite"]["side"] == ("compiled" if compiled_is_bad else "eager")


def test_infinities_of_other_signs_have_no_tolerance() -> None:
    assert figures([(ONES * math.inf, -ONES * math.inf, None)]).keys().isdisjoint(TOLERANCES)


def test_what_is_lost_on_both_sides_alike_is_no_error() -> None:
    both = torch.tensor([1.0, math.nan, math.inf])
    found = figures([(both, both.clone(), both.double())])
    assert (found["max_abs"], found["required_atol"], found["required_rtol"]) == (0.0, 0.0, 0.0)
    assert (found["compiled_vs_fp64"], found["eager_vs_fp64"]) == (0.0, 0.0)


def test_the_report_goes_by_the_margin_of_the_referee() -> None:
    """The report may not import torch, and so has a number of its own."""
    assert confidence.FP64_MARGIN == distance.MARGIN

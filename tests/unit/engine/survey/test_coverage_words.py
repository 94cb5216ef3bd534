"""The one sentence that says how much was compared of how much ran, and what to do for more."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.engine.child.protocol import Checked, Largest
from minimizer.engine.survey.coverage import Extent, healthy, rounded_up, uncompared


def seen(compared: int, made: int, planned: int | None = None, **more: Any) -> Checked:
    planned = compared if planned is None else planned
    return Checked(**{"graphs": 1, "calls": compared, "planned": planned, "calls_made": made, **more})


@pytest.mark.parametrize(
    ("checked", "extent", "sentence"),
    [
        (
            seen(8, 192),
            Extent(most_calls=192),
            "No difference in the 8 of 192 calls that were compared (1 graph); --steps 200 compares all.",
        ),
        (
            seen(4, 4, backward=3, graphs=2),
            Extent(most_calls=2),
            "No difference in the 4 of 4 calls that were compared, nor in 3 backward passes (2 graphs).",
        ),
        (
            seen(8, 5000, backward=1),
            Extent(most_calls=5000, all_fits=False),
            "No difference in the 8 of 5,000 calls that were compared, nor in 1 backward pass (1 graph); --steps 5000 compares more.",
        ),
        (
            seen(7, 192, planned=8),
            Extent(most_calls=192),
            "No difference in the 7 of 192 calls that were compared (1 graph); --steps 200 compares more.",
        ),
        (
            seen(7, 8, planned=8),
            Extent(most_calls=8),
            "No difference in the 7 of 8 calls that were compared (1 graph); the others were not.",
        ),
        (  # 64 modules: too few for the last call of each
            seen(97, 192, planned=192),
            Extent(most_calls=3, all_fits=False, is_planned=True),
            "No difference in the 97 of 192 calls that were compared (1 graph): as many as there was time for, the first of each "
            "module and size among them; --steps 10 compares all.",
        ),
    ],
    ids=[
        "by steps",
        "all",
        "too many for the budget",
        "one cannot be compared",
        "only that one is left out",
        "planned",
    ],
)
def test_a_healthy_script_is_told_with_its_coverage(checked: Checked, extent: Extent, sentence: str) -> None:
    assert healthy(checked, extent) == sentence


@pytest.mark.parametrize(
    ("checked", "extent", "end"),
    [
        (seen(8, 8), Extent(8, stopped_after=61.7), "8 of at least 8 calls that were compared (1 graph); the run was stopped after 62 s; --steps 20 lets it run longer."),
        (seen(8, 900), Extent(900, stopped_after=61.7), "8 of at least 900 calls that were compared (1 graph); the run was stopped after 62 s; --steps 900 compares more."),
        (seen(3, 3), Extent(3, stopped_after=40, budget=900), "3 of at least 3 calls that were compared (1 graph); the run was stopped after 40 s; --budget 900 lets it run longer."),
    ],
    ids=["trusted", "called on", "out of time"],
)  # fmt: skip
def test_no_count_of_a_run_that_was_stopped_is_called_the_whole(checked: Checked, extent: Extent, end: str) -> None:
    assert healthy(checked, extent) == f"No difference in the {end}"


def test_where_no_values_are_compared_that_is_said() -> None:
    said = uncompared(seen(0, 12, planned=0), Extent(12))
    assert said == (
        "No crash: 1 compiled graph ran in 12 calls; values were not compared: --expect auto compares them."
    )
    assert "in at least 12 calls; the run was stopped after 5 s" in uncompared(
        seen(0, 12), Extent(12, stopped_after=5.0)
    )


@pytest.mark.parametrize(("number", "rounded"), [(9, 10), (10, 10), (37, 40), (192, 200), (1234, 1300), (5000, 5000)])
def test_a_number_to_be_typed_is_round_and_enough(number: int, rounded: int) -> None:
    assert rounded_up(number) == rounded


@pytest.mark.parametrize(
    ("largest", "sentence"),
    [
        (
            Largest(module="norm", op="aten.group_norm", absolute=0.1711, right="eager"),
            " The largest difference is 0.171 in the output of norm (aten.group_norm): there eager agrees with float64, and compiled code does not.",
        ),
        (
            Largest(absolute=0.5, right="compiled"),
            " The largest difference is 0.5: there compiled code agrees with float64, and eager does not.",
        ),
        (Largest(module="norm", op="aten.group_norm", absolute=0.1711), ""),
        (Largest(absolute=0.0, right="eager"), ""),
        (None, ""),
    ],
)  # fmt: skip
def test_the_side_that_is_right_is_said(largest: Largest | None, sentence: str) -> None:
    checked = seen(8, 8).model_copy(update={"largest": largest})
    assert healthy(checked, Extent(8)) == f"No difference in the 8 of 8 calls that were compared (1 graph).{sentence}"

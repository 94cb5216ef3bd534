"""When two loss curves are one, when rounding parts them, and what parts first."""

from __future__ import annotations

import math

import pytest

from minimizer.engine.advice.curves import (
    MOST_POINTS,
    Sides,
    are_equal,
    deviation,
    drift,
    is_chaos,
    is_within,
    partings,
    same_steps,
)
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.curves import Curve, SignedError
from minimizer.errors import ChildFailed

LINES = [("train.py", 9, "loss.backward()"), ("train.py", 12, "other.backward()")]


def curve(*losses: float, norms: tuple[float | None, float | None] = (1.0, 2.0), line: int = 0) -> Curve:
    return Curve(lines=LINES, steps=[(line, loss, *norms) for loss in losses])


def leaving(at: int, steps: int = 40, by: float = 0.5) -> Curve:
    """A curve that leaves one of ones at a step."""
    return curve(*(1.0 if step < at else 1.0 + by for step in range(1, steps + 1)))


FLAT = leaving(99)


@pytest.mark.parametrize(
    ("compiled", "redrawn", "chaos"),
    [
        (leaving(20), [leaving(18), leaving(24)], True),
        (leaving(20), [leaving(26), leaving(27)], True),
        (leaving(20), [leaving(28), leaving(30)], False),
        (leaving(20), [leaving(18), FLAT, FLAT], False),
        (leaving(20), [leaving(18)], False),
        (leaving(20, by=0.05), [leaving(18), leaving(18)], False),
        (FLAT, [leaving(18), leaving(18)], False),
    ],
    ids=["earlier", "a little later", "later", "one of three", "one run", "too little to see", "it does not part"],
)
def test_rounding_is_to_blame_where_it_parts_eager_from_itself_as_soon(
    compiled: Curve, redrawn: list[Curve], chaos: bool
) -> None:
    assert is_chaos(Sides(FLAT, compiled, tuple(redrawn))) is chaos


def test_a_loss_that_is_all_rounding_is_no_chaos() -> None:
    noisy = Sides(FLAT, leaving(1), (leaving(1, by=-0.4), leaving(1, by=0.6)))
    assert not is_chaos(noisy) and is_within(noisy)


@pytest.mark.parametrize(("by", "within"), [(0.05, True), (0.2, False)])
def test_within_the_floor_is_no_further_than_redrawn_runs_are_by_then(by: float, within: bool) -> None:
    floor = (leaving(20, by=0.04), leaving(20, by=-0.05))
    assert is_within(Sides(FLAT, leaving(20, by=by), floor)) is within
    assert not is_within(Sides(FLAT, leaving(5, by=by), floor))
    assert not is_within(Sides(FLAT, leaving(20, by=by)))


def test_a_loss_that_is_lost_is_as_far_as_can_be_and_one_that_both_lose_is_equal() -> None:
    lost = curve(1.0, math.nan)
    assert deviation(curve(1.0, 1.0), lost).values == (0.0, math.inf)
    assert deviation(lost, lost).largest == 0 and are_equal(lost, lost)


def test_a_loss_near_zero_is_related_to_those_of_its_own_line() -> None:
    eager, other = curve(1.0, 1.0, 1e-6), curve(1.0, 1.0, 3e-6)
    assert deviation(eager, other).largest < 1e-4


def test_the_figure_that_parts_first_is_told_with_its_step() -> None:
    eager, other = curve(1.0, 1.0, 1.0), curve(1.0, 1.0 + 1e-9, 1.5)
    other = other.model_copy(update={"steps": [(0, 1.0, 1.0, 2.1), *other.steps[1:]]})
    told = [(one.what, one.differs, one.parts) for one in partings(Sides(eager, other))]
    assert told == [("loss", 2, 3), ("gradient norm", None, None), ("parameter norm", 1, 1)]


def test_norms_that_nobody_knows_are_not_told() -> None:
    run = curve(1.0, 1.0, norms=(None, None))
    assert [one.what for one in partings(Sides(run, run))] == ["loss"]


def test_norms_that_one_side_does_not_know_are_no_difference() -> None:
    eager, compiled = curve(1.0, 1.0), curve(1.0, 1.0, norms=(None, None))
    assert are_equal(eager, compiled) and are_equal(compiled, eager)
    assert [one.what for one in partings(Sides(eager, compiled))] == ["loss"]
    half = compiled.model_copy(update={"steps": [compiled.steps[0], (0, 1.0, 1.0, 2.0)]})
    assert [(one.differs, one.parts) for one in partings(Sides(eager, half))] == [(None, None)] * 3


def test_a_step_of_a_line_that_is_not_there_is_malformed() -> None:
    with pytest.raises(ChildFailed, match="a step is of a line that is not there"):
        parse(Curve, {"lines": LINES, "steps": [(2, 1.0, None, None)]})


@pytest.mark.parametrize("figures", [{"error": 0.0}, {"error": "NaN"}, {"mean": "Infinity"}, {"eager": "NaN"}])
def test_a_bias_without_its_figures_is_malformed(figures: dict[str, object]) -> None:
    known = {"place": {"file": "train.py", "line": 9}, "side": "upwards", "is_node": True, "calls": 9}
    whole = {**known, "mean": 0.3, "error": 0.01, "eager": 0.0}
    assert parse(SignedError, whole).mean == 0.3
    with pytest.raises(ChildFailed):
        parse(SignedError, {**whole, **figures})


def test_of_several_losses_the_one_that_parts_is_drawn() -> None:
    both = Curve(lines=LINES, steps=[(0, 1.0, None, None), (1, 5.0, None, None)] * 3)
    other = both.model_copy(update={"steps": [*both.steps[:3], (1, 6.0, None, None), *both.steps[4:]]})
    found = drift(Sides(both, other), "apart", "")
    assert found.source is not None and found.source.line == 12
    assert (found.at, found.eager, found.compiled) == ([2, 4, 6], [5.0, 5.0, 5.0], [5.0, 6.0, 5.0])


def test_a_long_curve_is_thinned_out() -> None:
    found = drift(Sides(leaving(20, 3000), leaving(21, 3000)), "apart", "")
    assert len(found.at) == len(found.eager) == MOST_POINTS and found.steps == 3000


def test_other_steps_cannot_be_compared() -> None:
    assert same_steps(leaving(3, 9), leaving(4, 9))
    assert not same_steps(leaving(3, 9), leaving(3, 8))
    assert not same_steps(leaving(3, 9), Curve(lines=LINES, steps=[(1, 1.0, None, None)] * 9))

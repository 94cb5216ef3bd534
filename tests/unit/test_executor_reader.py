"""The executor's reading of what trials say; with real children in tests/inside."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.errors import ChildFailed
from minimizer.executor import _outcomes
from minimizer.protocol import Outcome

END: dict[str, Any] = {"exit": 0, "signal": None, "timed_out": False, "seconds": 1.5, "log": "said"}


@pytest.mark.parametrize(
    ("answer", "end", "word"),
    [
        ({"outcome": "same"}, {}, "same"),
        ({"outcome": "same"}, {"signal": 11}, "same"),
        ({"outcome": "same"}, {"timed_out": True, "signal": 9}, "timeout"),
        (None, {"timed_out": True, "signal": 9}, "timeout"),
        (None, {"exit": None, "signal": 6}, "crash"),
        (None, {"exit": 70}, "lost"),
        (None, {}, "lost"),
    ],
)
def test_how_a_trial_ended(answer: dict[str, Any] | None, end: dict[str, Any], word: str) -> None:
    """What it answered before it died stands; what comes too late does not."""
    answers = [{**answer, "phase": "compiled"}] if answer else []
    outcome = _outcomes(answers, "compiled", {**END, **end}, is_under_way=not answers)[-1]
    assert isinstance(outcome, Outcome)
    assert (outcome.outcome, outcome.phase, outcome.log) == (word, "compiled", "said")


@pytest.mark.parametrize(
    ("end", "under_way", "words"),
    [
        ({}, False, ["same", "different"]),
        ({}, True, ["same", "different"]),
        ({"exit": None, "signal": 11}, True, ["same", "different", "crash"]),
        ({"timed_out": True, "signal": 9}, True, ["same", "different", "timeout"]),
    ],
)
def test_every_compilation_of_a_trial_has_an_outcome(end: dict[str, Any], under_way: bool, words: list[str]) -> None:
    answers = [{"outcome": "same", "phase": "compare"}, {"outcome": "different", "phase": "backward"}]
    outcomes = _outcomes(answers, "compiled", {**END, **end}, is_under_way=under_way)
    assert [o.outcome for o in outcomes] == words
    assert [o.phase for o in outcomes] == ["compare", "backward", "compiled"][: len(words)]
    assert sum(o.seconds for o in outcomes) == pytest.approx(1.5)


@pytest.mark.parametrize("forged", [{"seconds": "soon"}, {"signal": []}, {"log": 3}])
def test_a_forged_end_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed End"):
        _outcomes([], "", {**END, **forged}, is_under_way=True)


@pytest.mark.parametrize("answer", [{}, {"outcome": "minimized"}, {"outcome": "different", "verdict": 5}])
def test_a_forged_answer_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed Outcome"):
        _outcomes([answer], "", END, is_under_way=False)

"""What is made of what trials say; with real children in tests/inside."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.transcript import MAX_BYTES, MAX_OUTCOMES, MAX_PARTS, Transcript
from minimizer.errors import ChildFailed

END: dict[str, Any] = {"exit": 0, "signal": None, "timed_out": False, "seconds": 1.5, "log": "said"}
KILLED = {"timed_out": True, "signal": 9}
PASS = "post_grad_passes/mine"


def heard(*messages: dict[str, Any]) -> Transcript:
    transcript = Transcript()
    for message in messages:
        transcript.hear(message, 0)
    return transcript


def phase(name: str) -> dict[str, Any]:
    return {"type": "phase", "phase": name}


def outcome(word: str) -> dict[str, Any]:
    return {"type": "outcome", "ending": word}


def part(name: str, acted: bool | None) -> dict[str, Any]:
    return {"type": "part", "name": name, "acted": acted}


def outcomes(transcript: Transcript, end: dict[str, Any]) -> list[Outcome]:
    return transcript.outcomes({**END, **end})


@pytest.mark.parametrize(
    ("answers", "end", "word"),
    [
        (["same"], {}, "same"),
        (["same"], {"signal": 11}, "same"),
        (["same"], KILLED, "timeout"),
        ([], KILLED, "timeout"),
        ([], {"exit": None, "signal": 6}, "crash"),
        ([], {"exit": 70}, "lost"),
        ([], {}, "lost"),
    ],
)
def test_how_a_trial_ended(answers: list[str], end: dict[str, Any], word: str) -> None:
    """What it answered before it died stands; what comes too late does not."""
    last = outcomes(heard(phase("compiled"), *map(outcome, answers)), end)[-1]
    assert (last.ending, last.phase, last.log) == (word, "compiled", "said")


@pytest.mark.parametrize(
    ("end", "further", "words"),
    [
        ({}, [], ["same", "different"]),
        ({}, [phase("compiled")], ["same", "different"]),
        ({"exit": None, "signal": 11}, [phase("compiled")], ["same", "different", "crash"]),
        (KILLED, [phase("compiled")], ["same", "different", "timeout"]),
    ],
)
def test_every_compilation_of_a_trial_has_an_outcome(
    end: dict[str, Any], further: list[dict[str, Any]], words: list[str]
) -> None:
    said = heard(phase("compare"), outcome("same"), phase("backward"), outcome("different"), *further)
    found = outcomes(said, end)
    assert [o.ending for o in found] == words
    assert [o.phase for o in found] == ["compare", "backward", "compiled"][: len(words)]
    assert sum(o.seconds for o in found) == pytest.approx(1.5)


@pytest.mark.parametrize("end", [KILLED, {"exit": None, "signal": 6}])
def test_a_pass_in_which_a_trial_died_made_a_difference(end: dict[str, Any]) -> None:
    said = [phase("compiled"), part("passes/other", None), part("passes/other", False), part(PASS, None)]
    assert outcomes(heard(*said), end)[0].parts == {"passes/other": False, PASS: True}
    assert outcomes(heard(*said, part(PASS, False)), end)[0].parts == {"passes/other": False, PASS: False}


def test_a_pass_within_one_that_raised_is_not_open() -> None:
    said = heard(phase("compiled"), part("outer", None), part("inner", None), part("outer", True), part("later", None))
    assert outcomes(said, KILLED)[0].parts == {"outer": True, "inner": False, "later": True}


def test_what_made_a_difference_once_did() -> None:
    said = heard(phase("compiled"), part(PASS, True), part(PASS, False), outcome("same"))
    assert outcomes(said, {})[0].parts == {PASS: True}


def test_a_child_cannot_make_us_keep_more_than_we_want() -> None:
    said = heard(*(part(f"passes/{n % (MAX_PARTS + 5)}", None) for n in range(2 * MAX_PARTS)))
    assert len(outcomes(said, KILLED)[0].parts) == MAX_PARTS
    assert len(outcomes(heard(*[outcome("same")] * (MAX_OUTCOMES + 5)), {})) == MAX_OUTCOMES
    said = heard(outcome("same"))
    said.hear(outcome("same"), MAX_BYTES)
    assert len(outcomes(said, {})) == 1


@pytest.mark.parametrize("forged", [{"seconds": "soon"}, {"signal": []}, {"log": 3}])
def test_a_forged_end_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed End"):
        outcomes(heard(), forged)


@pytest.mark.parametrize("answer", [{}, {"ending": "minimized"}, {"ending": "different", "verdict": 5}])
def test_a_forged_answer_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed Outcome"):
        outcomes(heard({"type": "outcome", **answer}), {})

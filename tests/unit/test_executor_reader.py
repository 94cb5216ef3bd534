"""The executor's reading of lines that come from the far side; with real children in tests/inside."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.errors import ChildFailed
from minimizer.executor import _message, _outcome
from minimizer.protocol import Outcome

END: dict[str, Any] = {"exit": 0, "signal": None, "timed_out": False, "seconds": 1.5, "log": "said"}


@pytest.mark.parametrize("line", [b'{"id": 3, "message": {"type": "phase"}}\n', b'{"id": 0, "end": {}}\n'])
def test_messages(line: bytes) -> None:
    assert _message(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage\n",
        b"null\n",
        b"5\n",
        b"[]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"9" * 10_000 + b"\n",
        b"{}\n",
        b'{"id": 3}\n',
        b'{"id": "3", "message": {}}\n',
        b'{"id": [], "message": {}}\n',
        b'{"id": 3, "message": 5}\n',
        b'{"id": 3, "message": null}\n',
        b'{"id": 3, "message": {}, "end": 5}\n',
        b'{"id": 3, "message": {"type": "phase"}',
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_no_messages(line: bytes) -> None:
    assert _message(line) is None


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
    outcome = _outcome(answer, "compiled", {**END, **end})
    assert isinstance(outcome, Outcome)
    assert (outcome.outcome, outcome.phase, outcome.seconds, outcome.log) == (word, "compiled", 1.5, "said")


@pytest.mark.parametrize("forged", [{"seconds": "soon"}, {"signal": []}, {"log": 3}])
def test_a_forged_end_is_refused(forged: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed End"):
        _outcome(None, "", {**END, **forged})


@pytest.mark.parametrize("answer", [{}, {"outcome": "minimized"}, {"outcome": "different", "verdict": 5}])
def test_a_forged_answer_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ChildFailed, match="malformed Outcome"):
        _outcome(answer, "", END)

"""What is made of PyTorch's own minifier: it is a witness, and its own troubles are no evidence."""

from __future__ import annotations

import pytest

from minimizer.engine.witness import minifier
from minimizer.engine.witness.minifier import OWN_ERRORS, _judge


def test_a_dump_agrees() -> None:
    outcome, agrees = _judge(1, "AccuracyError: Bad accuracy detected\n", True, 60)
    assert agrees is True
    assert "dumped" in outcome


def test_a_clean_end_saw_nothing() -> None:
    assert _judge(0, "all good\n", False, 60) == ("saw nothing: the script ended well under it", False)


def test_a_witness_that_takes_too_long_says_nothing() -> None:
    for dumped in (True, False):
        assert _judge(None, "iteration 1\n", dumped, 60) == ("did not end within 60 s", None)


@pytest.mark.parametrize("own", OWN_ERRORS)
@pytest.mark.parametrize("dumped", [True, False])
@pytest.mark.parametrize("status", [0, 1])
def test_trap_01_its_own_errors_are_not_the_users_bug(own: str, dumped: bool, status: int) -> None:
    outcome, agrees = _judge(
        status, f"Traceback\n  ...\nTypeError: {own} in the harness\n\nMinifier script written\n", dumped, 60
    )
    assert agrees is None
    assert outcome.startswith("broke by itself: TypeError: ")


@pytest.mark.parametrize("own", OWN_ERRORS)
def test_what_the_users_failure_says_is_no_error_of_its_own(own: str) -> None:
    """A script may really fail like that under the compiler: then its own message is all that such a line holds."""
    message = f"AttributeError: {own} 'shape'"
    log = f"Traceback\n  ...\n  torch._dynamo.exc.InternalTorchDynamoError: {message}\n"
    for said in (message, f"{message}\n\nfrom user code:\n"):
        assert _judge(1, log, True, 60, said) == ("saw a failure and dumped a graph to minify", True)
    outcome, agrees = _judge(1, f"{log}TypeError: {own} in the harness\n", True, 60, message)
    assert agrees is None
    assert outcome.startswith("broke by itself: TypeError: ")


def test_a_failure_that_says_little_excuses_no_error_of_its_own() -> None:
    for message in ("", "AttributeError: "):
        _, agrees = _judge(1, "AttributeError: 'NoneType' object has no attribute 'x'\n", True, 60, message)
        assert agrees is None


def test_a_failure_without_a_dump_is_no_evidence() -> None:
    """The script's own assertion fails under it as without it."""
    outcome, agrees = _judge(1, "Traceback\nAssertionError: too far apart\n  \n", False, 60)
    assert agrees is None
    assert outcome.endswith("AssertionError: too far apart")


@pytest.mark.parametrize("status", [1, 137, -11])
def test_a_silent_end_is_no_evidence(status: int) -> None:
    outcome, agrees = _judge(status, "", False, 60)
    assert agrees is None
    assert outcome == "the script failed under it and nothing was dumped: "


def test_a_long_last_line_is_cut() -> None:
    assert len(_judge(1, "x" * 5000, False, 60)[0]) < 300


@pytest.mark.parametrize(
    ("sees", "fails", "agrees"),
    [(True, True, True), (False, True, False), (True, False, False), (False, False, True), (None, True, None)],
)
def test_a_witness_agrees_with_the_verdict_and_not_with_a_failure(
    sees: bool | None, fails: bool, agrees: bool | None
) -> None:
    heard = minifier.Testimony("aot", 4, "so it is", sees, None, "")
    assert heard.witness(fails=fails).agrees is agrees

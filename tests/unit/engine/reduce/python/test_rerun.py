"""How a run of a whole script failed: checks of the script are told from assertions of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.rerun import Rerun, script_signature
from minimizer.inside.questions import ScriptRequest
from minimizer.vocabulary import Kind

GENERATED = f"c{'a7' * 25}.py"


def failed(
    *frames: str, type_: str = "AssertionError", ending: Ending = Ending.RUNTIME_ERROR, message: str = "no"
) -> Outcome:
    root = [[file, "f", "assert x"] for file in frames]
    error = ExceptionInfo(type=type_, message=message, root_type="AssertionError", root_message=message, frames=root)
    return Outcome(ending=ending, exception=error)


@pytest.mark.parametrize(
    ("frames", "what"), [(["script.py"], "assert"), (["script.py", "torch/testing/_comparison.py"], "assert_close")]
)
def test_a_check_of_the_script_is_a_wrong_output(frames: list[str], what: str) -> None:
    signature = script_signature(failed(*frames))
    assert signature is not None
    assert (signature.kind, signature.what) == (Kind.WRONG_OUTPUT, what)


def test_a_shape_that_differs_is_no_wrong_value() -> None:
    message = "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([1, 4])."
    signature = script_signature(failed("script.py", "torch/testing/_comparison.py", message=message))
    assert signature is not None
    assert (signature.kind, signature.what) == (Kind.WRONG_METADATA, "assert_close")


def test_an_assertion_of_the_compiler_is_an_error() -> None:
    """Dynamo asserts that a backend returned something; a script that was reduced to that shows another failure."""
    wrapped = script_signature(
        failed("script.py", type_="torch._dynamo.exc.BackendCompilerFailed", ending=Ending.COMPILE_ERROR)
    )
    assert wrapped is not None and wrapped.kind is Kind.COMPILE_ERROR
    for file in ("torch/_dynamo/output_graph.py", "torch/nn/functional.py", GENERATED):
        inner = script_signature(failed("script.py", file))
        assert inner is not None and inner.kind is Kind.RUNTIME_ERROR


class Canned:
    """An executor of scripts that end well in eager; compiled they raise what their text says, at a line of theirs."""

    jobs = 1

    def judge(self, requests: Sequence[ScriptRequest], **_: Any) -> list[Outcome]:
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ScriptRequest) -> Outcome:
        if not request.compile:
            return Outcome(ending=Ending.SAME)
        line = request.text.strip()
        message = line.partition("'")[2].rstrip("')")
        error = {"type": "RuntimeError", "message": message, "root_type": "RuntimeError", "root_message": message}
        return Outcome(
            ending=Ending.RUNTIME_ERROR, exception=ExceptionInfo(**error, frames=[("script.py", "<module>", line)])
        )


@pytest.mark.parametrize(
    ("whole", "smaller", "is_same"),
    [
        ("raise RuntimeError('the tangent is lost')", "raise RuntimeError('the tangent is lost')", True),
        ("raise RuntimeError('the tangent is lost')", "raise RuntimeError()", False),
        ("f('of torch, for 2 rows')", "f('of torch, for 41 rows')", True),
        ("f('of torch, in its own words')", "f()", False),
    ],
    ids=["as it was", "without a word", "of torch", "of torch, without a word"],
)
def test_what_the_script_raises_keeps_its_words(whole: str, smaller: str, is_same: bool) -> None:
    rerun = Rerun(cast(Executor, Canned()), Path("script.py"))
    rerun.target, _ = rerun.failure(whole)
    assert rerun.check([Source.parse(smaller)]) == [is_same]

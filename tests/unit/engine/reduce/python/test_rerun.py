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


@pytest.mark.parametrize(
    ("message", "what", "nonfinite"),
    [
        ("Tensor-likes are not close!\n\nGreatest absolute difference: 2e-3 at index (1,) (up to 1e-05 allowed)", "assert_close", False),
        ("Tensor-likes are not close!\n\nGreatest absolute difference: nan at index (1,) (up to 1e-05 allowed)", "assert_close", True),
        ("Tensor-likes are not close!\n\nGreatest absolute difference: inf at index (0,) (up to 1e-05 allowed)", "assert_close", True),
        ("Scalars are not close!\n\nExpected 2.0 but got nan.\nAbsolute difference: nan (up to 1e-05 allowed)", "assert_close", True),
        ("None mismatch: None is not tensor([1.])\n\nThe failure occurred for item [0]", "type", False),
    ],
)  # fmt: skip
def test_a_failing_comparison_tells_the_sort_of_its_difference(message: str, what: str, *, nonfinite: bool) -> None:
    signature = script_signature(failed("script.py", "torch/testing/_comparison.py", message=message))
    assert signature is not None
    assert (signature.kind, signature.what, signature.nonfinite) == (Kind.WRONG_OUTPUT, what, nonfinite)


@pytest.mark.parametrize(
    ("whole", "smaller", "is_same"),
    [
        pytest.param("Greatest absolute difference: 2.0", "Greatest absolute difference: 0.1", True, id="finite"),
        pytest.param("Greatest absolute difference: 2.0", "Greatest absolute difference: nan", False, id="to NaN"),
        pytest.param("Greatest absolute difference: nan", "Greatest absolute difference: 2.0", False, id="from NaN"),
        pytest.param("Greatest absolute difference: 2.0", "None mismatch: None", False, id="to None"),
    ],
)
def test_a_script_whose_comparison_fails_otherwise_is_another_failure(
    whole: str, smaller: str, *, is_same: bool
) -> None:
    rerun = Rerun(cast(Executor, Compared()), Path("script.py"))
    rerun.target, _ = rerun.failure(f"f('{whole}')")
    assert rerun.check([Source.parse(f"f('{smaller}')")]) == [is_same]


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


class Compared(Canned):
    """The same of scripts whose comparison fails with what their text says."""

    def _outcome(self, request: ScriptRequest) -> Outcome:
        if not request.compile:
            return Outcome(ending=Ending.SAME)
        message = request.text.partition("'")[2].partition("'")[0]
        return failed("script.py", "torch/testing/_comparison.py", message=message)


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

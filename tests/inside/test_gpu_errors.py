"""What a GPU says when it fails, with exceptions that only have its words: no card is needed for what we make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import SECONDS, survey, trial
from children import script as write_script

from minimizer.engine.child.executor import Executor
from minimizer.engine.pipeline import minimize
from minimizer.engine.survey.cases import Case, ScriptCase, Settled
from minimizer.errors import ChildFailed, Unanswered
from minimizer.inside.questions import TrialRequest
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Status

ILLEGAL = "CUDA error: an illegal memory access was encountered"
STICKY = (
    ILLEGAL,
    "CUDA error: device-side assert triggered",
    "Triton Error [CUDA]: misaligned address",
    "CUDA error: unspecified launch failure",
)
FULL = "CUDA out of memory. Tried to allocate 2.00 GiB."

RAISES = """
import torch

def raises(error):
    def backend(gm, example):
        def run(*args):
            raise error
        return run
    return backend
"""


def failing(error: str, **changes: Any) -> TrialRequest:
    """A trial whose compiled code raises this."""
    return trial("return x.sin()", setup=RAISES, compile_kwargs=f"backend=raises({error})", **changes)


@pytest.mark.parametrize("said", STICKY)
def test_a_process_that_has_lost_its_gpu_compiles_nothing_more(child: Executor, said: str) -> None:
    many = {"compilations": 3, "failures": 3}
    (outcomes,) = child.repeat([failing(f"RuntimeError({said!r})", **many)], timeout=SECONDS)
    assert [outcome.ending for outcome in outcomes] == ["runtime_error"]
    assert outcomes[0].exception is not None and outcomes[0].exception.device == "context_lost"


def test_after_any_other_error_it_goes_on(child: Executor) -> None:
    many = {"compilations": 3, "failures": 3}
    (outcomes,) = child.repeat([failing("RuntimeError('an ordinary one')", **many)], timeout=SECONDS)
    assert [outcome.ending for outcome in outcomes] == ["runtime_error"] * 3


def test_eager_that_loses_the_gpu_is_to_blame_itself(child: Executor) -> None:
    (outcome,) = child.judge([trial(f"raise RuntimeError({ILLEGAL!r})")], timeout=SECONDS)
    assert outcome.ending == "eager_error"


@pytest.mark.parametrize(("calls", "outcome"), [(1, "eager_error"), (2, "runtime_error")])
def test_the_error_of_a_kernel_is_raised_where_the_kernel_ran(child: Executor, calls: int, outcome: str) -> None:
    """A kernel runs by itself, and its error is raised by whatever waits for it: at the first wait it is eager's."""
    setup = f"""
    waits = 0
    def synchronize():
        global waits
        waits += 1
        if waits == {calls}:
            raise RuntimeError({ILLEGAL!r})
    torch.cuda.is_initialized = lambda: True
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = synchronize
    """
    (found,) = child.judge([trial("return x.sin()", setup=setup)], timeout=SECONDS)
    assert found.ending == outcome
    assert found.exception is not None and found.exception.device == "context_lost"


def test_while_a_graph_is_captured_nothing_waits(child: Executor) -> None:
    setup = """
    def synchronize():
        raise RuntimeError("operation not permitted when stream is capturing")
    torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
    torch.cuda.synchronize = synchronize
    """
    (found,) = child.judge([trial("return x.sin()", setup=setup)], timeout=SECONDS)
    assert found.ending == "same"


# out of memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        f"torch.OutOfMemoryError({FULL!r})",
        pytest.param("RuntimeError('CUBLAS_STATUS_ALLOC_FAILED when calling')", marks=pytest.mark.quality("slow")),
    ],
)
def test_a_trial_that_always_runs_out_of_memory_is_no_verdict(child: Executor, error: str) -> None:
    before = child.ran_out
    outcomes = child.judge([failing(error), trial("return x + 1")], timeout=SECONDS)
    assert [outcome.ending for outcome in outcomes] == ["lost", "same"]
    assert child.ran_out == before + 1


def test_a_trial_that_runs_out_of_memory_beside_others_is_asked_again_by_itself(child: Executor) -> None:
    before = child.ran_out
    full = f"""
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    def backend(gm, example):
        def run(*args):
            try:
                os.mkdir(os.path.join(folder, "asked-before"))
            except FileExistsError:
                return gm(*args)
            raise torch.OutOfMemoryError({FULL!r})
        return run
    """
    outcome, other = child.judge(
        [trial("return x.sin()", setup=full, compile_kwargs="backend=backend"), trial("return x + 1")],
        timeout=SECONDS,
    )
    assert (outcome.ending, other.ending) == ("same", "same")
    assert child.ran_out == before


# scripts ----------------------------------------------------------------------------------------------------------------

Triaged = Callable[..., Case | ScriptCase | Settled]

LOSES = f"""
{RAISES}
f = torch.compile(lambda x: x.sin(), backend=raises(RuntimeError({ILLEGAL!r})))
"""


def test_a_call_that_loses_the_gpu_is_held_in_another_process(triage: Triaged) -> None:
    """The values of the call lie on a GPU that the process can read no more."""
    found = triage(LOSES + "f(torch.ones(4))\n")
    assert isinstance(found, Case)
    assert (found.signature.kind, found.signature.where) == (Kind.RUNTIME_ERROR, "")
    assert found.message == f"RuntimeError: {ILLEGAL}"
    assert found.survey.golden(frozenset(i.golden for i in found.program.inputs if i.golden)).exists()
    found.survey.close()


def test_a_script_that_catches_the_error_does_not_go_on(child: Executor, home: Path) -> None:
    text = LOSES + "try:\n    f(torch.ones(4))\nexcept RuntimeError:\n    pass\nraise ValueError('went on')\n"
    seen = survey(child, write_script(home, text))
    assert seen.finished is not None and seen.finished.lost is not None
    assert (seen.finished.lost.graph, seen.finished.lost.call, seen.finished.lost.phase) == (0, 0, "run")
    assert seen.finished.exception is not None and seen.finished.exception.root_message == ILLEGAL


def test_an_error_while_it_compiles(child: Executor, home: Path) -> None:
    text = f"""
    import torch
    def backend(gm, example):
        raise RuntimeError({ILLEGAL!r})
    torch.compile(lambda x: x.sin(), backend=backend)(torch.ones(4))
    """
    seen = survey(child, write_script(home, text))
    assert seen.finished is not None and seen.finished.lost is not None
    assert (seen.finished.lost.call, seen.finished.lost.phase) == (None, "compile")


def test_eager_that_loses_the_gpu_in_a_graph_is_no_fault_of_the_compiler(triage: Triaged) -> None:
    text = f"""
    import torch
    @torch.library.custom_op("mine::faults", mutates_args=())
    def faults(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError({ILLEGAL!r})
    @faults.register_fake
    def _(x):
        return torch.empty_like(x)
    torch.compile(lambda x: faults(x), backend="eager")(torch.ones(4))
    """
    found = triage(text)
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)


def test_a_holder_that_loses_the_gpu_answers_no_more(child: Executor, home: Path) -> None:
    gone = home / "gpu-is-gone"
    text = f"""
    import os
    import torch
    @torch.library.custom_op("mine::sin", mutates_args=())
    def sin(x: torch.Tensor) -> torch.Tensor:
        if os.path.exists({str(gone)!r}):
            raise RuntimeError({ILLEGAL!r})
        return x.sin()
    @sin.register_fake
    def _(x):
        return torch.empty_like(x)
    def wrong(gm, example):
        return lambda *args: [out + 1 for out in gm(*args)]
    torch.compile(lambda x: sin(x).cos(), backend=wrong)(torch.ones(4))
    """
    seen = survey(child, write_script(home, text))
    assert seen.held is not None
    program = seen.program("dynamo")
    gone.touch()
    with pytest.raises(Unanswered, match="illegal memory access"):
        seen.golden(frozenset([program.nodes[0].name]))
    with pytest.raises(ChildFailed, match="the holder of the graph is gone"):
        seen.golden(frozenset([program.inputs[0].golden or ""]))
    gone.unlink()


def test_memory_that_only_our_run_lacks_is_no_failure(triage: Triaged) -> None:
    text = (
        f"{RAISES}\ntorch.compile(lambda x: x.sin(), backend=raises(torch.OutOfMemoryError({FULL!r})))(torch.ones(4))\n"
    )
    found = triage(text)
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert "says nothing of the compiler" in found.summary


def test_a_script_that_runs_out_of_memory_by_itself_fails_in_eager(triage: Triaged) -> None:
    text = f"""
    import torch
    torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(4))
    raise torch.OutOfMemoryError({FULL!r})
    """
    found = triage(text)
    assert isinstance(found, Settled)
    assert found.reason is Reason.FAILS_IN_EAGER


@pytest.mark.quality("slow")
def test_what_runs_out_of_memory_when_it_is_compared_and_ends_well_by_itself_is_no_failure(tmp_path: Path) -> None:
    """Nothing of ours holds memory beside a plain run; only our own runs are told of the caches."""
    text = f"""
    import os
    import torch
    def full(gm, example):
        if "TORCHINDUCTOR_FX_GRAPH_CACHE" in os.environ:
            raise torch.OutOfMemoryError({FULL!r})
        return gm
    torch.compile(lambda x: x.sin(), backend=full)(torch.ones(4))
    """
    (tmp_path / "home").mkdir()
    report = minimize(
        write_script(tmp_path / "home", text),
        options=Options(witness=False, diagnosis=False),
        settings=Settings(trial_jobs=2),
        sink=FolderSink(tmp_path / "out"),
    )
    assert (report.status, report.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED), report.summary
    assert "says nothing of the compiler" in report.summary
    plain = ["plain run, compiled", "plain run, TORCHDYNAMO_DISABLE=1"]
    assert [(attempt.what, attempt.outcome) for attempt in report.attempts] == [(way, "it ends well") for way in plain]

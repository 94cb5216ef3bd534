"""The ladder: its rungs for whatever backend a program asks for, and which of them is the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome, Verdict
from minimizer.engine.diagnose.ladder import LADDER, climb, rungs
from minimizer.engine.diagnose.own_backend import backend_of
from minimizer.engine.fold import fault_of
from minimizer.engine.journal import Journal
from minimizer.engine.levels.script import PythonLevel
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.reduce.python import Source
from minimizer.engine.survey.cases import Settled
from minimizer.inside.questions import ScriptRequest
from minimizer.report.model import Failure, Reduction, Report, Reproducibility
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status


@pytest.mark.parametrize(
    ("own", "last"),
    [
        (None, ("inductor", Stage.INDUCTOR)),
        ("'inductor'", ("inductor", Stage.INDUCTOR)),
        ("'aot_eager'", ("aot_eager", Stage.AOT_AUTOGRAD)),
        ("my_backend", ("my_backend", Stage.CUSTOM_BACKEND)),
        ("'cudagraphs'", ("cudagraphs", Stage.CUDAGRAPHS)),
        ("'minimizer'", ("inductor", Stage.INDUCTOR)),
    ],
)
def test_the_last_rung_is_what_the_program_asks_for(own: str | None, last: tuple[str, Stage]) -> None:
    *below, end = rungs(own)
    assert end == last
    assert below == list(LADDER[: len(below)])


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("torch.compile(f)(x)", None),
        ("torch.compile(Cache(), backend=merge)(x)", "merge"),
        ("@torch.compile(fullgraph=True, backend='aot_eager')\ndef f(x): return x", "'aot_eager'"),
        ("model.compile(backend=partial(merge, 2))", "partial(merge, 2)"),
        ("re.compile('x')", None),
        ("import re\nre.compile('x')\ntorch.compile(f, backend='aot_eager')", "'aot_eager'"),
        ("from re import compile\ncompile('x')\ntorch.compile(f, backend='aot_eager')", "'aot_eager'"),
        ("from torch import compile\ncompile(f, backend='aot_eager')", "'aot_eager'"),
        ("import torch as t\n@t.compile\ndef f(x): return x", None),
        ("torch._dynamo.optimize('aot_eager')(f)", "'aot_eager'"),
        ("import torch._dynamo as dynamo\ndynamo.optimize(nopython=True, backend='aot_eager')(f)", "'aot_eager'"),
        ("torch._dynamo.optimize()(f)", None),
    ],
)
def test_the_backend_is_read_from_the_script(text: str, backend: str | None) -> None:
    assert backend_of(text) == backend


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("torch.compile(f, backend='eager')(x)\ntorch.compile(f)(x)", None),
        ("torch.compile(f)(x)\ntorch.compile(f, backend='eager')(x)", None),
        ("@torch.compile\ndef f(x): return x\ntorch.compile(g, backend='eager')", None),
        ("model.compile()\ntorch.compile(f, backend='eager')", None),
        ("torch.compile(f, backend='aot_eager')(x)\ntorch.compile(f, backend=merge)(x)", None),
        ("torch.compile(f, backend='eager')(x)\ntorch.compile(f, backend='aot_eager')(x)", "'aot_eager'"),
        ("for b in ('eager', 'inductor'): torch.compile(f, backend=b)", "'inductor'"),
        ("def run(b): torch.compile(f, backend=b)\nassert run('inductor') == run('aot_eager')", None),
        ("for b in ('eager', 'aot_eager'): torch.compile(f, backend=b)", "'aot_eager'"),
        ("merge = make()\ntorch.compile(f, backend=merge)(x)\ntorch.compile(f, backend='eager')(x)", "merge"),
        ("for b in ('eager', merge): torch.compile(f, backend=b)", "b"),
        ("torch.compile(f, backend='eager')(x)\ntorch.compile(f, backend='eager')(y)", "'eager'"),
    ],
)
def test_a_backend_that_another_is_compared_with_is_not_to_blame(text: str, backend: str | None) -> None:
    assert backend_of(text) == backend


PROGRAM = Program((Input("x", None, code="torch.ones(2)"),), (Node("y", "torch.relu", (Ref("x"),)),), ("y",))
FAILS, LOST, SETUP = (
    Outcome(ending=Ending.CRASH, phase="compiled", signal=11),
    Outcome(ending=Ending.LOST),
    Outcome(ending=Ending.SETUP_ERROR),
)
PASSES = Outcome(ending=Ending.SAME)


@dataclass
class Rungs:
    """An oracle for which the rungs of the ladder end as told; the last is the program as it is."""

    ends: Sequence[Outcome]
    kind: Kind = Kind.CRASH

    @property
    def accepts(self) -> tuple[Signature, ...]:
        return (Signature(self.kind),)

    def judge(self, programs: Sequence[Program]) -> list[Outcome]:
        assert len(programs) == len(self.ends) - 1
        return list(self.ends[:-1])

    def measure(self, program: Program) -> Measured:
        return Measured(self.ends[-1], Reproducibility(failed=1, runs=1))


@pytest.mark.parametrize(
    ("ends", "stage"),
    [
        ((PASSES, PASSES, PASSES, FAILS), Stage.INDUCTOR),
        ((PASSES, PASSES, FAILS, FAILS), Stage.DECOMPOSITION),
        ((FAILS, LOST, PASSES, FAILS), Stage.DYNAMO),
        ((LOST, PASSES, FAILS, FAILS), Stage.DECOMPOSITION),
        ((PASSES, PASSES, LOST, FAILS), Stage.UNKNOWN),
        ((PASSES, SETUP, FAILS, FAILS), Stage.UNKNOWN),
        ((LOST, FAILS, FAILS, FAILS), Stage.UNKNOWN),
        ((PASSES, PASSES, PASSES, PASSES), Stage.UNKNOWN),
    ],
)
def test_the_stage_is_the_first_rung_that_fails_where_the_one_below_passes(
    ends: Sequence[Outcome], stage: Stage
) -> None:
    assert climb(PROGRAM, cast(Oracle, Rungs(ends)))[0] is stage


def test_a_rung_that_raises_what_eager_raises_passes_where_the_process_dies_instead() -> None:
    raises, dies = Outcome(ending=Ending.EAGER_ERROR), Outcome(ending=Ending.CRASH, signal=6, phase="compiled")
    stage, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((raises, raises, raises, dies), Kind.CRASH)))
    assert (stage, [one.outcome for one in ladder[:3]]) == (Stage.INDUCTOR, ["passes"] * 3)


def test_a_rung_that_raises_what_eager_raises_passes_where_an_error_is_missing() -> None:
    raises, missing = Outcome(ending=Ending.EAGER_ERROR), Outcome(ending=Ending.MISSING_ERROR, phase="compiled")
    oracle = Rungs((raises, raises, raises, missing), Kind.MISSING_ERROR)
    stage, ladder, _ = climb(PROGRAM, cast(Oracle, oracle))
    assert stage is Stage.INDUCTOR
    assert [rung.outcome for rung in ladder] == ["passes", "passes", "passes", "missing_error"]


def test_of_another_failure_a_rung_that_fails_in_eager_does_not_pass() -> None:
    stage, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((PASSES, PASSES, Outcome(ending=Ending.EAGER_ERROR), FAILS))))
    assert stage is Stage.UNKNOWN
    assert [rung.fails for rung in ladder] == [False, False, None, True]
    assert ladder[2].outcome == "eager_error"


def test_a_rung_says_whether_it_fails_as_the_stage_was_found_by() -> None:
    """Its outcome alone does not: other values are another failure than an error, and what hangs before it runs tells nothing."""
    error = Outcome(ending=Ending.COMPILE_ERROR, phase="compile")
    below = (Outcome(ending=Ending.TIMEOUT, phase="setup"), Outcome(ending=Ending.DIFFERENT), PASSES)
    _, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((*below, error), Kind.COMPILE_ERROR)))
    assert [(rung.outcome, rung.fails) for rung in ladder] == [
        ("timeout", None),
        ("different", False),
        ("passes", False),
        ("compile_error", True),
    ]


@pytest.mark.parametrize(("kind", "stage"), [(Kind.COMPILE_ERROR, Stage.AOT_AUTOGRAD), (Kind.CRASH, Stage.DYNAMO)])
def test_other_values_on_a_rung_below_an_error_are_none_of_its_stage(kind: Kind, stage: Stage) -> None:
    """Memory that is overwritten shows as other values or as a crash; an error of the compiler is its own failure."""
    other = Outcome(ending=Ending.DIFFERENT, verdict=Verdict(fault=True, kind="wrong_output"))
    found, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((other, FAILS, FAILS, FAILS), kind)))
    assert (found, ladder[0].outcome) == (stage, "different")


def test_a_rung_that_fails_otherwise_than_the_script_says_what_it_raises() -> None:
    error = ExceptionInfo(type="Outer", message="no", root_type="TypeError", root_message="cannot cast 1\nto Tensor")
    raises = Outcome(ending=Ending.RUNTIME_ERROR, exception=error, phase="compiled")
    _, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((PASSES, raises, PASSES, FAILS))))
    assert [rung.raised for rung in ladder] == ["", "TypeError: cannot cast 1", "", ""]
    _, ladder, _ = climb(PROGRAM, cast(Oracle, Rungs((PASSES, raises, raises, raises), Kind.RUNTIME_ERROR)))
    assert [rung.raised for rung in ladder] == ["", "", "", ""]


class Scripted:
    """An executor for which a script ends as told under each backend; None stands for the script as it is."""

    jobs = 1

    def __init__(self, ends: Mapping[str | None, Outcome]) -> None:
        self.ends = ends
        self.requests: list[ScriptRequest] = []

    def judge(self, requests: Sequence[ScriptRequest], **options: Any) -> list[Outcome]:
        self.requests += requests
        return [self.ends.get(r.backend, PASSES) if r.compile else PASSES for r in requests]

    def fresh_cache(self) -> Path:
        return Path("fresh")


CALLS = "import torch\nassert torch.compile(f, backend='eager')(x) == torch.compile(f)(x)\n"


@pytest.mark.parametrize(
    ("ends", "stage"),
    [
        ({None: FAILS}, Stage.INDUCTOR),
        ({None: FAILS, "aot_eager_decomp_partition": LOST}, Stage.UNKNOWN),
        ({None: FAILS, "aot_eager": LOST}, Stage.INDUCTOR),
        ({None: FAILS, "eager": FAILS}, Stage.DYNAMO),
    ],
)
def test_the_stage_of_a_script(ends: Mapping[str | None, Outcome], stage: Stage, tmp_path: Path) -> None:
    level, report = python_level(tmp_path, Scripted(ends))
    *_, fault = level._blamed(Source.parse(CALLS), Signature(Kind.CRASH, signal=11), fault_of(report))
    assert fault.announced.stage is stage


def test_a_script_that_fails_now_and_then_has_to_pass_more_than_once(tmp_path: Path) -> None:
    executor = Scripted({})
    level, _ = python_level(tmp_path, executor)
    steady, flaky = (
        level._patient(CALLS, Signature(Kind.CRASH, signal=11), Reproducibility(failed=failed, runs=2))
        for failed in (2, 1)
    )
    assert steady.repeats == 1 < flaky.repeats
    for patient in (steady, flaky):
        before = len(executor.requests)
        assert patient.original.run(CALLS).passes and patient.original.passes_without(["fusion/a"])
        assert len(executor.requests) - before == 2 * patient.repeats


def test_a_script_that_fails_once_is_run_no_more(tmp_path: Path) -> None:
    executor = Scripted({None: FAILS})
    level, _ = python_level(tmp_path, executor)
    patient = level._patient(CALLS, Signature(Kind.CRASH, signal=11), Reproducibility(failed=1, runs=2))
    assert not patient.original.run(CALLS).passes
    assert len(executor.requests) == 1


def test_a_script_that_takes_long_does_not_hang(tmp_path: Path) -> None:
    """Nobody has seen it stand still."""
    late = parse(Outcome, {"ending": "timeout", "phase": "compiled"})
    level, _ = python_level(tmp_path, Scripted({None: late}))
    assert level.draft(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "Discrete values differ.")) is None


class Slow(Scripted):
    """The compiled script is slower than its check allows."""

    def judge(self, requests: Sequence[ScriptRequest], **options: Any) -> list[Outcome]:
        check = {
            "type": "AssertionError", "root_type": "AssertionError", "message": "", "root_message": "", "frames": [["a.py", "f", ""]],
        }  # fmt: skip
        fails = parse(Outcome, {"ending": "runtime_error", "exception": check})
        return [fails if r.compile and "perf_counter" in r.text else PASSES for r in requests]


def test_a_check_of_time_leaves_no_reduction_behind(tmp_path: Path) -> None:
    level, report = python_level(tmp_path, Slow({}), Report(failure=Failure(kind=Kind.CRASH)))
    (tmp_path / "script.py").write_text("import time\nassert time.perf_counter() < limit\n")
    assert level.draft(Settled(Status.PARTIAL, Reason.DISPUTED, "Only time.", kind=Kind.WRONG_OUTPUT)) is None
    assert (report.reduction, report.also_seen) == (None, [])


def python_level(folder: Path, executor: Scripted, report: Report | None = None) -> tuple[PythonLevel, Report]:
    (folder / "script.py").write_text(CALLS)
    report = report or Report(failure=Failure(kind=Kind.CRASH), reduction=Reduction(level="python", nodes_before=1))
    journal = Journal(FolderSink(folder / "out"), report, Clock(600))
    return PythonLevel(cast(Executor, executor), folder / "script.py", [], journal, jobs=1), report

"""The search at the script level: where its failure is said to be."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.script import PythonLevel
from minimizer.engine.survey.cases import Settled
from minimizer.inside.questions import ScriptRequest
from minimizer.report.culprit import Layer
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status

SCRIPT = """\
# A comment.
import torch


def boom(x):
    # Another one.
    return x + 1


f = torch.compile(boom)
f(torch.ones(2))
f(torch.ones(3))
f(torch.ones(3))
"""


class Dies:
    """An executor in which a compiled script with a call of ``f`` dies in the last of them."""

    jobs = 1

    def judge(self, requests: Sequence[ScriptRequest], **_: Any) -> list[Outcome]:
        return [self._one(request) for request in requests]

    def _one(self, request: ScriptRequest) -> Outcome:
        lines = request.text.splitlines()
        calls = [number for number, line in enumerate(lines, 1) if line.startswith("f(torch")]
        if not request.compile or not calls:
            return Outcome(ending=Ending.SAME)
        frame = f'  File "{request.script}", line {calls[-1]} in <module>'
        dump = f"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n{frame}\n"
        return Outcome(ending=Ending.CRASH, phase="compiled", signal=signal.SIGABRT, stacks=dump)


@pytest.mark.parametrize("args", [[], ["--size", "3"]])
def test_a_crash_is_at_the_users_line_that_died(args: list[str], tmp_path: Path) -> None:
    script = tmp_path / "träin.py"
    script.write_text(SCRIPT)
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    level = PythonLevel(cast(Executor, Dies()), script, args, journal, jobs=1)
    otherwise = Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)
    assert level.draft(otherwise) is not None
    (culprit,), failure = journal.report.culprits, journal.report.failure
    assert failure is not None and 'File "träin.py", line 13, in <module>' in failure.traceback
    assert culprit.source is not None
    assert (culprit.source.file, culprit.source.line) == ("träin.py", 13)


def test_a_module_that_the_table_of_layers_knows_is_the_culprits(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    layers = (
        Layer(path="blocks", order=0, verdict="propagated"),
        Layer(path="blocks.0", order=1, verdict="bad"),
        Layer(path="blocks.1", order=2, verdict="bad"),
    )
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    level = PythonLevel(cast(Executor, Dies()), script, [], journal, jobs=1)
    unexplained = Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)
    assert level.draft(unexplained, Fault(layers=layers)) is not None
    assert journal.report.culprits[0].module == "blocks.0"


class Raises:
    """An executor in which compiled scripts that call ``f`` raise on some backends; ``None`` is a script's own."""

    jobs = 1

    def __init__(self, needs: dict[str | None, tuple[str, ...]], spared: tuple[str | None, str] = ("", "")) -> None:
        """``needs``: the lines that a backend must find to raise. ``spared``: a backend, and a line with which it does not."""
        self.needs, self.spared = needs, spared
        self.asked: list[str | None] = []

    def judge(self, requests: Sequence[ScriptRequest], **_: Any) -> list[Outcome]:
        return [self._one(request) for request in requests]

    def _one(self, request: ScriptRequest) -> Outcome:
        if not request.compile:
            return Outcome(ending=Ending.SAME)
        self.asked.append(request.backend)
        needed = self.needs.get(request.backend)
        backend, line = self.spared
        is_spared = request.backend == backend and line in request.text
        if needed is None or is_spared or any(line not in request.text for line in needed):
            return Outcome(ending=Ending.SAME)
        error = ExceptionInfo(
            type="RuntimeError", message="boom", root_type="RuntimeError", root_message="boom",
            frames=(("torch/_functorch/x.py", "boom", "raise RuntimeError"),),
        )  # fmt: skip
        return Outcome(ending=Ending.COMPILE_ERROR, exception=error)


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        pytest.param(("f(torch.ones(2))",), ["f(torch.ones(2))"], id="as on the cheaper backend"),
        pytest.param(
            ("f(torch.ones(2))", "f(torch.ones(4))"), ["f(torch.ones(2))", "f(torch.ones(4))"], id="needs more"
        ),
    ],
)
def test_a_script_is_reduced_on_the_cheapest_backend_and_confirmed_on_its_own(
    own: tuple[str, ...], kept: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + "f(torch.ones(4))\n")
    below = ("f(torch.ones(2))",)
    raises = Raises({None: own, "aot_eager": below, "aot_eager_decomp_partition": below})
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    level = PythonLevel(cast(Executor, raises), script, [], journal, jobs=1)
    draft = level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.COMPILE_ERROR))
    assert draft is not None
    assert [
        line for line in ("f(torch.ones(2))", "f(torch.ones(3))", "f(torch.ones(4))") if line in draft.repro.source
    ] == kept
    assert raises.asked.count("aot_eager") > raises.asked.count(None) or len(kept) > 1


def test_a_script_that_passes_below_its_backend_is_not_reduced_to_one_that_fails_there(tmp_path: Path) -> None:
    """Once the line is gone that keeps the lower backend from failing, the same message comes from another fault."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + "f(torch.ones(4))\n")
    below = "aot_eager_decomp_partition"
    needed = ("f(torch.ones(2))",)
    raises = Raises({None: needed, below: needed}, spared=(below, "f(torch.ones(4))"))
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    level = PythonLevel(cast(Executor, raises), script, [], journal, jobs=1)
    draft = level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.COMPILE_ERROR))
    assert draft is not None
    assert "f(torch.ones(4))" in draft.repro.source and "f(torch.ones(3))" not in draft.repro.source
    failure = journal.report.failure
    assert failure is not None and failure.stage is Stage.INDUCTOR

"""The search at the script level: where its failure is said to be."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.clock import Clock
from minimizer.engine.journal import Journal
from minimizer.engine.script_search import PythonLevel
from minimizer.engine.survey.cases import Settled
from minimizer.report.culprit import Layer
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Status

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

    def judge(self, requests: Sequence[dict[str, Any]], **_: Any) -> list[Outcome]:
        return [self._one(request) for request in requests]

    def _one(self, request: dict[str, Any]) -> Outcome:
        lines = request["text"].splitlines()
        calls = [number for number, line in enumerate(lines, 1) if line.startswith("f(torch")]
        if not request["compile"] or not calls:
            return Outcome(ending=Ending.SAME)
        frame = f'  File "{request["script"]}", line {calls[-1]} in <module>'
        dump = f"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n{frame}\n"
        return Outcome(ending=Ending.CRASH, phase="compiled", signal=signal.SIGABRT, stacks=dump)


@pytest.mark.parametrize("args", [[], ["--size", "3"]])
def test_a_crash_is_at_the_users_line_that_died(args: list[str], tmp_path: Path) -> None:
    script = tmp_path / "träin.py"
    script.write_text(SCRIPT)
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    level = PythonLevel(cast(Executor, Dies()), script, args, journal, jobs=1)
    otherwise = Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)
    assert level.repro(otherwise) is not None
    (culprit,), failure = journal.report.culprits, journal.report.failure
    assert failure is not None and 'File "träin.py", line 13, in <module>' in failure.traceback
    assert culprit.source is not None
    assert (culprit.source.file, culprit.source.line) == ("träin.py", 13)


def test_a_module_that_the_table_of_layers_knows_is_the_culprits(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    layers = [
        Layer(path="blocks", order=0, verdict="propagated"),
        Layer(path="blocks.0", order=1, verdict="bad"),
        Layer(path="blocks.1", order=2, verdict="bad"),
    ]
    journal = Journal(FolderSink(tmp_path / "out"), Report(layers=layers), Clock(600))
    level = PythonLevel(cast(Executor, Dies()), script, [], journal, jobs=1)
    assert level.repro(Settled(Status.FAILED, Reason.UNEXPLAINED, "", kind=Kind.CRASH)) is not None
    assert journal.report.culprits[0].module == "blocks.0"

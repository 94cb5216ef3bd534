"""Where a failure that no graph carries is: the line that Dynamo was translating, in whichever file of the project the user has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.levels import script as script_level
from minimizer.engine.levels.script import PythonLevel
from minimizer.engine.reduce.graph import Reduced
from minimizer.engine.reduce.python import Source, reduce_script
from minimizer.engine.survey.cases import Settled
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Reason, Status

NET = """\
# A comment that no syntax tree keeps.
import torch


def model(x):
    # Another one.
    print(x)
    return x + 1
"""
TRAIN = """\
# The script.
import torch

from lines.net import model

# It compiles the model.
torch.compile(model, fullgraph=True)(torch.ones(3))
"""


def test_the_line_is_the_users(child: Executor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreduced(source: Source, **_: Any) -> Reduced[Source]:
        return reduce_script(source, check=lambda candidates: [False] * len(candidates))

    monkeypatch.setattr(script_level, "reduce_script", unreduced)
    (home / "lines").mkdir()
    (home / "lines" / "net.py").write_text(NET)
    script = home / "lines_train.py"
    script.write_text(TRAIN)
    journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
    level = PythonLevel(child, script, ["--size", "3"], journal, jobs=2)
    assert level.draft(Settled(Status.FAILED, Reason.UNEXPLAINED, "")) is not None
    (culprit,), failure = journal.report.culprits, journal.report.failure
    assert culprit.source is not None and failure is not None
    assert (culprit.source.file, culprit.source.line, culprit.source.code) == ("lines/net.py", 7, "print(x)")
    assert 'File "lines_train.py", line 7, in <module>' in failure.traceback
    assert 'File "lines/net.py", line 7, in model' in failure.traceback  # what Dynamo says of the user's code

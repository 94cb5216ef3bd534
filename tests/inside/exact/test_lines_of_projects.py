"""The line of a fault between graphs in a project of several files: that of the user's file, and not of the text that is run."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.levels import exact
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.errors import ChildFailed
from minimizer.report.model import Report
from minimizer.sink import FolderSink

TABLE = """\
    # A comment.
    # Another one.
    import torch

    heads = {"policy": 1.0}
    names = heads.keys()

    @torch.compile
    def register(x, name):
        heads[name] = 2.0
        return x / len(names)

    def epoch(x, name):
        # One more.
        return register(x, name).tolist()
"""
BY_NAME = """\
    # The script.
    import torch
    from parts.table import register

    # What follows is in a row of its own.
    x = torch.full((2,), 12.0)
    print(register(x, "value").tolist())
"""
AS_A_WHOLE = """\
    import torch
    from parts import table
    x = torch.full((2,), 12.0)
    print(table.epoch(x, "value"))
"""


@pytest.mark.parametrize(
    ("text", "args", "place"),
    [
        (BY_NAME, (), ("train.py", 7, 'print(register(x, "value").tolist())')),
        (BY_NAME, ("--size", "3"), ("train.py", 7, 'print(register(x, "value").tolist())')),
        (AS_A_WHOLE, (), ("parts/table.py", 15, "return register(x, name).tolist()")),
    ],
    ids=["a module that becomes part of the text", "arguments", "a module that is imported as a whole"],
)
def test_the_call_is_told_by_the_users_line(
    text: str,
    args: tuple[str, ...],
    place: tuple[str, int, str],
    child: Executor,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home / "parts").mkdir(exist_ok=True)
    (home / "parts" / "table.py").write_text(dedent(TABLE))
    script = home / "train.py"
    script.write_text(dedent(text))
    journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
    between = BetweenGraphs(child, script, args, journal, jobs=1, timeout=60)
    found = between.compare().found
    assert found is not None

    def away(*_: object) -> None:
        raise ChildFailed("gone")

    monkeypatch.setattr(exact, "mechanism_of", away)
    with pytest.raises(ChildFailed):
        between.draft(found)
    assert journal.report.failure is not None
    source = journal.report.failure.source
    assert source is not None and (source.file, source.line, source.code) == place
    assert {seen.line for seen in journal.report.observed} <= {0, 7 if place[0] == "train.py" else 0}

"""The steps of a job where one of them comes to no end: what was known before it still holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed
from minimizer.journal import Journal
from minimizer.options import Options
from minimizer.pipeline import _Job
from minimizer.report import Failure, Reduction, Report
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.types import Kind, Stage


class Kept:
    """A finished result."""

    def __init__(self) -> None:
        self.times = 0

    def keep(self, journal: Journal) -> None:
        self.times += 1


class Overwriting:
    """A Python level that says its own of the failure, and then breaks off."""

    def __init__(self, report: Report, error: Exception) -> None:
        self._report, self._error = report, error

    def repro(self, otherwise: object) -> None:
        self._report.failure = Failure(kind=Kind.RUNTIME_ERROR, signature="another")
        self._report.reduction = None
        raise self._error


@pytest.mark.parametrize("error", [BudgetExceeded("over"), ChildFailed("gone"), Cancelled("enough")])
def test_a_repro_is_not_lost_to_the_attempt_at_a_nicer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="sin")
    report = Report(failure=failure, reduction=Reduction(nodes_before=9, nodes_after=2))
    before = report.model_copy(deep=True)
    journal = Journal(FolderSink(tmp_path / "out"), report, budget=600)
    job = _Job(tmp_path / "a.py", Options(), Settings(), journal, tmp_path / "shared", Path("python"), [], False)
    monkeypatch.setattr(job, "_python_level", lambda executor: Overwriting(report, error))
    result = Kept()

    if isinstance(error, Cancelled):
        with pytest.raises(Cancelled):
            job._in_public(cast(Any, result), cast(Any, None))
    else:
        assert job._in_public(cast(Any, result), cast(Any, None)) is cast(Any, result)
        assert result.times == 1
    assert report == before

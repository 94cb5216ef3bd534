"""A job without a child, and what its suspects are attempted with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.between.answer import NO_ANSWER, Answer
from minimizer.engine.budget.clock import Clock
from minimizer.engine.job import Job, Parts
from minimizer.engine.journal import Journal
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.engine.routes import Routes
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import FolderSink

NONE = cast(Any, None)


def job_in(folder: Path) -> Job:
    """A job of a script in this folder, which writes beside it."""
    (folder / "a.py").write_text("import torch\n")
    journal = Journal(FolderSink(folder / "out"), Report(), Clock(600))
    return Job(folder / "a.py", Options(), Settings(), journal, Path("python"))


def parts_of(job: Job, **others: Any) -> Parts:
    """What a job works with: an exact comparison of its script, what follows a repro, and ``others``."""
    between = BetweenGraphs(NONE, job.script, [], job.journal, jobs=1, timeout=60)
    follow_up = FollowUp(job.script, NONE, NONE, job.journal, job.options, job.settings)
    return replace(Parts(job, NONE, between, NONE, NONE, NONE, follow_up, NONE), **others)


def routes_of(job: Job, exact: Answer = NO_ANSWER, **others: Any) -> Routes:
    """What the suspects of a job are attempted with, where exact runs said this."""
    return Routes(parts_of(job, **others), exact)

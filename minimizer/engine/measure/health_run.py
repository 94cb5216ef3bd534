"""Measures the health of the compiled code in a separate run of the script: late, niced, on a cold cache, and timed.

The trace of that run (from ``TORCH_TRACE``) is kept, and converted to pages by tlparse.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.budget.patience import TLPARSE_SECONDS
from minimizer.engine.child import protocol
from minimizer.engine.child.environment import Place
from minimizer.engine.child.untrusted import read_untrusted
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys, TimedRun
from minimizer.errors import ChildFailed
from minimizer.report.examined import Health
from minimizer.report.traces import PAGES, TRACE

TRACE_BYTES, PAGES_BYTES, MOST_PAGES = 16 << 20, 32 << 20, 2000
"""Most kept bytes of a trace, and of its pages, and most page files."""


def examine(surveys: Surveys, place: Place, journal: Journal, *, keep: Callable[[Health], None]) -> TimedRun | None:
    """Run the script once more, and keep its trace; returns the run, and ``keep`` takes its costs if it completes.

    Raises:
        BudgetExceeded: the time is over.
    """
    folder, found = place.folder("trace"), None
    with suppress(ChildFailed):
        found = surveys.health(trace=str(folder))
        if found is not None:
            keep(report_of(found.health, is_crowded=surveys.is_crowded))
    trace = _trace(place, folder)
    if trace is None:
        return found
    journal.sink.artifact(TRACE, trace)
    fold.traced(journal.report, TRACE)
    pages = tlparse(trace, place, journal)
    if pages is not None:
        journal.sink.artifact(PAGES, pages)
        fold.traced(journal.report, PAGES)
    return found


def report_of(found: protocol.Health, *, is_crowded: bool) -> Health:
    """The report's part on health."""
    return Health(**found.model_dump(include=set(Health.model_fields)), is_crowded=is_crowded)


def tlparse(trace: bytes, place: Place, journal: Journal) -> bytes | None:
    """The pages that tlparse creates from a trace, as a zip; None if it cannot parse it, or its program is missing."""
    program = shutil.which("tlparse", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", ""))))
    if program is None:
        journal.log("the program tlparse is neither beside this Python nor on PATH: no pages are made of the trace")
        return None
    folder = place.private("tlparse")
    (folder / TRACE).write_bytes(trace)
    process = place.sandbox.start(
        [program, TRACE, "-o", "pages", "--no-browser"],
        cwd=folder,
        read=[Path(program)],
        write=[folder],
        env={"PATH": os.defpath, "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place.sandbox.finish(process, TLPARSE_SECONDS, journal.watch)
    return _zipped(folder, "pages")


def _trace(place: Place, folder: Path) -> bytes | None:
    """The child's trace, if it is not too large."""
    name = min((path for path in folder.iterdir() if path.suffix == ".log"), default=None)
    found = None if name is None else read_untrusted(place.scratch, name.relative_to(place.scratch), TRACE_BYTES + 1)
    if not found or len(found) > TRACE_BYTES:
        return None
    return place.redacted(found.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _zipped(folder: Path, name: str) -> bytes | None:
    room, buffer = PAGES_BYTES, io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / name).rglob("*"))[:MOST_PAGES]:
            relative = path.relative_to(folder)
            content = read_untrusted(folder, relative, room + 1) if path.is_file() else None
            if content is None:
                continue
            room -= len(content)
            if room < 0:
                return None
            archive.writestr(str(relative.relative_to(name)), content)
        is_empty = not archive.namelist()
    return None if is_empty else buffer.getvalue()

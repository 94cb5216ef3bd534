"""The flat program of a script: traced, written, and run side by side to find where eager and compiled part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import TRACE_SHARE
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.child.traced import Sides
from minimizer.engine.child.untrusted import read_untrusted
from minimizer.engine.job import Job, prepared, started
from minimizer.engine.journal import Journal
from minimizer.engine.outer import runs
from minimizer.engine.outer.program import OuterProgram
from minimizer.engine.outer.write import whole
from minimizer.errors import ChildFailed
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings

MOST_DATA = 512 << 20
"""Most bytes of the data file next to a program."""


@dataclass(frozen=True)
class Flat:
    """The flat program of a script.

    ``text`` and ``data`` go to files; ``data`` is None if all inputs are in the text. ``raised``: the exception that
    ended the script. ``sides``: where eager and compiled part; None if they were not compared, for the reason
    ``uncompared``.
    """

    program: OuterProgram
    text: str
    data: bytes | None
    raised: ExceptionInfo | None = None
    sides: Sides | None = None
    uncompared: str = ""


class NothingTraced(Exception):
    """A script has no flat program; the message says why."""


def trace(
    script: Path,
    out: Path,
    *,
    options: Options,
    settings: Settings,
    python: Path | None = None,
    binds: Sequence[Path] = (),
    network: bool = False,
    compare: bool = True,
    on_note: Callable[[str], None] = lambda note: None,
) -> Flat:
    """Trace a script of the caller's own in a sandbox.

    Args:
        script: the user's file.
        out: the file for the program; the names in it are those of this file and its data file (`data_file`).
        options: only arguments, environment, device and budget matter.
        settings: sandbox mode, memory of a run.
        python: the interpreter that runs the script; by default the one we run in.
        binds: further paths the script may read.
        network: whether it may use the network.
        compare: whether to run the program side by side.
        on_note: receives notes on the sandbox.

    Raises:
        NothingTraced: nothing was compiled, no call of a graph could be recorded, or the script did not end in time.
        MissingTool: a requested sandbox, interpreter or device is missing.
        BudgetExceeded: the time was over before there was a program.
    """
    journal = Journal(_Notes(on_note), Report(), Clock(options.budget))
    job = Job(script, options, settings, journal, python or Path(sys.executable), binds, network, is_local=True)
    with Scratch() as disk, prepared(job, disk) as (job, place), started(job, place) as parts:
        executor, clock = parts.executor, journal.clock
        try:
            tracing = runs.trace(executor, script.resolve(), options.args, timeout=TRACE_SHARE * clock.left)
            program = _program(tracing)
        except ChildFailed as error:
            raise NothingTraced(str(error)) from None
        data = read_untrusted(place.scratch, tracing.file.relative_to(place.scratch), MOST_DATA)
        name = data_file(out).name if data is not None else None
        title = f"The calls of torch that {script.name} makes around its compiled graphs, as a flat program."
        text = whole(program, title=title, script=out.name, data=name)
        if not compare:
            return Flat(program, text, data, tracing.outcome.exception)
        return Flat(
            program, text, data, tracing.outcome.exception, *runs.compared(executor, program, tracing.file, clock.left)
        )


def data_file(out: Path) -> Path:
    """The data file with values of inputs next to a program."""
    return out.with_suffix(".pt")


def _program(tracing: runs.Tracing) -> OuterProgram:
    outcome, program = tracing.outcome, tracing.program
    if tracing.why_not:
        raise NothingTraced(tracing.why_not)
    if program is None:
        raise NothingTraced(
            f"the run of the script did not come to an end that could be noted ({runs.why_ended(outcome)})"
        )
    if not outcome.attempted:
        error = outcome.exception
        ended = f": it ends with {error.root_type}: {error.root_message}" if error is not None else ""
        raise NothingTraced(f"nothing was compiled{ended}")
    if not program.calls:
        cut = f"; it is cut after {program.cut}" if program.cut else ""
        left_out = f": {program.left_out[0].what}" if program.left_out else ""
        raise NothingTraced(f"no call of a compiled graph could be noted{left_out}{cut}")
    return program


class _Notes:
    """A sink that forwards notes, and stores nothing."""

    def __init__(self, on_note: Callable[[str], None]) -> None:
        self._on_note = on_note

    def event(self, type_: str, **data: Any) -> None:
        if type_ == "note":
            self._on_note(str(data.get("message", "")))

    def artifact(self, name: str, content: bytes) -> None:
        """Store nothing."""

    def discard(self, name: str) -> None:
        """Do nothing: nothing is stored."""

    def earlier(self, name: str) -> bytes | None:
        return None

    def report(self, report: Report) -> None:
        """Store nothing."""

    def cancelled(self) -> bool:
        return False

    def skipped(self) -> str | None:
        return None

"""Adopts a graph that only a witness has found: PyTorch's minifier dumped it, while no graph in our survey fails.

The call may have been in a child process of the script, which we do not see, or our hooks hide the failure. The dump
becomes a script, whose suspects are attempted like those of the user's. The result counts only if our own referee sees
a failure of the witness's kind, with the inputs of that call, and if its repro fails in clean processes. Otherwise the
report only gets a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.budget.patience import UPTAKE_SECONDS
from minimizer.engine.emit import SCRIPT_FILE
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.witness.minifier import STORAGES, Testimony
from minimizer.errors import Cancelled
from minimizer.pytorch_dump import Unusable, read
from minimizer.report.model import Failure, Report, Workaround
from minimizer.sink import Aside, Sink
from minimizer.vocabulary import Kind, Status

VALUES = (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
ERRORS = (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR)


def take_up(testimony: Testimony, journal: Journal, *, folder: Path, attempt: Callable[[Path, Sink], Report]) -> bool:
    """Reduce the graph that a witness dumped; True if the job has a verified repro of it now.

    Args:
        testimony: that of the witness, with the dump.
        journal: the record of the job.
        folder: a new folder, for the script and its inputs.
        attempt: attempts the suspects of that script.

    Raises:
        Cancelled: the owner cancelled the job.
    """
    begin = f"The graph that PyTorch's own minifier dumped after {testimony.after}"
    try:
        script = write_script(testimony, folder)
    except Unusable as error:
        journal.note(f"{begin} was not taken up: {error}.")
        return False
    if journal.clock.left < UPTAKE_SECONDS:
        journal.note(f"{begin} was not taken up for want of time: a larger --budget may reduce it.")
        return False
    aside = Aside(journal.sink, tells=frozenset({"step"}))
    found = attempt(script, aside)
    if found.status is Status.CANCELLED:
        raise Cancelled("the job was cancelled")
    journal.log(aside.artifacts.get("run.log", b"").decode())
    if not _counts(found, testimony, journal.fault.failure):
        journal.note(f"{begin} was judged by our own rules, and gave no repro of such a failure: {found.summary}")
        return False
    for note in found.notes:
        journal.note(note)
    fault = _adopted(found, testimony, journal.fault)
    journal.take_over(fault, aside.artifacts[SCRIPT_FILE].decode(), aside.repros)
    return True


def write_script(testimony: Testimony, folder: Path) -> Path:
    """Write a script that compiles the dumped graph and calls it once, with its saved inputs in files next to it.

    Raises:
        Unusable: it is not Python, its inputs were not saved, or it draws random numbers as only inductor does.
    """
    dump = testimony.dump
    assert dump is not None
    found = read(dump.launcher)
    if found is None:
        raise Unusable("it is no graph as PyTorch writes them")
    if not {*found.storages} <= dump.storages.keys():
        raise Unusable("what it was called with was not kept")
    values = folder / Path(STORAGES).name
    values.mkdir(parents=True)
    for name, content in dump.storages.items():
        (values / name).write_bytes(content)
    script = folder / f"witness_{testimony.after}.py"
    script.write_text(found.script)
    return script


def _counts(found: Report, testimony: Testimony, failure: Failure | None) -> bool:
    """Whether the result is a failure that the witness can see, and the same as the script's if that is known."""
    if found.status is not Status.MINIMIZED or found.failure is None:
        return False
    kind = found.failure.kind
    if kind in VALUES:
        return testimony.level == 4 and (failure is None or failure.kind in VALUES)
    is_same = failure is not None and failure.exception_type == found.failure.exception_type
    return kind in ERRORS and failure is not None and failure.kind in ERRORS and is_same


def _adopted(found: Report, testimony: Testimony, known: Fault) -> Fault:
    """The result of the dump as the job's own fault; findings about the script stay, places inside the dump go."""
    assert found.failure is not None
    said = f"Only PyTorch's own minifier came by this graph, after {testimony.after}; our own run of the script said: {known.summary}"
    workaround = None
    if found.workaround is not None:
        helps = f" The graph by itself passes with: {found.workaround.code}" if found.workaround.verified else ""
        workaround = Workaround(code="", verified=False, what=f"None was tried on the script.{helps}")
    failure = known.failure or found.failure
    theirs = fold.fault_of(found)
    return replace(
        theirs,
        failure=failure.model_copy(update={"stage": found.failure.stage}),
        culprits=tuple(culprit.model_copy(update={"source": None, "module": ""}) for culprit in theirs.culprits),
        blame=found.blame.model_copy(update={"confirmed_on_script": None}) if found.blame is not None else None,
        workaround=workaround or known.workaround,
        observed=known.observed,
        layers=known.layers,
        generated_code=known.generated_code,
        summary=f"{found.summary} {said}",
    )

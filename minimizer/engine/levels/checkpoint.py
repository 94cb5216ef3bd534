"""Saves the search at every accepted step: the best program so far, its repro, and a checkpoint to resume from.

A checkpoint holds programs with the names of golden values only: the values come from the new attempt's own survey. So
a checkpoint is used only if that survey holds the same graph, under the same names, failing in the same way, and if the
best program fails again. Otherwise the search starts over.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from minimizer.engine.budget.patience import KEEP_SECONDS
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.emit import DATA_FILE, SCRIPT_FILE, Details, Repro, bundle, emit
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.from_outcomes import details_of
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program, as_json
from minimizer.engine.program.regions import Region
from minimizer.engine.survey.cases import Case
from minimizer.errors import ChildFailed
from minimizer.report.culprit import Layer
from minimizer.report.model import HistoryStep, Reproducibility
from minimizer.sink import Sink

NAME = "checkpoint.json"
ARCHIVE = "repro.zip"
REPRO_NUMEL = 1 << 23
"""Most elements in the data file of an intermediate repro; a larger program gets no repro until it is smaller."""
UNFINISHED = "# The best so far: the reduction has not ended, and this has not been verified.\n"


@dataclass(frozen=True)
class Checkpoint:
    """The state of an unfinished search: ``best`` is the smallest failing program, ``program`` the whole graph."""

    program: Program
    located: Localized
    best: Program
    trials: int = 0
    seconds: float = 0.0
    history: tuple[HistoryStep, ...] = ()


class Keeper:
    """Saves accepted candidates: a checkpoint at every step, and a repro every `KEEP_SECONDS`.

    ``lines``: those of the best repro published so far.
    """

    def __init__(self, start: Checkpoint, case: Case, oracle: Oracle, journal: Journal, lines: int = 0) -> None:
        self._start, self._case, self._oracle, self._journal = start, case, oracle, journal
        self.lines = lines
        self._next_repro = 0.0
        self._steps: list[HistoryStep] = []

    @property
    def history(self) -> list[HistoryStep]:
        """Every accepted step, those of earlier attempts first."""
        return [*self._start.history, *self._steps]

    def step(self, step: HistoryStep, program: Program, fault: Fault) -> None:
        """Record an accepted candidate: extend the history, save a checkpoint and, when one is due, a repro of the fault."""
        start = self._start
        before = start.history[-1].trial if start.history else 0
        seconds = round(start.seconds + step.seconds, 3)
        self._steps.append(step.model_copy(update={"trial": before + step.trial, "seconds": seconds}))
        reached = replace(start, best=program, trials=self._oracle.trials, seconds=seconds, history=tuple(self.history))
        save(reached, self._case, self._journal.sink)
        if time.monotonic() >= self._next_repro:
            self._write(program, fault)
            self._next_repro = time.monotonic() + KEEP_SECONDS

    def _write(self, program: Program, fault: Fault) -> None:
        outcome = self._oracle.shown(program)
        numel = sum(i.meta.numel for i in program.inputs if i.stored is not None and i.meta is not None)
        if outcome is None or numel > REPRO_NUMEL:
            return
        with suppress(SyntaxError, ChildFailed):
            details = details_of(program, outcome, self._case.tolerance)
            repro = write(program, details, fault.announced.reproducibility, fault, self._journal)
            repro = replace(repro, source=UNFINISHED + repro.source)
            self.lines = repro.lines
            self._journal.record(fault.counting(lines_after=repro.lines))
            keep_repro(repro, data_of(repro, self._case), self._journal)


def write(program: Program, details: Details, rate: Reproducibility, fault: Fault, journal: Journal) -> Repro:
    """The repro of a program that shows this fault, and fails at this rate."""
    environment = journal.report.environment
    return emit(program, fault.announced, fault.culprits, environment=environment, rate=rate, details=details)


def data_of(repro: Repro, case: Case) -> bytes | None:
    """The content of a repro's data file; None if it needs none."""
    return case.survey.data({key.golden: key.key for key in repro.data_keys}) if repro.data_keys else None


def keep_repro(repro: Repro, data: bytes | None, journal: Journal) -> None:
    """Publish a repro and its data in place of an earlier one."""
    if data is None:
        journal.sink.discard(DATA_FILE)
        journal.sink.discard(ARCHIVE)
    else:
        journal.show(DATA_FILE, data)
        journal.show(ARCHIVE, bundle(repro, data))
    journal.show(SCRIPT_FILE, repro.source.encode())
    journal.repro = repro.source


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")

    graph: str
    level: str
    signature: str
    window: dict[str, Any]
    best: dict[str, Any]
    roots: list[tuple[int, int, str, str]]
    elsewhere: list[tuple[int, int, str, str]]
    layers: list[Layer]
    trials: int
    seconds: float
    history: list[HistoryStep]


def save(checkpoint: Checkpoint, case: Case, sink: Sink) -> None:
    """Write a checkpoint of the case's reduction as an artifact; it replaces an earlier one."""
    located = checkpoint.located
    stored = _Stored(
        graph=_digest(checkpoint.program),
        level=checkpoint.program.level,
        signature=case.signature.text,
        window=as_json(located.window),
        best=as_json(checkpoint.best),
        roots=[astuple(region) for region in located.roots],
        elsewhere=[astuple(region) for region in located.elsewhere],
        layers=list(located.layers),
        trials=checkpoint.trials,
        seconds=checkpoint.seconds,
        history=list(checkpoint.history),
    )
    sink.artifact(NAME, json.dumps(stored.model_dump(mode="python", by_alias=True)).encode())


def restore(case: Case, oracle: Oracle, sink: Sink) -> Checkpoint | None:
    """The checkpoint of an earlier attempt, if it is valid for this one; the oracle's trial count continues from it."""
    content = sink.earlier(NAME)
    if content is None:
        return None
    with suppress(ValueError, ChildFailed):
        stored = _Stored.model_validate(json.loads(content))
        window, best = parse_program(stored.window), parse_program(stored.best)
        if stored.signature != case.signature.text:
            return None
        program = case.lowered() if stored.level == "aot" else case.program.as_compiled()  # as the search does
        if _digest(program) == stored.graph and oracle.check([best])[0]:
            oracle.count(stored.trials)
            located = Localized(
                window=window,
                roots=tuple(Region(*region) for region in stored.roots),
                layers=tuple(stored.layers),
                confirmed=True,
                elsewhere=tuple(Region(*region) for region in stored.elsewhere),
            )
            return Checkpoint(program, located, best, stored.trials, stored.seconds, tuple(stored.history))
        if stored.level == "aot":
            case.survey.program("dynamo")  # golden values belong to the level of the last request
    return None


def _digest(program: Program) -> str:
    """A hash of everything that names golden values; without origins, which contain the script's folder."""
    names = [[item.name for item in program.inputs], [node.name for node in program.nodes]]
    return hashlib.sha256(json.dumps([program.fingerprint(), names]).encode()).hexdigest()

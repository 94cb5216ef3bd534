"""The common part of levels whose candidates are script texts, judged by trials or by exact runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import BLAME_SHARE
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.emit import Repro
from minimizer.engine.emit.script_idioms import of_text
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.reduce.graph import OnStep, Reduced
from minimizer.engine.reduce.python import Check, Rerun, Source, reduce_script, reduction_of
from minimizer.engine.reduce.python.reducer import Pass
from minimizer.engine.reduce.python.seeds import seeded
from minimizer.engine.reduce.words import said
from minimizer.engine.user_script.bundle import Bundle
from minimizer.engine.verify.reserve import to_finish, to_verify
from minimizer.report.model import HistoryStep, Reduction
from minimizer.vocabulary import Kind, Step


class TextLevel:
    """The search for a repro among the texts of one script: announce → reduce → blame → emit.

    ``rerun`` runs forms of the repro.
    """

    further: Sequence[Pass] = ()
    """Passes of this level, in addition to those for any script."""

    def __init__(self, script: Path, args: Sequence[str], journal: Journal, rerun: Rerun, *, jobs: int) -> None:
        self._script, self._args, self._journal, self._rerun, self._jobs = script, args, journal, rerun, jobs
        self._bundle = Bundle("", {})
        self._line: int | None = None
        """The blamed line, by its number in the script that is reduced."""

    def _reduced(
        self, script: Source, check: Check, kind: Kind, fault: Fault, *, lines: int, operators: int = 0, draws: bool
    ) -> tuple[Source, Fault]:
        """The smallest script that ``check`` accepts in the time not reserved for later steps; the fault with that.

        ``lines`` and ``operators`` are the size of the unreduced script. ``draws``: whether it draws random numbers,
        perhaps without a seed; it then gets one.
        """
        journal, clock = self._journal, self._journal.clock
        first = seeded(script, check) if draws else script
        known = Reduction(level="python", nodes_before=operators, lines_before=lines)

        def record(step: HistoryStep, _: object) -> None:
            journal.record(replace(fault, reduction=known.model_copy(update={"trials": step.trial})))
            journal.progress(nodes=step.nodes, nodes_before=first.size, trials=step.trial, message=said(step.by))

        with journal.step(Step.REDUCE), clock.reserving(partial(to_finish, clock.pace, kind)):
            reduced = self._smallest(first, check, record)
        reduction = reduction_of(reduced, lines_before=lines, nodes_before=operators)
        return reduced.best, journal.record(replace(fault, reduction=reduction))

    def _smallest(self, script: Source, check: Check, record: OnStep[Source]) -> Reduced[Source]:
        """Reduce a script by the passes of this level."""
        watch = self._journal.watch
        return reduce_script(script, check=check, on_step=record, jobs=self._jobs, further=self.further, watch=watch)

    @contextmanager
    def _until_verification(self, kind: Kind) -> Iterator[None]:
        """Reserve inside what the clean runs need; what is not known when the time ends stays unknown, since a verified
        repro is worth more.
        """
        clock = self._journal.clock
        with suppressing_end_of_time(), clock.reserving(partial(to_verify, clock.pace, kind), BLAME_SHARE):
            yield

    def _written(self, text: str, evidence: str, fault: Fault) -> Repro:
        """The repro of this fault that consists of this text, with ``evidence`` as its message when it exits with 1."""
        return of_text(text, fault.announced, fault.culprits, self._journal.report.environment, evidence)

    def _first_that_shows(self, forms: Iterable[Repro], is_it: Callable[[ExceptionInfo | None], bool]) -> Repro | None:
        """The first form of the repro that fails in the warm child as ``is_it`` or its evidence says, and passes
        without the compiler.
        """

        def shows(repro: Repro) -> bool:
            ends = lambda error: is_it(error) or (error is not None and repro.evidence in error.said)  # noqa: E731
            return self._rerun.shows(repro.source, ends)

        return next(filter(shows, forms), None)

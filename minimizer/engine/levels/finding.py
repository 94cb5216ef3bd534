"""Searches for the smallest script with a finding, treated as the failure: a graph break, or a function compiled
repeatedly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

from minimizer.engine.advice.asked import causes_of, first_line, trait
from minimizer.engine.advice.guards import REPEATED
from minimizer.engine.advice.rules import Cause
from minimizer.engine.between import passes
from minimizer.engine.between.public import named_entries, with_backend
from minimizer.engine.budget.patience import WRITE_SECONDS
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.finding_forms import forms
from minimizer.engine.levels.text import TextLevel
from minimizer.engine.reduce.python import Rerun, Source
from minimizer.engine.reduce.python.rerun import has_ended_itself
from minimizer.engine.user_script.bundle import bundle
from minimizer.inside.questions import ScriptRequest
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind, Stage, Step

BACKENDS = ("eager", "aot_eager", None)
"""Simplest first.

Dynamo alone breaks graphs and decides to recompile, but some guards come from later stages. None: the script's own.
"""
PARTS = 2
"""Graphs of a function that a break splits; a recompiled function has more."""
ENOUGH = REPEATED + 1
"""Compilations of one function that prove its guard fails for `REPEATED` values."""


class FindingOracle(Rerun):
    """Judges whether a script passes with and without the compiler, and has a finding like ``cause``."""

    def __init__(self, executor: Executor, path: Path, kind: Kind, cause: Cause) -> None:
        super().__init__(executor, path)
        self.kind, self.cause = kind, cause
        self._trait = trait(cause)
        self.graphs = 0
        """The least number of graphs: a split function must keep several parts, or the break costs nothing."""
        self._limit: int | None = None
        """A recompile limit for runs in which that many compilations already show the finding; further ones only cost
        time.
        """

    @property
    def signature(self) -> str:
        """A short stable name of the trait that candidates must share."""
        return f"{self.kind}-{hashlib.sha256(self._trait.encode()).hexdigest()[:12]}"

    def shown(self, text: str) -> Cause | None:
        """The cause of the finding in a run of a script on `backend`; None if the run does not show it."""
        (outcome,) = self._run([self._request(text, compiled=True, backend=self.backend)])
        return self._cause(outcome)

    def aim(self, text: str) -> bool:
        """Choose the simplest backend on which a script shows the finding, and require its number of graphs, up to
        `PARTS`.

        Returns whether there is one.
        """
        for backend, limit in product(BACKENDS, self._limits()):
            self._limit = limit
            (outcome,) = self._run([self._request(text, compiled=True, backend=backend)])
            if self._cause(outcome) is not None:
                self.backend, self.graphs = backend, min(PARTS, outcome.graphs)
                return True
        return False

    def _limits(self) -> Sequence[int | None]:
        return (ENOUGH, None) if self.kind is Kind.RECOMPILES else (None,)

    def _is_target(self, outcome: Outcome) -> bool:
        return self._cause(outcome) is not None

    def _cause(self, outcome: Outcome) -> Cause | None:
        if outcome.ending is not Ending.SAME or outcome.graphs < self.graphs:
            return None
        recompiled = [one for one in outcome.recompiled if self._limit is None or not one.refused]
        found = causes_of(self.kind, outcome.broken, recompiled)
        return next((cause for cause in found if trait(cause) == self._trait), None)

    def _request(
        self, text: str, *, compiled: bool, backend: str | None = None, state: int | None = None
    ) -> ScriptRequest:
        request = super()._request(text, compiled=compiled, backend=backend, state=state)
        return replace(request, measure=compiled, recompile_limit=self._limit if compiled else None)


class FindingLevel(TextLevel):
    """The search among the texts of one script, with ``oracle`` as the judge."""

    further = (passes.operations, passes.objects)
    """These passes may change what is computed, and by which objects: neither matters to a finding."""

    def __init__(
        self, script: Path, args: Sequence[str], journal: Journal, oracle: FindingOracle, *, jobs: int
    ) -> None:
        super().__init__(script, args, journal, oracle, jobs=jobs)
        self._oracle = oracle

    def announce(self, known: Fault) -> Fault:
        """Add the finding to what is known, as a failure; it stays in the report however the search ends."""
        finding, kind = self._oracle.cause.finding, self._oracle.kind
        failure = Failure(
            kind=kind,
            stage=Stage.DYNAMO,
            message=finding.what,
            traceback="\n".join(finding.stack),
            signature=self._oracle.signature,
        )
        fault = self._journal.announce(replace(known, failure=failure))
        culprit = Culprit(what=self._oracle.cause.why, source=finding.source)
        return self._journal.blame(replace(fault, culprits=(culprit,)))

    def draft(self, fault: Fault) -> Draft | None:
        """Reduce the script and write its repro. ``fault``: the announced finding.

        None if no text of it shows the finding, or no assertion of it can be written.
        """
        oracle, journal = self._oracle, self._journal
        with journal.step(Step.LOCALIZE):
            try:
                self._bundle = bundle(self._script, self._args).rewritten()
                script = Source.parse(self._bundle.text)
            except (SyntaxError, UnicodeDecodeError):
                return None
            if not oracle.aim(script.text) or not oracle.ends_well(script.text):
                return None
            seen = oracle.observed(script.text)
        rate = Reproducibility(failed=2, runs=2)  # the survey was the first run
        fault = journal.record(fault.stating(reproducibility=rate))
        lines = len(script.text.splitlines())
        reduced, fault = self._reduced(
            script, oracle.check, oracle.kind, fault, lines=lines, operators=seen.calls, draws=seen.draws
        )
        with journal.clock.undisturbed(WRITE_SECONDS), journal.step(Step.EMIT):
            counted = fault.reduced.counted(oracle.observed(reduced.text).calls)
            return self._emit(reduced.text, journal.record(replace(fault, reduction=counted)))

    def _emit(self, text: str, fault: Fault) -> Draft | None:
        """The first form of the repro that reproduces what Dynamo says of the script."""
        cause = self._oracle.shown(text)
        if cause is None:
            return None
        plain = with_backend(text, self._oracle.backend) if self._oracle.backend is not None else text
        for script in dict.fromkeys((named_entries(plain), plain)):
            for form in forms(script, self._oracle.kind, first_line(cause)):
                repro = self._written(form.text, form.evidence, fault)
                if self._oracle.shows(repro.source, partial(_says, form.evidence)):
                    return Draft(repro, fault).keep(self._journal)
        return None


def _says(evidence: str, error: ExceptionInfo | None) -> bool:
    """Whether a repro ended itself with this message."""
    return has_ended_itself(error) and error is not None and evidence in error.message

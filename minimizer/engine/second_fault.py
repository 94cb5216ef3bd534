"""A script with a fault between graphs and one in a graph: each gets a repro, and the one that a user meets first is the job's.

The fault between graphs comes first in time, since its trials compile no kernel. The graph's is reduced behind it, as a job within the job,
and takes its place where the script comes to it in an earlier call, or where the first one has no repro.
"""

from __future__ import annotations

from dataclasses import replace

from minimizer.engine.aside import Aside
from minimizer.engine.checkpoint import ARCHIVE
from minimizer.engine.emit import called
from minimizer.engine.follow_up import FollowUp
from minimizer.engine.journal import Journal
from minimizer.engine.routes import Made, Routes, checked_of
from minimizer.engine.survey.cases import Case, ScriptCase
from minimizer.engine.survey.triage import Triage
from minimizer.report.model import AlsoSeen, Culprit, Failure, Report
from minimizer.sink import REPROS
from minimizer.vocabulary import Step

LEAST_SECONDS = 180.0
"""What it may take to see and reduce the graph's fault, however quickly the first one had its repro."""
SECOND_FILE, SECOND_ARCHIVE = "repro-2.py", "repro-2.zip"


def see_graphs(routes: Routes, follow_up: FollowUp) -> None:
    """Whether a graph is wrong besides, where the job's fault is one that no graph shows; reduce that one too, in the time that is left."""
    journal, report = routes.journal, routes.report
    triage = Triage(routes.triage.surveys, on_note=journal.note, on_healthy=lambda: None, repeat_seconds=0.0)
    with follow_up.adding(Step.FURTHER, least=LEAST_SECONDS):
        found = triage.run()
        if not isinstance(found, ScriptCase):
            report.checked = checked_of(found.checked, routes.exact)
        if isinstance(found, Case):
            _Second(found, triage, routes, follow_up).reduce()


class _Second:
    """The failing call of a graph, beside a fault between graphs."""

    def __init__(self, case: Case, triage: Triage, routes: Routes, follow_up: FollowUp) -> None:
        self._case, self._triage, self._routes, self._follow_up = case, triage, routes, follow_up
        self._journal, self._report = routes.journal, routes.report
        self._aside = Aside(self._journal.sink)
        self._inner = Journal(self._aside, Report(environment=dict(self._report.environment)), self._journal.clock)
        self._inner.redact, self._inner.guard = self._journal.redact, self._journal.watch_owner

    def reduce(self) -> None:
        """Reduce it, and tell of it as it deserves: a repro that holds, or that it fails too."""
        self._journal.progress(message=f"a compiled graph fails by itself too ({self._case.signature.kind})")
        repro = None
        try:
            repro = self._verified()
        finally:
            self._case.survey.close()
            self._report.attempts += self._inner.report.attempts
            if repro is None:
                self._mention()
        if repro is not None and self._is_first:
            self._take_its_place(repro)
        elif repro is not None:
            self._stand_behind(repro)

    def _verified(self) -> str | None:
        """The text of a repro of it that holds in clean processes; None where there is none."""
        routes = replace(self._routes, triage=self._triage, journal=self._inner, tried=[])
        follow_up = replace(self._follow_up, journal=self._inner)
        made = routes.follow(self._case)
        if not isinstance(made, Made):
            return None
        result = follow_up.verify(made.result)
        verification = self._inner.report.verification
        if verification is None or not verification.holds:
            return None
        if follow_up.options.diagnosis:
            patient = made.patient if result.found is made.result.found else routes.patient(result)
            follow_up.diagnose(patient, made.find_workaround)
        return self._inner.repro

    @property
    def _is_first(self) -> bool:
        """Whether a user meets it before the fault between graphs."""
        found, case = self._routes.exact.found, self._case
        verification = self._report.verification
        if found is None or verification is None or not verification.holds:
            return True
        call = found.compiled.call_of(case.graph, case.call)
        return call is not None and call < found.call

    def _mention(self) -> None:
        """That a graph fails too, without a repro."""
        said = self._case.message.splitlines()[0][:300] if self._case.message else ""
        self._report.also_seen.append(
            AlsoSeen(
                kind=self._case.signature.kind, signature=self._case.signature.text, message=self._case.message[:2000]
            )
        )
        self._journal.note(
            f"A compiled graph fails by itself too ({self._case.signature.kind}): {said} Once the fault between graphs is worked around, "
            "a second run of this script reduces that."
        )

    def _stand_behind(self, repro: str) -> None:
        second = self._inner.report
        self._journal.show(SECOND_FILE, called(repro, SECOND_FILE).encode())
        if ARCHIVE in self._aside.artifacts:  # it needs values that no text can give
            self._journal.show(SECOND_ARCHIVE, self._aside.artifacts[ARCHIVE])
        self._tell_of(second.failure, second.culprits)
        self._journal.keep()

    def _take_its_place(self, repro: str) -> None:
        report, before = self._report, self._report.model_copy()
        files = {name: self._aside.artifacts[name] for name in REPROS if name in self._aside.artifacts}
        other = self._journal.repro if before.verification is not None and before.verification.holds else None
        if other is not None:
            files[SECOND_FILE] = called(other, SECOND_FILE).encode()
        report.take(self._inner.report)
        for note in self._inner.report.notes:
            self._journal.note(note)
        self._tell_of(before.failure, before.culprits if other is not None else [])
        self._journal.show_instead(files)
        self._journal.repro = repro
        assert report.failure is not None and report.reduction is not None
        self._journal.event("failure", failure=report.failure.model_dump(mode="json"))
        lines, nodes = report.reduction.lines_after, report.reduction.nodes_after
        self._journal.event("repro", lines=lines, nodes=nodes, verified=True)
        self._journal.decide()

    def _tell_of(self, failure: Failure | None, culprits: list[Culprit]) -> None:
        """Name the fault that is not the job's: what it is, and its repro."""
        assert failure is not None
        self._report.also_seen.append(
            AlsoSeen(kind=failure.kind, signature=failure.signature, message=failure.message or "")
        )
        for culprit in culprits[:1]:
            what = f"{culprit.what}; " if culprit.what else ""
            self._report.culprits.append(
                culprit.model_copy(update={"what": f"{what}fails by itself too: {SECOND_FILE}"})
            )

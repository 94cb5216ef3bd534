"""Gives a repro to a fault in a graph of a script that has a fault between graphs too.

The fault between graphs is reduced first, since its trials compile no kernel. The graph's follows, as a job within the
job. It becomes the job's own failure if the script reaches it in an earlier call, or if the first fault has no verified
repro.
"""

from __future__ import annotations

from dataclasses import replace

from minimizer.engine import fold
from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.aside import Aside
from minimizer.engine.budget.patience import SECOND_FAULT_SECONDS
from minimizer.engine.emit import called
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import ARCHIVE
from minimizer.engine.routes import Made, Routes, checked_of
from minimizer.engine.survey.cases import Case, ScriptCase
from minimizer.engine.survey.triage import Triage
from minimizer.report.model import AlsoSeen, Report, each_once
from minimizer.sink import REPROS
from minimizer.vocabulary import Step

SECOND_FILE, SECOND_ARCHIVE = "repro-2.py", "repro-2.zip"


def see_graphs(routes: Routes, follow_up: FollowUp) -> None:
    """Survey the graphs of a script whose fault lies between graphs; reduce one that fails too, if there is time."""
    journal = routes.journal
    triage = Triage(routes.triage.surveys, on_note=journal.note, log=journal.log, repeat_seconds=0.0)
    with follow_up.adding(Step.FURTHER, least=SECOND_FAULT_SECONDS):
        found = triage.run()
        if not isinstance(found, ScriptCase):
            fold.checked(routes.report, checked_of(found.checked, routes.exact))
        if isinstance(found, Case):
            _Second(found, triage, routes, follow_up).reduce()


class _Second:
    """The failing call of a graph, in a script that has a fault between graphs too."""

    def __init__(self, case: Case, triage: Triage, routes: Routes, follow_up: FollowUp) -> None:
        self._case, self._triage, self._routes, self._follow_up = case, triage, routes, follow_up
        self._journal = routes.journal
        self._aside = Aside(self._journal.sink)
        self._inner = Journal(self._aside, Report(environment=dict(routes.report.environment)), self._journal.clock)
        self._inner.redact, self._inner.guard = self._journal.redact, self._journal.watch_owner

    def reduce(self) -> None:
        """Reduce it, and report it: as the job's failure, as ``repro-2.py``, or without a repro as also seen."""
        self._journal.progress(message=f"a compiled graph fails by itself too ({self._case.signature.kind})")
        repro = None
        try:
            repro = self._verified()
        finally:
            self._case.survey.close()
            tried = [*self._journal.report.attempts, *self._inner.report.attempts]
            fold.attempted(self._journal.report, tried)
            if repro is None:
                self._mention()
        if repro is not None and self._is_first:
            self._take_its_place(repro)
        elif repro is not None:
            self._stand_behind(repro)

    def _verified(self) -> str | None:
        """The text of its repro, verified in clean processes; None if there is none."""
        routes = replace(self._routes, triage=self._triage, journal=self._inner, tried=[])
        follow_up = replace(self._follow_up, journal=self._inner)
        made = routes.follow(self._case)
        if not isinstance(made, Made):
            return None
        result = follow_up.verify(made.result)
        if not self._inner.fault.holds:
            return None
        if follow_up.options.diagnosis:
            patient = made.patient if result.found is made.result.found else routes.patient(result)
            follow_up.diagnose(patient, made.find_workaround)
            follow_up.read_code(result)
        return self._inner.repro

    @property
    def _is_first(self) -> bool:
        """Whether the script reaches it before the fault between graphs, or that one has no verified repro."""
        found, case = self._routes.exact.found, self._case
        if found is None or not self._journal.fault.holds:
            return True
        call = found.compiled.call_of(case.graph, case.call)
        return call is not None and call < found.call

    def _mention(self) -> None:
        """Report that a graph fails too, without a repro."""
        said = self._case.message.splitlines()[0][:300] if self._case.message else ""
        signature = self._case.signature
        self._has_seen(AlsoSeen(kind=signature.kind, signature=signature.text, message=self._case.message[:2000]))
        self._journal.note(
            f"A compiled graph fails by itself too ({self._case.signature.kind}): {said} Once the fault between graphs is worked around, "
            "a second run of this script reduces that."
        )

    def _stand_behind(self, repro: str) -> None:
        self._journal.show(SECOND_FILE, called(repro, SECOND_FILE).encode())
        if ARCHIVE in self._aside.artifacts:  # the repro needs a data file
            self._journal.show(SECOND_ARCHIVE, self._aside.artifacts[ARCHIVE])
        self._tell_of(self._inner.fault)
        self._journal.keep()

    def _take_its_place(self, repro: str) -> None:
        before = self._journal.fault
        files = {name: self._aside.artifacts[name] for name in REPROS if name in self._aside.artifacts}
        other = self._journal.repro if before.holds else None
        if other is not None:
            files[SECOND_FILE] = called(other, SECOND_FILE).encode()
        self._journal.fault = replace(self._inner.fault, also_seen=before.also_seen)
        for note in self._inner.report.notes:
            self._journal.note(note)
        self._tell_of(before, has_repro=other is not None)
        self._journal.show_instead(files)
        self._journal.repro = repro
        self._journal.announce(self._journal.fault)
        self._journal.tell_repro(verified=True)
        self._journal.decide()

    def _has_seen(self, one: AlsoSeen) -> None:
        """Add another failure to those that were seen, which has each once."""
        fault = self._journal.fault
        self._journal.fault = replace(fault, also_seen=tuple(each_once([*fault.also_seen, one])))

    def _tell_of(self, other: Fault, *, has_repro: bool = True) -> None:
        """Add the fault that is not the job's own: its failure and its repro."""
        failure = other.failure
        assert failure is not None
        self._has_seen(AlsoSeen(kind=failure.kind, signature=failure.signature, message=failure.message or ""))
        for culprit in other.culprits[:1] if has_repro else []:
            what = f"{culprit.what}; " if culprit.what else ""
            more = {"what": f"{what}fails by itself too: {SECOND_FILE}", "generated_code": other.generated_code}
            further = culprit.model_copy(update={**more, "further": True, "repro": SECOND_FILE})
            self._journal.fault = replace(self._journal.fault, culprits=(*self._journal.fault.culprits, further))

"""From a held call to a repro of its graph; of several suspects, of the first graph in which the fault is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.between.answer import Answer, checked_of
from minimizer.engine.child.executor import Executor
from minimizer.engine.diagnose import Patient
from minimizer.engine.diagnose.original import SurveyedScript, passes_needed
from minimizer.engine.diagnose.trials import ProgramTrials
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.from_outcomes import mechanism_of
from minimizer.engine.levels.graph import Repeat, Search
from minimizer.engine.levels.window import Unreduced, accepted
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.known_failure import failure_rate
from minimizer.engine.survey.triage import Triage
from minimizer.engine.verify.clean_process_oracle import Fails
from minimizer.errors import Unanswered
from minimizer.report.model import Failure, Reproducibility


class GraphLevel:
    """The search for repros of graphs whose failing calls are held.

    Args:
        executor: the warm child.
        script: the user's.
        args: its arguments.
        journal: the record of the job.
        jobs: trials in parallel.
        triage: holds the suspects.
        exact: the result of the exact runs.
        target: the root to reduce, as for `localize`.
        beside: runs background work that nobody waits for.
        vanishes: the verdict on a failure that its graph does not show in isolation, if the reason is known.
    """

    def __init__(
        self,
        executor: Executor,
        script: Path,
        args: Sequence[str],
        journal: Journal,
        *,
        jobs: int,
        triage: Triage,
        exact: Answer,
        target: str | None,
        beside: ThreadPoolExecutor,
        vanishes: Callable[[Case], Settled | None],
    ) -> None:
        self._executor, self._script, self._journal, self._jobs = executor, script, journal, jobs
        self._triage, self._exact, self._target, self._beside = triage, exact, target, beside
        self._vanishes = vanishes

    def draft(self, case: Case, known: Fault) -> Draft:
        """The repro of a failing call's graph, with the exact inputs of that call; of several suspects, of the first
        confirmed. ``known``: the findings of earlier attempts.

        Raises:
            Unreduced: no window of the graph fails in isolation.
            Unanswered: the graph's values cannot be captured.
        """
        while True:
            fault = self._announced(case, known)
            oracle = Oracle(self._executor, case.survey, accepted(case.signature), case.tolerance, case.identity)
            try:
                return self._to_diagnose(self._search(case, oracle).run(self._repeated(case), fault))
            except (Unreduced, Unanswered) as end:
                case.survey.close()  # before the next call is held: each held child keeps the whole script in memory
                if case.otherwise is None:
                    raise
                suspects = self._triage.suspects
                if isinstance(end, Unanswered):
                    suspects.leave_open()
                further = suspects.hold_next()
                if further is None and isinstance(end, Unreduced) and end.settled is not case.otherwise:
                    raise
                if further is None:
                    assert suspects.otherwise is not None
                    raise Unreduced(suspects.otherwise) from None
            case = further

    def firmer(self, draft: Draft, fails: Fails) -> Draft | None:
        """The repro of a less reduced graph that ``fails`` in a clean process too; None if no program of the search
        does.

        Raises:
            BudgetExceeded: the time ended before one was found.
        """
        way, found = draft.way, draft.found
        assert way is not None and found is not None
        firm = self._search(found.case, found.oracle).firmer(way, found, draft.fault, fails)
        return self._to_diagnose(firm) if firm is not None else None

    def _repeated(self, case: Case) -> Repeat:
        return lambda seen, enough, over: self._beside.submit(
            failure_rate, self._triage.surveys, case, seen, enough, over
        )

    def _search(self, case: Case, oracle: Oracle) -> Search:
        return Search(
            case,
            oracle,
            self._journal,
            script=self._script,
            target=self._target,
            jobs=self._jobs,
            vanishes=partial(self._vanishes, case),
        )

    def _to_diagnose(self, draft: Draft) -> Draft:
        """The draft with what to diagnose: the reduced program and the user's script."""
        found = draft.found
        assert found is not None
        repeats = passes_needed(draft.known.announced.reproducibility)
        original = SurveyedScript(self._triage.surveys, found.case, repeats)
        return replace(draft, patient=Patient(ProgramTrials(found.reduced, found.oracle), original, self._script))

    def _announced(self, case: Case, known: Fault) -> Fault:
        journal, signature = self._journal, case.signature
        fold.on_device(journal.report, case.device)
        fold.checked(journal.report, checked_of(case.checked, self._exact))
        journal.subject = f"graph {case.graph}" if case.graph is not None else ""
        failure = Failure(
            kind=signature.kind,
            exception_type=case.exception.root_type if case.exception else None,
            message=case.message,
            traceback=journal.stack(case.stack),
            signature=signature.text,
            layout_only=case.layout_only,
            reproducibility=Reproducibility(failed=1, runs=case.runs),
            **mechanism_of(case.verdict),
        )
        return journal.announce(replace(known, failure=failure))

"""From a call that fails only with other calls of its graph to a script of those: earlier calls, or one that fills a
cache.

Such a script is made from the graph (`call_sequence`, `cached_calls`), and then reduced like a user's script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from minimizer.engine.child.executor import Executor
from minimizer.engine.diagnose.original import SurveyedScript, passes_needed
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels import cached_calls, call_sequence
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.from_outcomes import source_of
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import AOT_CACHE, INDUCTOR_CACHE, Cache, Case, Settled
from minimizer.engine.survey.known_failure import fails_again
from minimizer.engine.survey.triage import Triage
from minimizer.engine.survey.verdicts import of_caches
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.report.model import Workaround
from minimizer.vocabulary import Reason, Stage, Status

T = TypeVar("T")

COMPILES_ANEW = "every run compiles all of its graphs: with these caches off, the script showed no failure"


class CallsLevel:
    """The search for a repro among scripts that call a graph several times; ``triage`` holds its failing call again."""

    def __init__(
        self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int, triage: Triage
    ) -> None:
        self._executor, self._script, self._args, self._journal, self._jobs = executor, script, args, journal, jobs
        self._triage = triage
        self.stale: Settled | None = None
        """The verdict on a failure that needs the compiler's caches; None if none was seen to."""
        self._has_asked_caches = False

    def by_sequence(self, case: Case, known: Fault) -> Draft | None:
        """A repro made of the calls of the graph that led to the failing one. ``known``: the findings on that."""
        with suppress(ChildFailed):
            text = self._from_held(case, lambda held: call_sequence.as_script(held.program, held.survey.calls()))
            return self._draft(case, self._made(case, text, case.program, known), known) if text is not None else None
        return None

    def by_caches(self, case: Case, cache: Cache, known: Fault) -> Draft | None:
        """A repro made of calls that share a cache, the last of which fails. ``known``: the findings on that."""
        scripts = self._from_held(
            case, lambda held: list(cached_calls.as_scripts(held.program, held.survey.calls()[-1]))
        )
        judge = Rerun(self._executor, self._script, caches=True)
        for text, part in scripts or ():
            script = self._made(case, text, part, known)
            script = replace(script, cured=cached_calls.without_caches, what="", stage=cache.stage)
            made = self._draft(case, script, known, judge)
            if made is not None:
                return replace(made, known=made.fault.stating(mechanism="stale_cache", object=cache.name))
        return None

    def needs_caches(self, case: Case) -> Settled | None:
        """The verdict on a failure that needs the compiler's caches, from runs with and without them; None if it does
        not.

        Repeated until one answer came in time, which then holds for every graph of the script.
        """
        if not case.is_cached or self._has_asked_caches:
            return self.stale
        surveys = self._triage.surveys
        surveys.pass_by(())
        with suppress(BudgetExceeded, ChildFailed):
            is_needed = fails_again(surveys, case) is False and fails_again(surveys, case, caches=True)
            self._has_asked_caches = True
            if not is_needed:
                return None
            is_inductor = fails_again(surveys, case, caches="inductor")
            name, stage = (INDUCTOR_CACHE, Stage.INDUCTOR) if is_inductor else (AOT_CACHE, Stage.AOT_AUTOGRAD)
            workaround = Workaround(
                code=cached_calls.OFF, verified=True, where="behind the imports", what=COMPILES_ANEW
            )
            self._journal.add(workaround=workaround)
            end = Settled(Status.PARTIAL, None, "", case.checked, kind=case.signature.kind, exception=case.exception)
            self.stale = of_caches(end, Cache(name, stage, case.message), is_warm=case.is_warm)
        return self.stale

    def _from_held(self, case: Case, write: Callable[[Case], T]) -> T | None:
        """The result of ``write`` for the failing call, held again.

        None if it cannot be held, or an input has no source text.
        """
        with suppress(ChildFailed):
            held = self._triage.held_at(case)
            if held is not None:
                try:
                    return write(held)
                finally:
                    held.survey.close()
        return None

    def _made(self, case: Case, text: str, part: Program, known: Fault) -> MadeScript:
        """A script that makes calls of a part of a graph."""
        nodes = [node for node in part.nodes if node.counts]
        module = next((node.module for node in nodes if node.module), "")
        repeats = passes_needed(known.announced.reproducibility)
        return MadeScript(text, SurveyedScript(self._triage.surveys, case, repeats), module, source_of(nodes[::-1]))

    def _draft(self, case: Case, script: MadeScript, known: Fault, judge: Rerun | None = None) -> Draft | None:
        """The repro of a script that was made of calls; None if it does not show the failure."""
        same = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=case.signature.kind)
        level = PythonLevel(
            self._executor, self._script, self._args, self._journal, jobs=self._jobs, made=script, rerun=judge
        )
        return level.draft(same, known)

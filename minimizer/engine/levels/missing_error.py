"""From a script that only eager ends by an error to its repro: the reduction of the text, judged by both ends.

A graph whose compiled code lacks an error that eager raises is reduced at the graph level. Here nothing in a graph
lacks it: an error of eager's backward for instance, which compiled code has no node for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.between.showing import raising
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.diagnose.ladder import PASSES, cheaper_than, rung, rungs, stage_of
from minimizer.engine.diagnose.own_backend import backend_of
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.script_culprit import operators_in
from minimizer.engine.levels.text import TextLevel
from minimizer.engine.oracle.signature import Signature, exception_signature
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.reduce.python import Source as Script
from minimizer.engine.reduce.python.rerun import has_ended_itself
from minimizer.engine.survey.cases import message_of
from minimizer.engine.user_script.bundle import bundle
from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind, Step

KIND = Kind.MISSING_ERROR
BOTH = Reproducibility(failed=2, runs=2)


class LackingRerun(Rerun):
    """Judges scripts by both ends: eager raises the target, and compiled code ends well."""

    def _judge(self, text: str) -> tuple[bool, bool]:
        eager = self.in_eager(text)
        found = error_of(eager)
        if found is None or self.target is None or not self.target.matches(found):
            return False, eager.draws
        return self.lacks(text, self.backend), eager.draws

    def in_eager(self, text: str) -> Outcome:
        """A run without the compiler."""
        (outcome,) = self._run([self._request(text, compiled=False)])
        return outcome

    def lacks(self, text: str, backend: str | None = None) -> bool:
        """Whether a script ends well with the compiler, which was given a frame."""
        _, outcome = self.failure(text, backend)
        return outcome.ending is Ending.SAME and outcome.attempted


class MissingErrorLevel(TextLevel):
    """The search for a repro of an error that eager raises, and compiled code does not."""

    _rerun: LackingRerun

    def __init__(self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int) -> None:
        super().__init__(script, args, journal, LackingRerun(executor, script), jobs=jobs)

    def draft(self) -> Draft | None:
        """Reduce the script and write its repro; None if the warm child does not show the failure twice.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        with self._journal.step(Step.LOCALIZE):
            try:
                self._bundle = bundle(self._script, self._args).rewritten()
                script = Script.parse(self._bundle.text)
            except (SyntaxError, UnicodeDecodeError):
                return None
            eager = self._rerun.in_eager(script.text)
            target, error = error_of(eager), eager.exception
            self._rerun.target = target
            if target is None or error is None or self._rerun.check([script, script]) != [True, True]:
                return None
        raised_at = Source.of(self._bundle.line(*error.source, self._script.name)) if error.source else None
        self._announce(target, error, raised_at)
        reduced = self._reduce(script, target)
        with self._journal.step(Step.BLAME):
            self._blame(reduced, error, raised_at)
        with self._journal.step(Step.EMIT):
            text = raising(reduced.text, error.root_type.rpartition(".")[2], "")
            forms = [self._written(text, ", actual ")] if text is not None else []
            shown = self._first_that_shows(forms, has_ended_itself)
            return Draft(self._publish(shown)) if shown is not None else None

    def _announce(self, target: Signature, error: ExceptionInfo, raised_at: Source | None) -> None:
        name = self._script.name
        failure = Failure(
            kind=KIND,
            exception_type=error.root_type,
            message=self._bundle.in_users_lines(message_of(error, None), name),
            traceback=self._journal.stack(self._bundle.in_users_lines(error.stack, name)),
            signature=target.text,
            source=raised_at,
            reproducibility=BOTH,
        )
        self._take_failure(replace(self._journal.fault, failure=failure))
        self._journal.announce(self._journal.fault)

    def _reduce(self, script: Script, target: Signature) -> Script:
        """Reduce on the cheapest backend that lacks the error; on the script's own again if the result needs more."""
        rerun, seen = self._rerun, self._rerun.observed(script.text)
        ways = cheaper_than(backend_of(script.text))
        rerun.backend = next((name for name in ways if rerun.lacks(script.text, name)), None)
        lines = len(script.text.splitlines())

        def reduced(first: Script) -> Script:
            return self._reduced(first, rerun.check, KIND, lines=lines, operators=seen.calls, draws=seen.draws)

        best = reduced(script)
        if rerun.backend is None:
            return best
        rerun.backend = None
        return best if rerun.check([best])[0] else reduced(script)

    def _blame(self, reduced: Script, error: ExceptionInfo, raised_at: Source | None) -> None:
        rerun, fault, ladder = self._rerun, self._journal.fault, rungs(backend_of(reduced.text))
        fails: list[bool | None] = []
        shown = []
        for name, _ in ladder:
            signature, outcome = rerun.failure(reduced.text, None if name == ladder[-1][0] else name)
            is_lacking = outcome.ending is Ending.SAME and outcome.attempted
            raises = signature is not None and signature.exception_type == error.root_type
            fails.append(True if is_lacking else False if raises else None)
            word = KIND if is_lacking else PASSES if raises else outcome.ending
            shown.append(rung(name, word, outcome, {KIND}, fails=fails[-1]))
        seen = rerun.observed(reduced.text)
        culprit = Culprit(ops=operators_in(seen.ops), source=raised_at)
        known = replace(fault, culprits=(culprit,), ladder=tuple(shown), reduction=fault.reduced.counted(seen.calls))
        self._journal.blame(known.stating(stage=stage_of(ladder, fails)))


def error_of(outcome: Outcome) -> Signature | None:
    """The error that a run without the compiler ends by; None for another end."""
    if outcome.ending is not Ending.EAGER_ERROR or outcome.exception is None:
        return None
    return exception_signature(KIND, outcome.exception)

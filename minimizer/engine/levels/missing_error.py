"""From a script that only eager ends by an error to its repro: the reduction of the text, judged by both ends.

A graph whose compiled code lacks an error that eager raises is reduced at the graph level. Here nothing in a graph
lacks it: an error of eager's backward for instance, which compiled code has no node for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.between.showing import CANNOT_RUN, guarded
from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import WRITE_SECONDS
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.diagnose.ladder import PASSES, cheaper_than, rung, rungs, stage_of
from minimizer.engine.diagnose.own_backend import backend_of
from minimizer.engine.findings import UNKNOWN, Fault
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
PLAIN = re.compile(r"[A-Za-z][A-Za-z ,'-]*")
MOST_WORDS = 36
"""Most characters of the words that a repro knows eager's error by, on one line."""
BOTH = Reproducibility(failed=2, runs=2)


class LackingRerun(Rerun):
    """Judges scripts by both ends: eager raises the target, and compiled code ends well."""

    def _is_right_in_eager(self, outcome: Outcome) -> bool:
        found = error_of(outcome)
        return found is not None and self.target is not None and self.target.matches(found)

    def _is_target(self, outcome: Outcome) -> bool:
        return _ends_well(outcome)


class MissingErrorLevel(TextLevel):
    """The search for a repro of an error that eager raises, and compiled code does not."""

    _rerun: LackingRerun

    def __init__(self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int) -> None:
        super().__init__(script, args, journal, LackingRerun(executor, script), jobs=jobs)

    def draft(self, known: Fault = UNKNOWN) -> Draft | None:
        """Reduce the script and write its repro, from what earlier attempts found; None if the warm child does not show
        the failure twice.

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
            if target is None or error is None or not all(self._rerun.check([script])[0] for _ in range(2)):
                return None
        raised_at = (
            Source.of(self._bundle.line(*error.source, self._script.name), error.library) if error.source else None
        )
        fault = self._announced(target, error, raised_at, known)
        reduced, fault = self._reduce(script, fault)
        with self._journal.clock.undisturbed(WRITE_SECONDS):
            with self._until_verification(KIND), self._journal.step(Step.BLAME):
                fault = self._journal.blame(self._blamed(reduced, error, raised_at, fault))
            with self._journal.step(Step.EMIT):
                repro = self._written(_ended(reduced.text, error), ", actual ", fault)
                shown = self._first_that_shows([repro], has_ended_itself)
                return Draft(shown, fault).keep(self._journal) if shown is not None else None

    def _announced(self, target: Signature, error: ExceptionInfo, raised_at: Source | None, known: Fault) -> Fault:
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
        in_part = Culprit(what=f"{error.root_type}, which only eager raises", source=raised_at)
        return self._journal.announce(replace(known, failure=failure, culprits=(in_part,)))

    def _reduce(self, script: Script, fault: Fault) -> tuple[Script, Fault]:
        """Reduce on the cheapest backend that lacks the error; on the script's own again if the result needs more."""
        rerun, seen = self._rerun, self._rerun.observed(script.text)
        ways = cheaper_than(backend_of(script.text))
        rerun.backend = next((name for name in ways if rerun.fails_on(script.text, name)), None)
        lines = len(script.text.splitlines())

        def smallest() -> tuple[Script, Fault]:
            return self._reduced(script, rerun.check, KIND, fault, lines=lines, operators=seen.calls, draws=seen.draws)

        best, found = smallest()
        if rerun.backend is None:
            return best, found
        rerun.backend = None
        with suppressing_end_of_time():
            return (best, found) if rerun.check([best])[0] else smallest()
        return best, found  # clean processes decide

    def _blamed(self, reduced: Script, error: ExceptionInfo, raised_at: Source | None, fault: Fault) -> Fault:
        rerun, ladder = self._rerun, rungs(backend_of(reduced.text))
        shown = []
        for name, _ in ladder:
            signature, outcome = rerun.failure(reduced.text, None if name == ladder[-1][0] else name)
            is_lacking = _ends_well(outcome)
            raises = signature is not None and signature.exception_type == error.root_type
            fails = True if is_lacking else False if raises else None
            word = KIND if is_lacking else PASSES if raises else outcome.ending
            shown.append(rung(name, word, outcome, {KIND}, fails=fails))
        seen = rerun.observed(reduced.text)
        culprit = Culprit(ops=operators_in(seen.ops), source=raised_at)
        known = replace(fault, culprits=(culprit,), ladder=tuple(shown), reduction=fault.reduced.counted(seen.calls))
        return known.stating(stage=stage_of(ladder, shown))


def _ends_well(compiled: Outcome) -> bool:
    """Whether a script ends well with the compiler, which was given a frame."""
    return compiled.ending is Ending.SAME and compiled.attempted


def _ended(text: str, error: ExceptionInfo) -> str:
    """The script as one whose end tells: eager's error is known by its words, and any other says nothing."""
    known_by = _known_by(error)
    handler = (
        "except Exception as error:\n"
        f"    raise SystemExit(0 if {known_by} else 125)\n"
        "else:\n"
        f"    raise SystemExit('expected {error.type.rpartition('.')[2]}, actual no error')\n"
    )
    return guarded(text).removesuffix(CANNOT_RUN) + handler


def _known_by(error: ExceptionInfo) -> str:
    """The condition for this error: the longest run of plain words of its first line, else the name of its type."""
    line = next(iter(error.message.strip().splitlines()), "")
    longest = max(PLAIN.findall(line), key=len, default="").strip()
    short = longest if len(longest) <= MOST_WORDS else longest[:MOST_WORDS].rpartition(" ")[0]
    if " " in short:
        return f"{short!r} in str(error)"
    return f"type(error).__name__ == {error.type.rpartition('.')[2]!r}"


def error_of(outcome: Outcome) -> Signature | None:
    """The error that a run without the compiler ends by; None for another end."""
    if outcome.ending is not Ending.EAGER_ERROR or outcome.exception is None:
        return None
    return exception_signature(KIND, outcome.exception)

"""The level of exact runs, for faults between graphs: reduces the script, and ends it with an assertion of the visible
difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine.between import passes, words
from minimizer.engine.between.answer import Answer, Found, unanswered
from minimizer.engine.between.assertion import OUT, OUTS, Claim, draw_from
from minimizer.engine.between.culprit import broken_promise, culprit_line
from minimizer.engine.between.difference import Change, difference_at_end
from minimizer.engine.between.drawn import CHECK, run_twice
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.mechanism import makes_extra_change, mechanism_of
from minimizer.engine.between.oracle import ExactOracle
from minimizer.engine.between.public import named_entries, with_backend
from minimizer.engine.between.showing import MOST_CALLS, asserted, guarded, raising, ways_to_show
from minimizer.engine.between.workaround import find_workaround
from minimizer.engine.between.wrapper_effect import told, wrapper_effect
from minimizer.engine.budget.patience import BLAME_SHARE, WRITE_SECONDS
from minimizer.engine.child.exact_log import Glance, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.text import TextLevel
from minimizer.engine.reduce.python import Rerun, Source, shorter
from minimizer.engine.reduce.python.rerun import has_ended_itself
from minimizer.engine.survey.cases import Settled
from minimizer.engine.user_script.bundle import bundle
from minimizer.engine.user_script.constructs import construct_of
from minimizer.engine.user_script.own_checks import without_checks
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.engine.verify.reserve import to_verify
from minimizer.errors import BudgetExceeded
from minimizer.report import culprit
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Mechanism, Reproducibility, Workaround
from minimizer.vocabulary import Reason, Status, Step

BY_CONSTRUCT: tuple[Mechanism, ...] = ("wrong_constant", "skipped_handler")
"""Mechanisms for which the reduced construct names the culprit better: they say how a value arose, and not from what.
"""
EVIDENCE = "AssertionError"


class BetweenGraphs(TextLevel):
    """The search on one script, judged by exact runs."""

    further = (passes.operations, passes.objects, shorter.statements)

    def __init__(
        self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int, timeout: float
    ) -> None:
        super().__init__(script, args, journal, Rerun(executor, script), jobs=jobs)
        self._executor = executor
        self._runs = ExactRuns(executor, script, timeout=timeout, line_of=self._line_of)
        self._text = ""
        """The text that is run."""
        self._raised = ("", "")
        """The exceptions of the blamed call without the compiler and with it, if they differ."""

    def compare(self) -> Answer:
        """The result of the script's exact runs.

        If a check of its own ends the compiled run, that of the script without checks.
        """
        try:
            self._bundle = bundle(self._script, self._args)
        except (SyntaxError, UnicodeDecodeError):
            return unanswered(UNPARSED)
        self._text = self._bundle.text
        answer = self._runs.compare(self._text)
        unchecked = without_checks(self._text, answer.failed_check) if answer.failed_check else self._text
        if unchecked == self._text:
            return answer
        without = self._runs.compare(unchecked)
        if without.found is None:
            return replace(answer, runs=without.runs)
        self._text = unchecked
        return replace(without, failed_check=answer.failed_check)

    def draft(self, found: Found, known: Fault = UNKNOWN, *, reduces: bool = True) -> Draft | None:
        """Reduce the script and write its repro; None if the rest cannot be asserted, or ``reduces`` is false.

        The failure is in the report from the beginning: it is confirmed, however this ends. ``known``: earlier findings.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        fault = self._seen(found, known)
        mechanism = mechanism_of(found, self._runs, self._text)
        fault = self._journal.announce(self._explained(found, mechanism, fault))
        if not reduces:
            return None
        oracle = ExactOracle(self._executor, self._script, found, mechanism, slowest=self._runs.slowest)
        lines, kind = len(self._text.splitlines()), words.kind_of(found.difference)
        reduced, fault = self._reduced(
            Source.parse(self._text), oracle.check, kind, fault, lines=lines, draws=found.draws
        )
        fault = self._journal.record(self._blamed(reduced, fault))
        clock = self._journal.clock
        with clock.undisturbed(WRITE_SECONDS), clock.reserving(partial(to_verify, clock.pace, kind), BLAME_SHARE):
            with self._journal.step(Step.EMIT):
                draft = self._emit(reduced, oracle, fault)
            with suppress(BudgetExceeded):  # a repro matters more than the number of operators
                fault = self._journal.record(self._counted(reduced, draft.fault if draft is not None else fault))
            return replace(draft, known=fault, difference=found) if draft is not None else None

    def workaround(self, found: Found, mechanism: Mechanism | None) -> Workaround | None:
        """A workaround for a failure announced by `draft`; None if its mechanism is unknown.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        if mechanism is None:  # the child went away first
            return None
        with suppress(SyntaxError):
            return find_workaround(
                self._runs, self._text, found, mechanism, self._line, self._bundle, script=self._script
            )
        return None

    def past_wrappers(self, found: Settled) -> Settled:
        """The healthy verdict on a compared script, unless the script behaves differently because it sees the
        compiler's wrappers.

        Raises:
            BudgetExceeded: the time is over.
            ChildFailed: the child went away.
        """
        effect = wrapper_effect(self._runs, self._text)
        if effect is None:
            return found
        source = self._source(effect.glance)
        code = source.code if source is not None else ""
        summary = told(effect, self._line_of(effect.glance), code)
        return replace(found, status=Status.FAILED, reason=Reason.WRAPPER_EFFECT, summary=summary)

    def _seen(self, found: Found, known: Fault) -> Fault:
        """The failure, as far as the exact runs have shown it."""
        look, named = found.difference.look, found.difference.first
        self._line = look.line if look.line and not look.file else None
        raised = next((change for change in found.difference.changes if change.path == "raised"), None)
        self._raised = (raised.eager.get("value", ""), raised.compiled.get("value", "")) if raised else ("", "")
        failure = Failure(
            kind=words.kind_of(found.difference),
            stage=found.stage,
            message=words.message(found),
            signature=f"between graphs: {words.object_in(found.difference)} {named.field}",
            object=words.object_in(found.difference),
            source=self._source(look),
            reproducibility=Reproducibility(failed=2, runs=2),
        )
        observed = tuple(words.observed(found, self._number))
        return self._journal.record(replace(known, failure=failure, observed=observed))

    def _explained(self, found: Found, mechanism: Mechanism, fault: Fault) -> Fault:
        """The failure with its mechanism."""
        lost = words.object_in(found.difference)
        signature = f"between graphs: {mechanism} {lost} {found.difference.first.field}"
        is_extra = mechanism == "lost_mutation" and makes_extra_change(found)
        known = fault.stating(mechanism=mechanism, signature=signature, extra_change=is_extra)
        first = Culprit(what=words.what(known.announced), source=known.announced.source)
        return replace(known, culprits=(first,))

    def _blamed(self, reduced: Source, fault: Fault) -> Fault:
        """The fault with the line of the script that makes the lost effect or reads the stale value, if the reduced
        script shows it.
        """
        failure, first = fault.announced, fault.culprits[0]
        line = culprit_line(reduced.tree, failure.object)
        if (promise := broken_promise(reduced.tree)) is not None:
            what, line = f"{promise[0]}, a promise that the script does not keep", promise[1]
            first = first.model_copy(update={"what": what})
        elif failure.mechanism in BY_CONSTRUCT and (made := construct_of(reduced.tree, failure.message)) is not None:
            first, line = first.model_copy(update={"what": made.what}), made.line
        source = culprit.Source.of(self._bundle.lines.get(line or 0))
        if source is not None and failure.mechanism != "lost_gradient":  # its backward is the line, and known
            self._line, fault = line, fault.stating(source=source)
            first = first.model_copy(update={"source": source})
        return fault.blaming(first)

    def _source(self, look: Look | Glance) -> culprit.Source | None:
        """The user's line at a look: in the script, or in a module of the user's."""
        if look.file:
            return culprit.Source(file=look.file, line=look.line, code=look.code)
        return culprit.Source.of(self._bundle.lines.get(look.line))

    def _line_of(self, look: Look | Glance) -> str:
        source = self._source(look)
        if source is None:
            return "line unknown"
        return f"line {source.line}{'' if source.file == self._script.name else f' of {source.file}'}"

    def _number(self, look: Look) -> int:
        """The line of the script itself at a look; 0 if the look is elsewhere."""
        source = self._source(look)
        return source.line if source is not None and source.file == self._script.name else 0

    def _counted(self, reduced: Source, fault: Fault) -> Fault:
        """The fault with the operators that the compiled functions call, in the script and in the reduced script."""
        before, after = (self._rerun.observed(text).calls for text in (self._text, reduced.text))
        known = fault.counting(nodes_before=before)
        return replace(known, reduction=known.reduced.counted(after))

    def _emit(self, reduced: Source, oracle: ExactOracle, fault: Fault) -> Draft | None:
        plain = with_backend(reduced.text, oracle.backend)
        scripts = dict.fromkeys((named_entries(plain), plain))
        forms = (
            self._written(text, _evidence(text), fault) for script in scripts for text in self._asserted(script, oracle)
        )
        shown = self._first_that_shows(forms, has_ended_itself)
        return Draft(shown, fault).keep(self._journal) if shown is not None else None

    def _asserted(self, text: str, oracle: ExactOracle) -> Iterator[str]:
        """The script with an assertion at its end, in several forms, the most readable first."""
        exiting = raising(text, *self._raised) if any(self._raised) else None
        if exiting is not None:
            yield exiting
        drawn: list[str] = []
        unsteady: list[tuple[str, Claim]] = []
        for shown in ways_to_show(text):
            end = self._end(shown, oracle)
            drawn += [f"{shown}{OUT} = {draw}\n" for draw in map(draw_from, end) if draw]
            steady = list(oracle.claims_at_end(oracle.steady_at_end(shown, end)))
            for claim in oracle.claims_at_end(end):
                needs_name = re.search(rf"\b({OUT}|{OUTS})\b", claim.expression) is not None
                said = shown if needs_name else text
                if claim in steady:
                    yield asserted(said, claim)
                else:
                    unsteady.append((said, claim))
        for said, claim in unsteady[:MOST_CALLS]:
            for twice in run_twice(said, claim.compared):
                yield f"{guarded(twice)}{CHECK}"
        for shown in drawn:
            yield from (asserted(shown, claim) for claim in oracle.claims_at_end(self._end(shown, oracle)))
        yield from (asserted(said, claim) for said, claim in unsteady)

    def _end(self, text: str, oracle: ExactOracle) -> tuple[Change, ...]:
        """The differences at the end of a script."""
        logs = oracle.logs(text)
        return difference_at_end(*logs) if logs is not None else ()


def _evidence(text: str) -> str:
    return EVIDENCE if text.rstrip().splitlines()[-1].startswith("assert ") else ", actual "

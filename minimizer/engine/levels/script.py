"""From a failing script to an unverified repro, at the script level: rerun → reduce → blame → emit.

Used if a script fails only when compiled but none of its graphs fails in isolation, and if the failing graph cannot be
written in public names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import WRITE_SECONDS
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.child.stacks import readable
from minimizer.engine.diagnose import Original, Patient
from minimizer.engine.diagnose.ladder import PASSES, cheaper_than, rung, rung_below, rungs, stage_of
from minimizer.engine.diagnose.original import RerunScript, passes_needed
from minimizer.engine.diagnose.own_backend import backend_of
from minimizer.engine.diagnose.trials import ScriptTrials
from minimizer.engine.emit import Repro
from minimizer.engine.emit.header import telltale
from minimizer.engine.emit.script_idioms import emit_script
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.call_sequence import compiled_anew
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.script_culprit import Observed, culprit_of, operators_in, together
from minimizer.engine.levels.text import TextLevel
from minimizer.engine.oracle.signature import Signature, also_seen
from minimizer.engine.reduce.graph import OnStep, Reduced
from minimizer.engine.reduce.python import Check, Rerun, reduce_script
from minimizer.engine.reduce.python import Source as Script
from minimizer.engine.reduce.python.rerun import has_shown_it
from minimizer.engine.survey.cases import Settled, message_of, signal_name
from minimizer.engine.survey.dispute import names_clock
from minimizer.engine.user_script.bundle import Bundle, bundle
from minimizer.engine.verify.clean_process_oracle import last_that_fails
from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import Failure, HistoryStep, Mechanism, Reproducibility
from minimizer.vocabulary import Kind, Reason, Stage, Step

LATER_CALL = "a later call of compiled code than the one it was compiled for"


@dataclass(frozen=True)
class MadeScript:
    """A script made from a failing graph (`call_sequence`, `cached_calls`), reduced in place of the user's.

    ``module`` and ``source``: the origin of the graph. ``original``: the user's script, for the diagnosis.
    """

    text: str
    original: Original
    module: str
    source: Source | None
    cured: Callable[[str], str] = compiled_anew
    """Edits the script so that it must pass; if it still fails, its check may only see rounding."""
    what: str = LATER_CALL
    """The part to blame, in words, in addition to the operators."""
    stage: Stage | None = None
    """The stage to blame if known beforehand; runs of the script on other backends would not show it."""
    kind: Kind | None = None
    """The kind of the user's failure, if the script compares another value than the user's did."""
    mechanism: Mechanism | None = None
    """The mechanism of the failure named by ``what``, if known."""
    kept_share: float = 0.0
    """The share of the time left when its reduction begins that stays reserved for other routes."""


class PythonLevel(TextLevel):
    """The search at the script level: reduces the user's script, one ``made`` from a graph, or a ``flat`` one of torch
    calls.

    ``rerun`` judges; by default the warm child.
    """

    def __init__(
        self,
        executor: Executor,
        script: Path,
        args: Sequence[str],
        journal: Journal,
        *,
        jobs: int,
        made: MadeScript | None = None,
        flat: Bundle | None = None,
        rerun: Rerun | None = None,
    ) -> None:
        super().__init__(script, args, journal, rerun or Rerun(executor, script), jobs=jobs)
        self._made, self._flat = made, flat
        self._raised_at: Source | None = None
        """The user's innermost line on the stack of the failure."""
        self._seen: Outcome | None = None
        """The run of the unreduced script that observes its compiled functions."""

    def draft(self, otherwise: Settled, known: Fault = UNKNOWN) -> Draft | None:
        """Reduce the script and write its repro, from what earlier attempts found; None if ``otherwise`` stays the
        verdict.

        It stays if the script does not fail without our hooks. A script whose own check is in dispute gets a repro only
        if that check also fails on eager's kernels (``aot_eager``) and does not measure time: then it is not a matter
        of tolerance.
        """
        announced = known.failure.kind if known.failure is not None else None
        self._rerun.hangs = Kind.HANG in (otherwise.kind, announced)
        with self._journal.step(Step.LOCALIZE):
            try:
                script = Script.parse(self._read())
            except (SyntaxError, UnicodeDecodeError):
                return None
            target, outcome = self._rerun.failure(script.text)
            # A timeout alone is not a hang: the watchdog must have seen the stack stand still.
            is_late = target is not None and target.kind is Kind.HANG and not self._rerun.hangs
            if target is None or is_late or not self._rerun.ends_well(script.text):
                return None
            if not self._is_cured(script.text):
                return None
            disputed = otherwise.reason is Reason.DISPUTED
            if disputed and self._rerun.failure(script.text, backend="aot_eager")[0] is None:
                return None
            again, _ = self._rerun.failure(script.text)
        rate = Reproducibility(failed=1 + (again is not None and target.matches(again)), runs=2)
        fault = self._announced(target, outcome, rate, known)
        reduced, fault = self._reduce(script, target, fault)
        if otherwise.reason in (Reason.DISPUTED, Reason.UNEXPLAINED) and names_clock(reduced.text):
            # No failure remains for them to describe.
            self._journal.record(replace(fault, reduction=None, also_seen=()))
            return None
        patient = self._patient(reduced.text, target, rate)
        with self._journal.clock.undisturbed(WRITE_SECONDS):
            with self._until_verification(target.kind), self._journal.step(Step.BLAME):
                for known in self._blamed(reduced, target, fault):
                    fault = self._journal.record(known)
                self._journal.blame(fault)
            with self._journal.step(Step.EMIT):
                return Draft(self._emit(reduced.text, target, fault), fault, patient=patient).keep(self._journal)

    def _read(self) -> str:
        if self._made is not None:
            return self._made.text
        self._bundle = (self._flat or bundle(self._script, self._args)).rewritten()
        return self._bundle.text

    def _check(self, candidates: Sequence[Script]) -> list[bool | None]:
        verdicts = self._rerun.check(candidates)
        return [fails and self._is_cured(c.text) for fails, c in zip(verdicts, candidates, strict=True)]

    def _is_cured(self, text: str) -> bool:
        """Whether a script made of calls passes after its cure."""
        if self._made is None:
            return True
        signature, outcome = self._rerun.failure(self._made.cured(text), self._rerun.backend)
        return signature is None and outcome.ending is Ending.SAME

    def _patient(self, text: str, target: Signature, rate: Reproducibility) -> Patient:
        """The patient to diagnose; a change cures a flaky failure only after several passes in a row."""
        repeats = passes_needed(rate)
        by_itself = RerunScript(self._rerun, self._script, self._args, repeats)
        original = self._made.original if self._made is not None else by_itself
        return Patient(ScriptTrials(text, target, self._rerun), original, self._script, repeats)

    def failure_of(self, target: Signature, outcome: Outcome, rate: Reproducibility) -> Failure:
        """The failure of a run, for the report, with line numbers of the user's files."""
        self._read()
        return self._failure(target, outcome, rate)

    def _failure(self, target: Signature, outcome: Outcome, rate: Reproducibility) -> Failure:
        error, name = outcome.exception, self._script.name
        made = self._made
        mechanism = made.mechanism if made is not None else None
        return Failure(
            kind=(made.kind if made is not None else None) or target.kind,
            mechanism=mechanism,
            object=made.what if made is not None and mechanism is not None else "",
            exception_type=error.root_type if error else None,
            message=self._bundle.in_users_lines(message_of(error, None), name) if error else _end(target),
            traceback=self._journal.stack(self._bundle.in_users_lines(self._stack(outcome), name)),
            signature=target.text,
            reproducibility=rate,
        )

    def _stack(self, outcome: Outcome) -> str:
        error = outcome.exception
        return error.stack if error else readable(outcome.stacks, str(self._script.parent))

    def _announced(self, target: Signature, outcome: Outcome, rate: Reproducibility, known: Fault) -> Fault:
        error, name = outcome.exception, self._script.name
        failure = self._failure(target, outcome, rate)
        if error is None:
            died = re.search(rf'File "{re.escape(name)}", line (\d{{1,9}}),? in ', self._stack(outcome))
            self._raised_at = Source.of(self._bundle.lines.get(int(died[1]))) if died is not None else None
        elif error.source is not None:
            self._raised_at = Source.of(self._bundle.line(*error.source, name), error.library)
            self._line = self._own_line(error)
        return self._journal.announce(replace(known, failure=failure))

    def _reduce(self, script: Script, target: Signature, fault: Fault) -> tuple[Script, Fault]:
        rerun = self._rerun
        rerun.target = target
        rerun.backend = self._cheapest(script, target)
        self._seen = seen = rerun.observed(script.text)
        lines = len(script.text.splitlines())
        reduced, fault = self._reduced(
            script, self._check, target.kind, fault, lines=lines, operators=seen.calls, draws=seen.draws
        )
        return reduced, replace(fault, also_seen=tuple(also_seen(rerun.also_seen)))

    def _cheapest(self, script: Script, target: Signature) -> str | None:
        """The cheapest backend below its own on which the script fails in the same way.

        None for its own backend, and for a hang.
        """
        if target.kind is Kind.HANG:
            return None
        ways = cheaper_than(backend_of(script.text))
        return next((name for name in ways if self._rerun.fails_on(script.text, name)), None)

    def _smallest(self, script: Script, check: Check, record: OnStep[Script]) -> Reduced[Script]:
        """Reduce the script on the cheapest backend that shows the failure.

        If the result fails only on that backend, or also on a lower rung, reduce again from the last text that does
        neither.
        """
        way = [script]
        clock, share = self._journal.clock, self._made.kept_share if self._made is not None else 0.0
        for_others = share * clock.left

        def kept(step: HistoryStep, best: Script) -> None:
            way.append(best)
            record(step, best)

        def reduced(first: Script, check: Check) -> Reduced[Script]:
            with clock.reserving(lambda: for_others):
                return reduce_script(first, check=check, on_step=kept, jobs=self._jobs, watch=self._journal.watch)

        def again(before: Reduced[Script], check: Check, reached: int) -> Reduced[Script]:
            del way[reached + 1 :]
            after = reduced(way[reached], check)
            return replace(after, trials=before.trials + after.trials, seconds=before.seconds + after.seconds)

        cheap = self._rerun.backend
        found = reduced(script, check)
        with suppressing_end_of_time():
            if cheap is not None:
                self._rerun.backend = None
                if not check([found.best])[0]:
                    self._journal.log("what was reduced on a lower rung does not fail on the script's own backend")
                    found = again(found, check, last_that_fails(way, check) or 0)
            below = rung_below(backend_of(script.text), cheap) if not self._rerun.hangs else None
            if below is not None and self._rerun.fails_on(found.best.text, below):
                self._journal.log(f"what was reduced fails on {below} too: is it another fault than the script's?")
                above = partial(self._check_above, check, below)
                reached = last_that_fails(way, above)
                if reached is not None:  # else the script itself fails there, at times
                    found = again(found, above, reached)
        return found  # if the time is over, clean processes decide

    def _check_above(self, check: Check, below: str, candidates: Sequence[Script]) -> list[bool | None]:
        """Whether each candidate fails like the target, and not on the backend ``below`` as well, where its fault would
        be another one.
        """
        verdicts = check(candidates)
        return [
            fails and not self._rerun.fails_on(one.text, below) for fails, one in zip(verdicts, candidates, strict=True)
        ]

    def _blamed(self, script: Script, target: Signature, fault: Fault) -> Iterator[Fault]:
        """The fault with its culprit and stage, in parts, in case the time does not suffice."""
        text = script.text
        in_part = Culprit(what=together(script.tree, []), source=self._raised_at)
        yield (fault := replace(fault, culprits=(in_part,), ladder=()))
        breaks, raised, ladder = False, None, rungs(backend_of(text))
        for name, _ in ladder:
            signature, outcome = self._rerun.failure(text, backend=None if name == ladder[-1][0] else name)
            breaks = breaks or bool(outcome.graph_breaks)
            word = PASSES if outcome.ending is Ending.SAME else signature.kind if signature else outcome.ending
            fails = True if signature is not None else False if outcome.ending is Ending.SAME else None
            reached = rung(name, word, outcome, {target.kind}, fails=fails)
            yield (fault := replace(fault, ladder=(*fault.ladder, reached)))
            if signature is not None:
                raised = self._own_line(outcome.exception)
                break
        known = self._made.stage if self._made is not None else None
        yield (fault := fault.stating(stage=known or stage_of(ladder, fault.ladder)))
        seen = self._rerun.observed(text)
        if self._made is None:
            unusual = [*seen.unusual, *(["a graph break"] if breaks else [])]
            runs = Observed(self._seen or seen, seen, self._line, raised, self._users_line)
            culprit = culprit_of(script.tree, runs, fault.announced.message, unusual)
            last = self._raised_at or self._source(text.strip().splitlines()[-1])
            module = culprit.module or next((layer.path for layer in fault.layers if layer.verdict == "bad"), "")
            culprit = culprit.model_copy(update={"source": culprit.source or last, "module": module})
        else:
            culprit = Culprit(
                ops=operators_in(seen.ops), what=self._made.what, source=self._made.source, module=self._made.module
            )
        yield replace(fault, culprits=(culprit,), reduction=fault.reduced.counted(seen.calls))

    def _own_line(self, error: ExceptionInfo | None) -> int | None:
        """The line of the script that raises an error, by its number in the text that ran."""
        source = error.source if error is not None else None
        return source[1] if source is not None and source[0] == self._script.name else None

    def _users_line(self, number: int) -> Source | None:
        return Source.of(self._bundle.lines.get(number))

    def _source(self, statement: str) -> Source | None:
        """The user's line equal to a statement of the reduced script; None unless there is exactly one."""
        equal = [line for line in self._bundle.lines.values() if line[2] == statement.strip()]
        return Source.of(equal[0]) if len(equal) == 1 else None

    def _emit(self, text: str, target: Signature, fault: Fault) -> Repro:
        failure, environment = fault.announced, self._journal.report.environment
        crash = target.signal if target.kind is Kind.CRASH else None
        stuck_in = target.where.rpartition(":")[2]
        ways = emit_script(text, failure, fault.culprits, environment=environment, crash=crash, stuck_in=stuck_in)
        *readable, safe = ways
        shown = None
        with self._until_verification(target.kind):
            shown = self._first_that_shows(readable, partial(has_shown_it, words=telltale(failure)))
        return shown or safe


def _end(target: Signature) -> str:
    if target.kind is Kind.HANG:
        return f"torch.compile does not come back from {target.where.rpartition(':')[2] or 'an unknown place'}"
    return f"the process died by {signal_name(target.signal or 0)}"

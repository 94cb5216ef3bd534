"""Exact runs of one script, with the compiler and without: the first call at which they differ, once it is confirmed.

Both run eager's own kernels, so all that a script can see must be equal to the bit. Looks are sparse at first (calls 1,
2, 4, 8 …), and dense only where the runs differ. What differs between two runs without the compiler is noise. A
difference is confirmed if it goes away when one call, or a stretch of calls, runs without the compiler and all others
as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minimizer.engine.between.about_compiler import reads_compiler
from minimizer.engine.between.difference import (
    Comparison,
    Difference,
    Noise,
    agree_at,
    compared,
    first_difference,
    is_gross,
)
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.engine.child.executor import EXACT, Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.survey.cases import is_own_check
from minimizer.report.excused import Excused, excused

ALL = (1, None)
"""(first, last) call to run without the compiler, numbered from 1: here all of them."""
MOST_ROUNDS = 8
"""Most rounds of denser looks around the first difference."""
DENSE = 48
"""Most calls and backwards, roughly, with a full look before and after them in one run."""
BY_LIBRARY = "between graphs, what modules of torch's own compute otherwise where they are compiled: eager was made to choose the same"
UNCONFIRMED = "what differs there did not stand up to further runs"
SEEDS = (1, 2)
"""Seeds of the runs in which every rounding is redrawn."""


@dataclass(frozen=True)
class Found:
    """A confirmed difference.

    ``call``: the call to blame. ``until``: the last call that had to run without the compiler together with it.
    ``eager`` and ``compiled``: the logs that show the difference.
    """

    difference: Difference
    call: int
    until: int
    eager: ExactLog
    compiled: ExactLog
    noise: Noise
    redrawn: tuple[ExactLog, ...] = ()
    """Logs of runs without the compiler and with every rounding redrawn, where rounding might have explained the difference."""
    is_cured_by_reset: bool = False
    is_reused: bool = False
    """Whether the call reused code that was compiled for an earlier one."""
    cured_by: tuple[str, ...] = ()
    library: bool = False
    """Whether torch's own modules, too, were told that they are compiled where they were not."""


@dataclass(frozen=True)
class Answer:
    """The result of exact runs: a confirmed difference, or why they decide nothing; neither if both see the same.

    ``ended``: where and why the comparison ended before the script did; the rest of the script was not compared.
    ``failed_check``: the name of the exception by which a check of the script's own ended the compiled run, and no other.
    """

    found: Found | None = None
    aside: str = ""
    ended: str = ""
    failed_check: str = ""
    not_compared: tuple[str, ...] = ()
    excused: tuple[Excused, ...] = ()
    """Every rule by which something was not looked at, or was seen and excused."""
    runs: int = 0
    looks: int = 0


class ExactRuns:
    """Runs texts under the path of the user's script. ``line_of``: the line at a look, as a reader of that script finds it."""

    def __init__(
        self,
        executor: Executor,
        path: Path,
        *,
        timeout: float,
        line_of: Callable[[Look], str] = lambda look: f"line {look.line}",
    ) -> None:
        self._executor, self._path, self._timeout, self._line_of = executor, path, timeout, line_of
        self._library = False
        """Whether torch's own modules and optimizers, too, are told in eager runs that they are compiled."""
        self.runs = 0

    def compare(self, text: str) -> Answer:
        """Run a script with and without the compiler, and confirm a difference by further runs.

        Where modules of torch's own compute something else because they are compiled, eager is made to choose like them.
        """
        self._library = False
        answer = self._compared(text)
        if answer.found is None or not self._is_by_library(text, answer.found):
            return answer
        self._library = True
        answer = self._compared(text)
        by_library = excused("exact_library"), *answer.excused
        return replace(answer, not_compared=(BY_LIBRARY, *answer.not_compared), excused=by_library)

    def _compared(self, text: str) -> Answer:
        if why := reads_compiler(text):
            by_text = (excused("exact_by_text", why),)
            return Answer(aside=why, not_compared=(f"what lies between graphs: {why}",), excused=by_text)
        eager, compiled = self._ask([{"eager": ALL}, {}], text)
        for outcome in (eager, compiled):
            if outcome.ending is Ending.TIMEOUT:
                why = f"a run of the script took longer than {self._timeout:.0f} s"
                return unanswered(why, runs=self.runs)
            if outcome.ending is not Ending.SAME or outcome.exact is None:
                why = f"a run of the script ended early ({outcome.ending})"
                check = failed_check(outcome) if eager.ending is Ending.SAME else ""
                return replace(unanswered(why, runs=self.runs), failed_check=check)
        assert eager.exact is not None and compiled.exact is not None
        if compiled.exact.calls == 0 or not compiled.attempted:
            return Answer(aside="nothing was compiled", runs=self.runs)
        seen = compared(eager.exact, compiled.exact)
        end = self._examined(text, eager.exact, compiled.exact) if seen.difference is not None else self._ended(seen)
        found, ended = (end, "") if isinstance(end, Found) else (None, end)
        left_out = (f"what lies between graphs from {ended}",) if ended else ()
        return Answer(
            found,
            ended=ended,
            not_compared=(*left_out, *unseen(compiled.exact)),
            excused=(*_ended_by(ended), *unseen_by_rule(compiled.exact)),
            runs=self.runs,
            looks=len(compiled.exact.looks),
        )

    # confirming ------------------------------------------------------------------------------------------------------------

    def _examined(self, text: str, eager: ExactLog, compiled: ExactLog) -> Found | str:
        """The confirmed difference; else where and why the comparison ended early, empty if it did not."""
        noise = Noise()
        plan: dict[str, Any] = {}
        difference: Difference | None = None
        for _ in range(MOST_ROUNDS):
            again = self._log(text, {**plan, "eager": ALL, "moved": True, "delays": compiled.seconds[:1000]})
            if again is None:
                break
            noise.learn(eager, again)
            seen, redrawn = self._seen(text, plan, eager, compiled, noise)
            difference = seen.difference
            if difference is None or (compiled.otherwise and not difference.is_of_state):
                return self._ended(seen)
            units = _between(difference)
            if units is None:
                found = Found(difference, 0, 0, eager, compiled, noise, redrawn, library=self._library)
                confirmed = self._confirmed(text, plan, found)
                if confirmed is not None:
                    return confirmed
                break
            plan = {"full": units}
            logs = [self._log(text, {**plan, "eager": ALL}), self._log(text, plan)]
            if logs[0] is None or logs[1] is None:
                break
            eager, compiled = logs[0], logs[1]
        where = f"{self._place(difference.look)} on" if difference is not None else "the first difference on"
        return f"{where}: {UNCONFIRMED}"

    def _seen(
        self, text: str, plan: dict[str, Any], eager: ExactLog, compiled: ExactLog, noise: Noise
    ) -> tuple[Comparison, tuple[ExactLog, ...]]:
        """Compare two runs; where other roundings may explain what differs, in the light of runs that redraw them, which are given too."""
        seen = compared(eager, compiled, noise)
        if seen.difference is None or not seen.difference.may_be_rounding:
            return seen, ()
        logs = [self._log(text, {**plan, "eager": ALL, "redrawn": seed}) for seed in SEEDS]
        redrawn = tuple(log for log in logs if log is not None)
        if len(redrawn) == len(logs):
            return compared(eager, compiled, noise, redrawn), redrawn
        is_sure = is_gross(seen.difference, eager)
        return (seen if is_sure else Comparison(ended=seen.difference.look)), ()

    def _confirmed(self, text: str, plan: dict[str, Any], found: Found) -> Found | None:
        """Find the call without which a difference goes away, all others compiled as before, if there is one."""
        last = _last_call(found.compiled, found.difference)
        if last == 0 or not self._shows_again(text, plan, found):
            return None

        def is_cured(first: int) -> bool:
            log = self._log(text, {**plan, "eager": (first, last)})
            return log is not None and _is_cure(log, found, first)

        if not is_cured(last):
            good, bad = 1, last
            if last == 1 or not is_cured(1):
                return None
            while bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (middle, bad) if is_cured(middle) else (good, middle)
            first = good
        else:
            first = last
        return replace(
            found,
            call=first,
            until=last,
            is_cured_by_reset=self.cures(text, found, plan, reset=first),
            is_reused=_is_reused(found.compiled, first),
        )

    def _shows_again(self, text: str, plan: dict[str, Any], found: Found) -> bool:
        """Whether two more runs differ in the same way, each with the machine's shared folders to itself."""
        eager, compiled = self._log(text, {**plan, "eager": ALL, "moved": True}), self._log(text, plan)
        if eager is None or compiled is None:
            return False
        again, known = first_difference(eager, compiled, found.noise, found.redrawn), found.difference
        return again is not None and (again.index, again.first.path) == (known.index, known.first.path)

    def _is_by_library(self, text: str, found: Found) -> bool:
        """Whether eager returns what the compiled code does once torch's own modules are told that they are compiled."""
        if not found.difference.is_of_results:
            return False
        units = sorted({look.unit for look in found.compiled.looks if look.full})
        log = self._log(text, {"full": units, "eager": ALL, "library": True})
        return log is not None and agree_at(found.compiled, log, found.difference, ())

    def cures(self, text: str, found: Found, plan: dict[str, Any], **change: Any) -> bool:
        """Whether a compiled run with this change to its request sees what eager sees at the look of the difference."""
        log = self._log(text, {**plan, **change})
        if log is None:
            return False
        return _agrees(log, found)

    def agreeing(self, text: str, noise: Noise) -> ExactLog | None:
        """The log of a script's run with the compiler; None if it sees something else than eager does, or either does not end well."""
        eager, compiled = self._log(text, {"eager": ALL}), self._log(text, {})
        if eager is None or compiled is None:
            return None
        seen, _ = self._seen(text, {}, eager, compiled, noise)
        return compiled if seen.difference is None else None

    # saying --------------------------------------------------------------------------------------------------------------

    def _place(self, look: Look) -> str:
        """A moment of the script, in words."""
        if look.event == "end":
            return "the end of the script"
        return f"{look.named} ({self._line_of(look)})"

    def _ended(self, seen: Comparison) -> str:
        """Where and why a comparison without a difference ended early; empty if it did not."""
        if seen.ended is None:
            return ""
        return f"{self._place(seen.ended)} on: from there the runs cannot be compared look by look"

    # running ---------------------------------------------------------------------------------------------------------------

    def _log(self, text: str, request: dict[str, Any]) -> ExactLog | None:
        (outcome,) = self._ask([request], text)
        return outcome.exact if outcome.ending is Ending.SAME else None

    def _ask(self, requests: Sequence[dict[str, Any]], text: str) -> list[Outcome]:
        self.runs += len(requests)
        common = {"text": text, "script": str(self._path), "args": []}
        eager = {**common, "library": self._library}
        asked = [{**(eager if request.get("eager") == ALL else common), **request} for request in requests]
        return self._executor.judge(asked, timeout=self._timeout, op=EXACT)


def failed_check(outcome: Outcome) -> str:
    """The name of the exception by which a check of the script's own ended a run; empty for other ends."""
    error = outcome.exception
    return error.root_type.rpartition(".")[2] if error is not None and is_own_check(error) else ""


def unanswered(why: str, *, runs: int = 0) -> Answer:
    """The answer of exact runs that did not come to their end."""
    left_out = (f"what lies between graphs: {why}",)
    return Answer(aside=why, not_compared=left_out, excused=(excused("exact_no_answer", why),), runs=runs)


def _ended_by(ended: str) -> tuple[Excused, ...]:
    """The excuse of a comparison that ended before the script did."""
    if not ended:
        return ()
    return (excused("exact_unconfirmed", ended) if ended.endswith(UNCONFIRMED) else excused("exact_parted", ended),)


def unseen_by_rule(log: ExactLog) -> tuple[Excused, ...]:
    """The same as `unseen`, as entries of the registry."""
    found = (
        log.truncated and excused("exact_truncated", log.truncated),
        log.sampled and excused("exact_sampled"),
        log.otherwise and excused("exact_checkpointed", ", ".join(log.otherwise)),
        log.in_threads and excused("exact_threads"),
    )
    return tuple(one for one in found if isinstance(one, Excused))


def unseen(log: ExactLog) -> tuple[str, ...]:
    """The parts of a script's state that the looks left out, as sentences for the report."""
    told = []
    if log.truncated:
        told.append(f"between graphs, the walk over the script's objects stopped at {log.truncated[:200]}")
    if log.sampled:
        told.append("between graphs, large tensors were compared in samples")
    if log.otherwise:
        told.append(
            "between graphs, the values behind checkpointed regions: the backend `eager` draws other random numbers in them"
        )
    if log.in_threads:
        told.append("between graphs, of calls in threads what was given to them that other threads may change")
    if log.stacks:
        told.append(
            f"between graphs, an object over which the observer itself failed ({log.stacks[0].partition(chr(10))[0][:200]})"
        )
    return tuple(told)


def _between(difference: Difference) -> list[int] | None:
    """Units (calls and backwards) to look at more closely; None if none lie between this look and the one before."""
    if difference.look.finest:
        return None
    unit = difference.look.unit
    before = difference.before.unit if difference.look.full and difference.before is not None else 0
    start = max(1, before) if difference.look.full else max(1, unit - DENSE // 2)
    if difference.look.full and unit - before <= 1:
        return None
    return sorted(
        {*range(max(1, unit - DENSE // 2), unit + 1), *range(start, unit + 1, max(1, (unit - start) // (DENSE // 2)))}
    )


def _last_call(log: ExactLog, difference: Difference) -> int:
    """The number of the last call that had returned when the difference was seen; 0 if none had."""
    last = 0
    for index, look in enumerate(log.looks):
        if index > difference.index:
            break
        if look.event == "call exit":
            last = look.number
    return last


def _is_cure(log: ExactLog, found: Found, first: int) -> bool:
    """Whether running calls from ``first`` on without the compiler cures the difference.

    Such a run must see what the compiled one saw before those calls, and what eager sees at the difference.
    """
    for index, (mine, theirs) in enumerate(zip(log.states(), found.compiled.states(), strict=False)):
        if mine[0].moment != theirs[0].moment:
            return False
        if (mine[0].event == "call exit" and mine[0].number >= first) or index >= found.difference.index:
            break
        if any(mine[1].get(p) != theirs[1].get(p) for p in {*mine[1], *theirs[1]} if not found.noise.covers(p)):
            return False
    return _agrees(log, found)


def _agrees(log: ExactLog, found: Found) -> bool:
    """Whether a run sees what eager sees at the difference, on every path that differed."""
    return agree_at(found.eager, log, found.difference, found.redrawn or None)


def _is_reused(log: ExactLog, call: int) -> bool:
    return any(look.event == "call exit" and look.number == call and look.compiled == 0 for look in log.looks)

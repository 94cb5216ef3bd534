"""Exact runs of one script, with the compiler and without: the first call at which they differ, once it is confirmed.

Both run eager's own kernels, so all that a script can see must be equal to the bit. Looks are sparse at first (calls 1,
2, 4, 8 …), and dense only where the runs differ. What differs between two runs without the compiler is noise. A
difference is confirmed if it goes away when one call, or a stretch of calls, runs without the compiler and all others
as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minimizer.engine.between import other_arithmetic
from minimizer.engine.between.difference import (
    ABSENT,
    Comparison,
    Difference,
    agree_at,
    compared,
    evidence,
    first_difference,
    states_at,
)
from minimizer.engine.between.noise import Noise
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.engine.child.executor import EXACT, Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.reduce.python.seeds import states
from minimizer.engine.survey.cases import is_own_check
from minimizer.report.excused import Excused, excused

ALL = (1, None)
"""(first, last) call to run without the compiler, numbered from 1: here all of them."""
MOST_ROUNDS = 8
"""Most rounds of denser looks around the first difference."""
DENSE = 48
"""Most calls and backwards, roughly, with a full look before and after them in one run."""
UNCONFIRMED = "what differs there was not confirmed by further runs"
MOST_SHOWN = 6
"""Most calls of which other arithmetic is shown; what follows on the next is not compared."""
BY_LIBRARY = "between graphs, what modules and optimizers of torch's own compute otherwise where they are compiled: eager was made to choose the same"
OF_OURS = "inside/exact/"
"""What the file of an error of our own contains."""
ARITHMETIC, OF_BACKEND = excused("exact_arithmetic").rule, excused("exact_backend").rule
OF_OBSERVER = {
    "walk": excused("exact_truncated").rule,
    "looks": excused("exact_looks").rule,
    "sampled": excused("exact_sampled").rule,
    "in threads": excused("exact_threads").rule,
    "unreadable": excused("exact_unreadable").rule,
    "machine": excused("exact_machine").rule,
    "observer": excused("exact_observer").rule,
    "recomputed": excused("exact_recomputed").rule,
    "files": excused("exact_output").rule,
    "printed": excused("exact_output").rule,
}
"""The rules of the observer in the child (`inside/exact/unseen.py`), by its own names."""


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
    is_cured_by_reset: bool = False
    is_reused: bool = False
    """Whether the call reused code that was compiled for an earlier one."""
    library: bool = False
    """Whether torch's own modules, too, were told that they are compiled where they were not."""
    is_by_library: bool = False
    """Whether eager sees the same once it chooses and computes like compiled code: then it is no fault."""
    shown: tuple[int, ...] = ()
    """Calls that ran without the compiler since other arithmetic was shown of them."""
    modules: tuple[str, ...] = ()
    """Modules of packages that were looked at like the script's own."""
    state: int = 0
    """The random state from which the runs started."""
    draws: bool = False
    """Whether the script draws random numbers, or sets their state."""


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
        """Whether eager calls choose and compute like compiled ones: see `ExactRequest`."""
        self._replay: str | None = None
        """What the script read of the machine in the first eager run, which later ones read again."""
        self._excused: Counter[tuple[str, str]] = Counter()
        self._modules: tuple[str, ...] = ()
        """Modules of packages that are looked at like the script's own: those that Dynamo traces."""
        self._states = states()
        self._state = 0
        """The random state from which all runs of one comparison start."""
        self._draws = False
        self._reads: str | None = None
        """What the script read of the machine in the first run of a comparison."""
        self.runs = 0

    def compare(self, text: str) -> Answer:
        """Run a script with and without the compiler, and confirm a difference by further runs.

        Where modules of torch's own compute something else because they are compiled, eager is made to choose like them.
        """
        self._library, self._modules, self._state = False, (), next(self._states)
        answer = self._compared(text)
        if answer.found is None or not answer.found.is_by_library:
            return answer
        self._library = True
        answer = self._compared(text)
        by_library = excused("exact_library"), *answer.excused
        return replace(answer, not_compared=(BY_LIBRARY, *answer.not_compared), excused=by_library)

    def _compared(self, text: str) -> Answer:
        self._replay, self._excused = None, Counter()
        plan: dict[str, Any] = {}
        eager, compiled = self._ask([{"eager": ALL}, {}], text)
        broken = _broken(eager, compiled, self._timeout)
        if broken:
            plan = {"full": []}
            eager, compiled = self._ask([{**plan, "eager": ALL}, plan], text)
        self._draws, self._reads = eager.draws, (eager.exact.reads or None) if eager.exact is not None else None
        for outcome in (eager, compiled):
            if outcome.ending is not Ending.SAME or outcome.exact is None:
                if outcome is compiled and eager.exact is not None and not failed_check(compiled):
                    found = self._before_it_ended(text, plan, eager.exact, compiled.exact)
                    if found is not None:
                        return self._answer(found, "", broken, found.compiled)
                why = _broken(eager, compiled, self._timeout) or f"a run of the script ended early ({outcome.ending})"
                check = failed_check(outcome) if eager.ending is Ending.SAME else ""
                return replace(unanswered(why, runs=self.runs), failed_check=check)
        assert eager.exact is not None and compiled.exact is not None
        if compiled.exact.calls == 0 or not compiled.attempted:
            return Answer(aside="nothing was compiled", runs=self.runs)
        seen = compared(eager.exact, compiled.exact)
        if seen == Comparison() and not self._modules and compiled.exact.packages:
            self._modules = tuple(compiled.exact.packages)
            return self._compared(text)
        end = (
            self._examined(text, plan, eager.exact, compiled.exact)
            if seen.difference is not None
            else self._ended(seen)
        )
        found, ended = (end, "") if isinstance(end, Found) else (None, end)
        return self._answer(found, ended, broken, compiled.exact)

    def _answer(self, found: Found | None, ended: str, broken: str, compiled: ExactLog) -> Answer:
        """The answer of runs that were compared. ``broken``: why they had to be made again, without looking at what the script holds."""
        held = f"between graphs, what the script holds ({broken}): only what calls return was compared"
        rest = (f"what lies between graphs from {ended}",) if ended else ()
        by_noise = (excused(rule, path, count) for (rule, path), count in self._excused.items())
        return Answer(
            found,
            ended=ended,
            not_compared=(*rest, *((held,) if broken else ()), *unseen(compiled)),
            excused=(*by_noise, *_ended_by(ended), *_broken_by(broken), *unseen_by_rule(compiled)),
            runs=self.runs,
            looks=len(compiled.looks),
        )

    def _before_it_ended(
        self, text: str, plan: dict[str, Any], eager: ExactLog, compiled: ExactLog | None
    ) -> Found | None:
        """The confirmed difference before an error of the script's own that only the compiled run meets."""
        if compiled is None or compiled.calls == 0 or compared(eager, compiled).difference is None:
            return None
        found = self._examined(text, plan, eager, compiled)
        return found if isinstance(found, Found) else None

    # confirming ------------------------------------------------------------------------------------------------------------

    def _examined(self, text: str, plan: dict[str, Any], eager: ExactLog, compiled: ExactLog) -> Found | str:
        """The confirmed difference; else where and why the comparison ended early, empty if it did not.

        A call whose difference is shown to be no fault runs without the compiler from then on: what follows starts from eager's state.
        """
        self._replay = eager.reads or None
        sparse, logs, place = plan, (eager, compiled), ""
        for shown in range(MOST_SHOWN + 1):
            end = self._narrowed(text, plan, *logs, is_replayed=shown > 0)
            if not isinstance(end, Found):
                return end
            if not self._library and self._is_by_library(text, end):
                return replace(end, is_by_library=True)
            rule = self._why_no_fault(text, end)
            if not rule:
                return end
            place = f"{self._place(end.difference.look)} on"
            for change in end.difference.changes:
                self._excused[rule, change.path] += 1
            calls = {*plan.get("shown", ()), *range(end.call, end.until + 1)}
            plan = {**sparse, "shown": sorted(calls)}
            again = self._log(text, plan)
            if again is None:
                return f"{place}: a further run ended early"
            logs = eager, again
        return f"{place}: too many calls differ where that is no fault"

    def _narrowed(
        self, text: str, plan: dict[str, Any], eager: ExactLog, compiled: ExactLog, *, is_replayed: bool
    ) -> Found | str:
        """The first difference that is evidence, looked at densely and confirmed; else where and why the comparison ended early."""
        noise, once = Noise(), ""
        difference: Difference | None = None
        if self._replay is not None and not is_replayed:
            again = self._log(text, plan)
            compiled = again if again is not None else compiled
            seen = compared(eager, compiled, noise)
            if seen.difference is None:
                return self._ended(seen)
        plan, room = dict(plan), DENSE
        for _ in range(MOST_ROUNDS):
            moved = self._log(text, {**plan, "eager": ALL, **_as_heavy(eager, compiled)})
            if moved is None:
                break
            noise.learn(eager, moved)
            seen = compared(eager, compiled, noise)
            also = [compiled]
            if seen.difference is not None and (writing := self._log(text, {**plan, "written": True})) is not None:
                noise.add_written(writing.written)
                seen = compared(eager, compiled, noise) if writing.written else seen
                also.append(writing)
            difference = seen.difference
            if difference is None:
                return self._ended(seen, once)
            room = min(room, _room(compiled))
            units = _between(difference, room)
            if units is None:
                found = Found(
                    difference, 0, 0, eager, compiled, noise,
                    library=self._library, modules=self._modules, state=self._state, draws=self._draws,
                )  # fmt: skip
                lasting = self._seen_again(text, plan, found, also)
                if lasting is None:
                    seen = compared(eager, compiled, noise)
                    if seen.difference is None:
                        return self._ended(seen, once)  # all of it moves without the compiler as well
                    break
                if not lasting.changes:
                    once = once or self._place(lasting.look)
                if not lasting.changes or lasting.index != difference.index:
                    continue  # what came first does not last
                confirmed = self._confirmed(text, plan, replace(found, difference=lasting))
                if confirmed is not None:
                    self._excused.update(seen.excused)
                    return confirmed
                break
            plan["full"] = units
            logs = [self._log(text, {**plan, "eager": ALL}), self._log(text, plan)]
            if logs[0] is None or logs[1] is None:
                break
            eager, compiled = logs[0], logs[1]
        where = f"{self._place(difference.look)} on" if difference is not None else "the first difference on"
        return f"{where}: {UNCONFIRMED}"

    def _why_no_fault(self, text: str, found: Found) -> str:
        """The rule by which a confirmed difference is no fault between graphs; empty if it is one."""
        if self._is_of_backend(text, found):
            return OF_BACKEND
        return ARITHMETIC if self._is_other_arithmetic(text, found) else ""

    def _is_of_backend(self, text: str, found: Found) -> bool:
        """Whether a call raises an error on the backend ``eager``, and none on the script's own.

        Eager's kernel for an operator of the graph raises it, behind the handler that the script has for it; the script's own backend
        takes that operator, or does not come so far: comparing the graph shows what is wrong there.
        """
        raised = next((c for c in found.difference.changes if c.path == "raised"), None)
        if raised is None or not raised.compiled.get("value"):
            return False
        plan = {"full": _looked_at(found.compiled), "shown": found.shown}
        (outcome,) = self._ask([{**plan, "own_backend": True}], text)
        if outcome.exact is None:
            return outcome.ending is not Ending.TIMEOUT
        look = found.difference.look
        states = (state for at, state in outcome.exact.states() if at.moment == look.moment)
        own = dict(next(states, {})).get("raised", raised.eager)
        return own == raised.eager or "of" in own

    def _is_other_arithmetic(self, text: str, found: Found) -> bool:
        """Whether a difference is what other roundings of the graphs of the blamed calls make of just these elements."""
        difference = found.difference
        if not difference.is_arithmetic or (found.is_reused and not found.shown):
            return False  # code whose earlier calls were equal to the bit computes like eager
        whole = 0 if difference.look.event == "end" else difference.look.unit
        plan = {"full": _looked_at(found.compiled), "whole": whole, "shown": found.shown}
        units = sorted(_units(found) | {difference.look.unit})
        asked = [{**plan, "eager": ALL}, plan]
        asked += [{**plan, "redrawn": {"seed": seed, "units": units}} for seed in other_arithmetic.SEEDS]
        eager, compiled, *redrawn = [o.exact if _is_told(o) else None for o in self._ask(asked, text)]
        logs = [log for log in redrawn if log is not None]
        if eager is None or compiled is None or len(logs) < len(redrawn):
            return False
        return other_arithmetic.is_shown(difference, eager, compiled, logs)

    def _confirmed(self, text: str, plan: dict[str, Any], found: Found) -> Found | None:
        """Find the call without which a difference goes away, all others compiled as before, if there is one."""
        last = _last_call(found.compiled, found.difference)
        if last == 0:
            return None
        found = replace(found, shown=tuple(plan.get("shown", ())))

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

    def _seen_again(
        self, text: str, plan: dict[str, Any], found: Found, earlier: Sequence[ExactLog]
    ) -> Difference | None:
        """What of a difference two more runs show as well, each with the machine's shared folders to itself; None if nothing.

        What moves between the two eager runs is noise from then on, so the difference may be a later one than before. Where nothing else
        differs there, so is what moves between the compiled runs, as an address does that all eager runs share by chance.

        Args:
            text: the script.
            plan: the looks.
            found: the difference, not yet confirmed.
            earlier: the compiled runs so far.
        """
        eager = self._log(text, {**plan, "eager": ALL, **_as_heavy(found.eager, found.compiled)})
        compiled = self._log(text, plan)
        if eager is None or compiled is None:
            return None
        noise = found.noise
        noise.learn(found.eager, eager)
        known = first_difference(found.eager, found.compiled, noise)
        if known is None or first_difference(eager, compiled, noise) is None:
            return None
        if known.is_of_course:
            return known if not agree_at(eager, compiled, known) else None
        runs = [states_at(log, known.index) for log in (*earlier, compiled)]
        again, is_end = runs[-1], known.look.event == "end"
        lasting = {c.path: c for c in evidence(states_at(eager, known.index), again, noise, is_end=is_end)}
        both = tuple(
            c
            for c in known.changes
            if c.path in lasting and c.is_repeated_by(lasting[c.path], [state.get(c.path, ABSENT) for state in runs])
        )
        if not both:
            for one in runs[:-1]:
                noise.learn_at(known.paths, one, again, is_end=is_end)
        return replace(known, changes=both)

    def _is_by_library(self, text: str, found: Found) -> bool:
        """Whether eager returns something else there once torch's own modules are told that they are compiled."""
        if not found.difference.is_of_results:
            return False
        log = self._log(text, {"full": _looked_at(found.compiled), "eager": ALL, "library": True})
        return log is not None and not agree_at(found.eager, log, found.difference)

    def cures(self, text: str, found: Found, plan: dict[str, Any], **change: Any) -> bool:
        """Whether a compiled run with this change to its request sees what eager sees at the look of the difference."""
        log = self._log(text, {**plan, "shown": found.shown, "state": found.state, **change})
        if log is None:
            return False
        return _agrees(log, found)

    def agreeing(self, text: str, noise: Noise) -> ExactLog | None:
        """The log of a script's run with the compiler; None if it sees something else than eager does, or either does not end well."""
        self._state = next(self._states)
        eager = self._log(text, {"eager": ALL, "replay": None})
        compiled = self._log(text, {"replay": eager.reads or None}) if eager is not None else None
        if eager is None or compiled is None:
            return None
        return compiled if first_difference(eager, compiled, noise) is None else None

    def ends(self, text: str, *requests: dict[str, Any]) -> list[ExactLog | None]:
        """Runs of a script that was compared before, with a look at its end alone; None for one that does not come there."""
        common = {"full": [], "library": False, "replay": self._reads}
        outcomes = self._ask([{**common, **request} for request in requests], text)
        return [
            o.exact if o.ending is Ending.SAME and o.exact is not None and o.exact.is_whole else None for o in outcomes
        ]

    # saying --------------------------------------------------------------------------------------------------------------

    def _place(self, look: Look) -> str:
        """A moment of the script, in words."""
        if look.event == "end":
            return "the end of the script"
        return f"{look.named} ({self._line_of(look)})"

    def _ended(self, seen: Comparison, once: str = "") -> str:
        """Where and why a comparison without a difference ended early; empty if it did not.

        Args:
            seen: the comparison.
            once: the place of a difference that did not come again.
        """
        self._excused.update(seen.excused)
        if once:
            return f"{once} on: {UNCONFIRMED}"
        if seen.ended is None:
            return ""
        return f"{self._place(seen.ended)} on: from there the runs cannot be compared look by look"

    # running ---------------------------------------------------------------------------------------------------------------

    def _log(self, text: str, request: dict[str, Any]) -> ExactLog | None:
        (outcome,) = self._ask([request], text)
        return outcome.exact if _is_told(outcome) else None

    def _ask(self, requests: Sequence[dict[str, Any]], text: str) -> list[Outcome]:
        self.runs += len(requests)
        common = {
            "text": text, "script": str(self._path), "args": [], "library": self._library, "replay": self._replay,
            "modules": self._modules, "state": self._state,
        }  # fmt: skip
        return self._executor.judge([{**common, **request} for request in requests], timeout=self._timeout, op=EXACT)


def _is_told(outcome: Outcome) -> bool:
    """Whether a run tells what it saw: it ended well, or by an error of the script's own."""
    return outcome.exact is not None and outcome.ending in (Ending.SAME, Ending.RUNTIME_ERROR)


def _broken(eager: Outcome, compiled: Outcome, timeout: float) -> str:
    """Why a run did not come to its end where our looking may be to blame; empty if it did, or the script ended it."""
    for outcome in (eager, compiled):
        if outcome.ending is Ending.TIMEOUT:
            return f"a run of the script took longer than {timeout:.0f} s"
        error = outcome.exception
        if error is not None and any(OF_OURS in file for file, _, _ in error.frames[-3:]):
            return f"our own code raised {error.type}"
        if outcome.exact is None and error is None:
            return f"a run of the script ended early ({outcome.ending})"
    return ""


def failed_check(outcome: Outcome) -> str:
    """The name of the exception by which a check of the script's own ended a run; empty for other ends."""
    error = outcome.exception
    return error.root_type.rpartition(".")[2] if error is not None and is_own_check(error) else ""


def unanswered(why: str, *, runs: int = 0) -> Answer:
    """The answer of exact runs that did not come to their end."""
    left_out = (f"what lies between graphs: {why}",)
    return Answer(aside=why, not_compared=left_out, excused=_broken_by(why), runs=runs)


def _broken_by(why: str) -> tuple[Excused, ...]:
    """The excuse of a run that did not come to its end."""
    return (excused("exact_no_answer", why),) if why else ()


def _ended_by(ended: str) -> tuple[Excused, ...]:
    """The excuse of a comparison that ended before the script did."""
    if not ended:
        return ()
    return (excused("exact_unconfirmed", ended) if ended.endswith(UNCONFIRMED) else excused("exact_parted", ended),)


def unseen_by_rule(log: ExactLog) -> tuple[Excused, ...]:
    """The same as `unseen`, as entries of the registry."""
    known = (row for row in log.unseen if row.rule in OF_OBSERVER)
    return tuple(excused(OF_OBSERVER[row.rule], row.object, row.count) for row in known)


def unseen(log: ExactLog) -> tuple[str, ...]:
    """The parts of a script's state that the looks left out, as sentences for the report."""
    told = []
    if log.truncated:
        told.append(f"between graphs, the walk over the script's objects stopped at {log.truncated[:200]}")
    if log.sampled:
        told.append("between graphs, large tensors were compared in samples")
    if log.in_threads:
        told.append("between graphs, of calls in threads what was given to them that other threads may change")
    if log.stacks:
        told.append(
            f"between graphs, an object over which the observer itself failed ({log.stacks[0].partition(chr(10))[0][:200]})"
        )
    return tuple(told)


def _room(log: ExactLog) -> int:
    """Calls and backwards, roughly, that can have full looks in one run: fewer than `DENSE` where this one had to leave looks out."""
    is_short = any(row.rule == "looks" for row in log.unseen)
    return max(4, min(DENSE, sum(look.full for look in log.looks) // 2 - 3)) if is_short else DENSE


def _between(difference: Difference, most: int) -> list[int] | None:
    """Units (calls and backwards) to look at more closely, about ``most`` of them; None if none lie between this look and the one before."""
    if difference.look.finest:
        return None
    unit, is_full = difference.look.unit, difference.look.full or difference.is_of_course
    before = difference.before.unit if is_full and difference.before is not None else 0
    start = max(1, before) if is_full else max(1, unit - most // 2)
    if is_full and unit - before <= 1:
        return None
    return sorted(
        {*range(max(1, unit - most // 2), unit + 1), *range(start, unit + 1, max(1, (unit - start) // (most // 2)))}
    )


def _looked_at(log: ExactLog) -> list[int]:
    """The units with full looks."""
    return sorted({look.unit for look in log.looks if look.full})


def _units(found: Found) -> set[int]:
    """The units of the calls that are blamed, by their number among calls and backwards."""
    looks = found.compiled.looks
    return {look.unit for look in looks if look.event == "call exit" and found.call <= look.number <= found.until}


def _as_heavy(eager: ExactLog, compiled: ExactLog) -> dict[str, Any]:
    """The request that moves the machine under an eager run, as slow and as large as the compiled one."""
    more = max(0, compiled.resident - eager.resident)
    return {"moved": True, "delays": compiled.seconds[:1000], "resident": more}


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
        if any(
            mine[1].get(p) != theirs[1].get(p)
            for p in {*mine[1], *theirs[1]}
            if not found.noise.covers(p, mine[1], theirs[1])
        ):
            return False
    return _agrees(log, found)


def _agrees(log: ExactLog, found: Found) -> bool:
    """Whether a run sees what eager sees at the difference, on every path that differed."""
    return agree_at(found.eager, log, found.difference)


def _is_reused(log: ExactLog, call: int) -> bool:
    return any(look.event == "call exit" and look.number == call and look.compiled == 0 for look in log.looks)

"""Confirms the first difference of two exact runs by further runs, and finds the call to blame.

A difference is confirmed if it recurs, and disappears when one call, or a range of calls, runs without the compiler and
all others as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.between.answer import UNCONFIRMED, Found
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
from minimizer.engine.between.no_fault import is_by_library, is_reordered, why_no_fault
from minimizer.engine.between.noise import Noise
from minimizer.engine.between.script_runs import ALL, ScriptRuns
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.inside.questions import Plan

MOST_ROUNDS = 8
"""Most rounds of denser looks around the first difference."""
DENSE = 48
"""Most calls and backwards, roughly, with a full look before and after them in one run."""
MOST_SHOWN = 6
"""Most calls run in eager because their difference is other arithmetic; after the next, nothing is compared."""


@dataclass(frozen=True)
class _Sight:
    """How closely the first difference of two runs is looked at, and what is known of it.

    ``plan``: their looks. ``room``: calls and backwards, roughly, that one run can look at densely. ``once``: the place of
    a difference that did not recur. ``difference``: the first one when it was last looked for.
    """

    plan: Plan
    eager: ExactLog
    compiled: ExactLog
    room: int = DENSE
    once: str = ""
    difference: Difference | None = None


class Confirming:
    """Looks more closely at a difference of runs of one text, and finds the calls that cure it.

    Args:
        runs: the text under its conditions; further runs replay what the first eager run read of the machine.
        draws: whether the script draws random numbers, or sets their state.
        place: describes a moment of the script.
    """

    def __init__(self, runs: ScriptRuns, *, draws: bool, place: Callable[[Look], str]) -> None:
        self._runs, self._draws, self._place = runs, draws, place
        self.excused: Counter[tuple[str, str]] = Counter()
        """How often a rule was applied to a path, by (rule, path)."""

    def examined(self, plan: Plan, eager: ExactLog, compiled: ExactLog) -> Found | str:
        """The confirmed difference; else where and why the comparison ended early, empty if it did not.

        A call whose difference is shown to be no fault runs without the compiler from then on, so that later calls
        start from eager's state.
        """
        sparse, logs, place = plan, (eager, compiled), ""
        for shown in range(MOST_SHOWN + 1):
            end = self._narrowed(plan, *logs, is_replayed=shown > 0)
            if not isinstance(end, Found):
                return end
            if not self._runs.conditions.library and is_by_library(self._runs, end):
                return replace(end, is_by_library=True)
            if not self._runs.conditions.in_order and is_reordered(self._runs, end):
                return replace(end, is_reordered=True)
            rule = why_no_fault(self._runs, end)
            if not rule:
                return end
            place = f"{self._place(end.difference.look)} on"
            for change in end.difference.changes:
                self.excused[rule, change.path] += 1
            calls = {*plan.shown, *range(end.call, end.until + 1)}
            plan = replace(sparse, shown=sorted(calls))
            again = self._runs.log(plan)
            if again is None:
                return f"{place}: a further run ended early"
            logs = eager, again
        return f"{place}: too many calls differ where that is no fault"

    def _narrowed(self, plan: Plan, eager: ExactLog, compiled: ExactLog, *, is_replayed: bool) -> Found | str:
        """The first evident difference, looked at densely and confirmed; else where and why the comparison ended early."""
        noise, sight = Noise(rounds=self._runs.conditions.aot), _Sight(plan, eager, compiled)
        if self._runs.conditions.replay is not None and not is_replayed:
            again = self._runs.log(plan)
            sight = replace(sight, compiled=again) if again is not None else sight
            seen = compared(sight.eager, sight.compiled, noise)
            if seen.difference is None:
                return self.ended(seen)
        for _ in range(MOST_ROUNDS):
            end = self._closer(sight, noise)
            if not isinstance(end, _Sight):
                return end
            sight = end
        return self._unconfirmed(sight.difference)

    def _closer(self, sight: _Sight, noise: Noise) -> Found | str | _Sight:
        """One round: the confirmed difference, the end of the comparison, or a closer look.

        What moves between eager runs, and what the compiler writes, becomes noise first.
        """
        moved = self._runs.log(_as_heavy(sight.plan, sight.eager, sight.compiled))
        if moved is None:
            return self._unconfirmed(sight.difference)
        noise.learn(sight.eager, moved)
        seen, runs = compared(sight.eager, sight.compiled, noise), [sight.compiled]
        if seen.difference is not None:
            writing = self._runs.log(replace(sight.plan, written=True))
            if writing is None:
                return self._unconfirmed(seen.difference)
            noise.add_written(writing.written)
            seen = compared(sight.eager, sight.compiled, noise) if writing.written else seen
            runs.append(writing)
        if seen.difference is None:
            return self.ended(seen, sight.once)
        sight = replace(sight, difference=seen.difference, room=min(sight.room, _room(sight.compiled)))
        units = _between(seen.difference, sight.room)
        if units is not None:
            return self._denser(sight, units)
        found = Found(
            seen.difference, 0, 0, sight.eager, sight.compiled, noise,
            conditions=self._runs.conditions, draws=self._draws,
        )  # fmt: skip
        return self._lasting(sight, found, seen, runs)

    def _denser(self, sight: _Sight, units: list[int]) -> str | _Sight:
        """Both runs again, with full looks at these calls and backwards."""
        plan = replace(sight.plan, full=units)
        eager, compiled = self._runs.log(replace(plan, eager=ALL)), self._runs.log(plan)
        if eager is None or compiled is None:
            return self._unconfirmed(sight.difference)
        return replace(sight, plan=plan, eager=eager, compiled=compiled)

    def _lasting(self, sight: _Sight, found: Found, seen: Comparison, runs: Sequence[ExactLog]) -> Found | str | _Sight:
        """The difference, if further runs show it and a call cures it; the same sight if something else shows first now.

        Args:
            sight: the looks, which cannot be denser.
            found: the difference, not yet confirmed.
            seen: the comparison that shows it.
            runs: the compiled runs so far.
        """
        lasting = self._seen_again(sight.plan, found, runs)
        if lasting is None:
            known = compared(sight.eager, sight.compiled, found.noise)
            # without a difference all of it also moves without the compiler
            return self.ended(known, sight.once) if known.difference is None else self._unconfirmed(found.difference)
        if not lasting.changes:
            return replace(sight, once=sight.once or self._place(lasting.look))
        if lasting.index != found.difference.index:
            return sight  # the first change does not last
        confirmed = self._confirmed(sight.plan, replace(found, difference=lasting))
        if confirmed is None:
            return self._unconfirmed(found.difference)
        self.excused.update(seen.excused)
        return confirmed

    def _unconfirmed(self, difference: Difference | None) -> str:
        where = f"{self._place(difference.look)} on" if difference is not None else "the first difference on"
        return f"{where}: {UNCONFIRMED}"

    def _confirmed(self, plan: Plan, found: Found) -> Found | None:
        """Find the call that cures a difference when it runs without the compiler, all others compiled as before."""
        last = _last_call(found.compiled, found.difference)
        if last == 0:
            return None
        found = replace(found, shown=tuple(plan.shown))

        def is_cured(first: int) -> bool:
            log = self._runs.log(replace(plan, eager=(first, last)))
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
            is_cured_by_reset=sees_eager(self._runs, found, replace(plan, reset=first)),
            is_reused=_is_reused(found.compiled, first),
        )

    def _seen_again(self, plan: Plan, found: Found, earlier: Sequence[ExactLog]) -> Difference | None:
        """The part of a difference that two more runs also show, each with the machine's shared folders to itself; None
        if nothing.

        What moves between the two eager runs becomes noise, so the difference may now be a later one. If nothing else
        differs there, what moves between the compiled runs becomes noise too, such as an address that all eager runs
        share by chance.

        Args:
            plan: the looks.
            found: the difference, not yet confirmed.
            earlier: the compiled runs so far.
        """
        eager = self._runs.log(_as_heavy(plan, found.eager, found.compiled))
        compiled = self._runs.log(plan)
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

    def ended(self, seen: Comparison, once: str = "") -> str:
        """Where and why a comparison without a difference ended early; empty if it did not.

        Args:
            seen: the comparison.
            once: the place of a difference that did not recur.
        """
        self.excused.update(seen.excused)
        if once:
            return f"{once} on: {UNCONFIRMED}"
        if seen.ended is None:
            return ""
        return f"{self._place(seen.ended)} on: from there the runs cannot be compared look by look"


def _room(log: ExactLog) -> int:
    """Calls and backwards, roughly, that can have full looks in one run; fewer than `DENSE` if this run had to drop
    looks.
    """
    is_short = any(row.rule == "looks" for row in log.unseen)
    return max(4, min(DENSE, sum(look.full for look in log.looks) // 2 - 3)) if is_short else DENSE


def _between(difference: Difference, most: int) -> list[int] | None:
    """Units (calls and backwards) to look at more closely, about ``most`` of them.

    None if no unit lies between this look and the previous one.
    """
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


def _as_heavy(plan: Plan, eager: ExactLog, compiled: ExactLog) -> Plan:
    """An eager run in a changed environment, as slow and as large as the compiled one."""
    more = max(0, compiled.resident - eager.resident)
    return replace(plan, eager=ALL, moved=True, delays=compiled.seconds, resident=more)


def _last_call(log: ExactLog, difference: Difference) -> int:
    """The number of the last call that had returned at the difference; 0 if none had."""
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
    return agree_at(found.eager, log, found.difference)


def _is_reused(log: ExactLog, call: int) -> bool:
    return any(look.event == "call exit" and look.number == call and look.compiled == 0 for look in log.looks)


def sees_eager(runs: ScriptRuns, found: Found, plan: Plan) -> bool:
    """Whether a compiled run by a plan sees what eager sees at the look of the difference, on every path that differed."""
    log = runs.log(replace(plan, shown=found.shown))
    return log is not None and agree_at(found.eager, log, found.difference)

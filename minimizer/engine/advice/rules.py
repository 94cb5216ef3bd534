"""Findings from Dynamo's metrics of a run: which graph breaks and recompiles deserve advice, with their cost and the
user's line.

A healthy program has none. One recompile makes a size dynamic and another one follows for size 1, a switch to
evaluation takes one, and the script's owner cannot mend a break that the script requests, or that torch's own
optimizers and profilers make.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from minimizer.engine.advice import compile_time, memory, settings
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.engine.child.protocol import Health, Timed
from minimizer.report.culprit import Source
from minimizer.report.finding import Cost, Finding, by_cost
from minimizer.vocabulary import counted

REPEATED = 3
"""Number of values failing one guard of a function that make a finding.

Automatic dynamic shapes take one, and a size of 1 another. A switch has two values, however often it is toggled.
"""
LEAST_TURNS, SLOWER, SLOWER_SECONDS = 5, 1.2, 2e-4
"""Least pairs of calls to call a graph slower than eager, the factor, and the seconds.

The overhead of calling a tiny graph is tenths of a millisecond, whatever its content.
"""
MOST_VALUES = 4
"""Most named values of a guard."""
MOST_FINDINGS = 50
ASKED_FOR = re.compile(
    r"Call to `torch\._dynamo\.(?:graph_break|skip_frame)\(\)`|Skip (?:calling|inlining) `torch\.compiler\.disable\("
)
"""Matches the beginning of the reason of a requested break."""
OF_TORCH = re.compile(
    r"torch[/.](?:optim|profiler|autograd[/.]profiler)\b|lr_scheduler\.py|record_function", re.IGNORECASE
)
"""Matches the reason of a break at torch's own wrapper around an optimizer's step or a profiled range."""
REASONS = (
    (r"generic_jump|data-dependent branching", "a branch depends on the value of a tensor"),
    (r"data-dependent assertion", "an assertion depends on the value of a tensor"),
    (r"Tensor\.item\(\)|capture_scalar_outputs", "`.item()` takes a number out of a tensor"),
    (r"tolist|to_list", "`.tolist()` takes numbers out of a tensor"),
    (r"builtin (?:operator )?`?print`?", "`print` is called"),
    (r"logging\.Logger|logging function", "a logger is called"),
    (r"warnings\.warn", "a warning is given"),
    (r"\bnumpy\b|\bnp\.", "NumPy is called"),
    (r"capture_dynamic_output_shape_ops|dynamic shape operator", "the shape of a result depends on the values of a tensor"),
)  # fmt: skip
"""Patterns in Dynamo's reason of a break, and our words."""
GUARD = re.compile(r"\d+/\d+: (?P<what>.*?)(?:\s+#.*)?$", re.DOTALL)
EXPLANATION = re.compile(r"^\s*Explanation: (.+)$", re.MULTILINE)
"""Matches the line of Dynamo's message that explains a reason."""
UNKNOWN = "Dynamo says"
"""The beginning of a reason for which we have no words."""
MOST_SAID = 300
"""Most characters of Dynamo's message in a sentence."""
MISMATCH = re.compile(r"(?P<what>.*mismatch.*?)[.,]? expected (?P<expected>\S+?), actual (?P<actual>\S+)")
TENSOR = re.compile(r"tensor '(?P<name>.+)' (?P<what>[\w ]+) mismatch(?: at index (?P<index>\d+))?")


@dataclass(frozen=True)
class Cause:
    """A finding without remedies, and the data to make them. ``said``: Dynamo's message. ``place``: the user's line."""

    finding: Finding
    said: str = ""
    place: StackLine | None = None
    is_refused: bool = False
    """Whether the recompile limit was reached."""
    function_line: int = 0
    """The line of the ``def`` of the recompiled function, in the script; 0 if it is elsewhere."""
    blocks: tuple[str, ...] = ()
    """Paths of the lists of equal blocks, from the compiled module."""
    why: str = ""
    """The reason of a graph break or of recompiles, as a clause."""
    guard: str = ""
    """The repeatedly failing guard, without the values that it expects."""
    graph: int | None = None
    """The index of the graph that a figure belongs to; None for other findings."""


def causes(
    health: Health, script: str, name: str, crowding: float = 1.0, put_back: settings.PutBack = settings.UNKNOWN
) -> list[Cause]:
    """All findings, the costliest first, from a timed run of the script ``name`` with this text.

    ``crowding``: the possible slowdown of its compilations by the machine's load. ``put_back``: what is known of a
    failure with settings reset to their defaults.
    """
    changed = settings.finding(health.changed, script, name, put_back)
    found = [
        *_recompiles(health.recompiled, name),
        *_breaks(health),
        *_long_compilations(health, crowding),
        *_slow(health.timed),
        *_kept(health),
        *([Cause(changed)] if changed is not None else []),
    ]
    order = by_cost([cause.finding for cause in found])
    return sorted(found, key=lambda cause: order.index(cause.finding))[:MOST_FINDINGS]


def breaks_per_call(health: Health) -> float:
    """Advisable graph breaks per outermost call of compiled code."""
    return sum(_per_call(one, health.calls) for one in health.broken if _is_advisable(one))


def recompiles(health: Health) -> int:
    """Recompiles, and those that the limit refused."""
    return len(health.recompiled)


def compiling(health: Health) -> float:
    """Seconds of all compilations, with those of backwards."""
    return round(sum(one.seconds for one in health.compilations), 1)


def refused(health: Health) -> int:
    """Functions that reached the recompile limit."""
    return sum(one.refused for one in health.recompiled)


# graph breaks ---------------------------------------------------------------------------------------------------------


def _breaks(health: Health) -> Iterator[Cause]:
    for one in health.broken:
        if _is_advisable(one):
            place = one.stack[-1]
            split = f"`{one.function}`" if one.function else "the compiled function"
            does = "keeps {} in eager as a whole" if one.is_whole and not one.passes else "splits {}"
            per_call = _per_call(one, health.calls)
            finding = Finding(
                kind="graph_breaks",
                what=f"A graph break {does.format(split)}, since {_why(one.reason)}.",
                source=_source(place),
                stack=_stack(one.stack),
                cost=Cost(what="at this line", value=per_call, unit="graph breaks per call"),
            )
            yield Cause(finding, one.reason, place, why=_why(one.reason))


def _is_advisable(one: Break) -> bool:
    """Whether the owner of the script can do something about a break."""
    return bool(one.stack) and not ASKED_FOR.match(one.reason) and not _is_of_torch(one)


def _is_of_torch(one: Break) -> bool:
    return "marked as skipped" in one.reason and bool(OF_TORCH.search(one.reason))


def _per_call(one: Break, calls: int) -> float:
    """How often a place is executed per outermost call; 1 if unknown."""
    return round(one.passes / calls, 2) if calls and one.passes else 1.0


def _why(reason: str) -> str:
    known = next((words for pattern, words in REASONS if re.search(pattern, reason, re.IGNORECASE)), "")
    explanation = EXPLANATION.search(reason)
    said = explanation[1] if explanation else (reason.splitlines() or ["nothing"])[0]
    return known or f"{UNKNOWN}: {said.strip().rstrip('.')[:MOST_SAID]}"


# recompiles -----------------------------------------------------------------------------------------------------------


def _recompiles(found: Sequence[Recompile], name: str) -> Iterator[Cause]:
    """A cause for each function and guard; continuations after graph breaks count with their function."""
    causes: dict[tuple[str, int, str], list[Recompile]] = {}
    for _, group in groupby(sorted(found, key=lambda one: one.frame), key=lambda one: one.frame):
        of_frame = list(group)
        known = Counter(guard_of(one.guard) for one in of_frame if not one.refused)
        (guard, _), *_ = known.most_common(1) or [(guard_of(of_frame[0].guard), 0)]
        values = {_whole(one.guard) for one in of_frame if guard_of(one.guard) == guard}
        if len(values) >= REPEATED or any(one.refused for one in of_frame):
            chosen = [one for one in of_frame if guard_of(one.guard) == guard or one.refused]
            causes.setdefault((chosen[0].file, chosen[0].line, guard), []).extend(chosen)
    for (_, _, guard), chosen in causes.items():
        yield _recompiled(chosen, guard, name, is_refused=any(one.refused for one in chosen))


def _recompiled(found: Sequence[Recompile], guard: str, name: str, *, is_refused: bool) -> Cause:
    made = next((one for one in found if one.made_by), None)
    stack = made.made_by if made is not None else found[0].stack
    again = [one for one in found if not one.refused]
    limit = (
        " The recompile limit was reached: calls that no compiled version fits have run in eager since."
        if is_refused
        else ""
    )
    finding = Finding(
        kind="recompiles",
        what=f"{f'`{found[0].function}`' if found[0].function else 'The compiled module'} was compiled again {counted(len(again), 'time')}, since {_changes(guard, found)}.{limit}",
        source=_source(stack[-1]) if stack else None,
        stack=_stack(found[0].stack),
        cost=Cost(what="compiling again", value=round(sum(one.seconds for one in again), 2), unit="s"),
    )
    said, place = "\n".join(one.guard for one in found), stack[-1] if stack else None
    line = found[0].line if found[0].file == name else 0
    return Cause(finding, said, place, is_refused, line, why=_changes(guard, found), guard=guard)


def _whole(said: str) -> str:
    """The guard in Dynamo's message with the value that it expects, without the number of its compiled code."""
    first = (said.splitlines() or [""])[0]
    found = GUARD.match(first)
    return found["what"] if found else first


def guard_of(said: str) -> str:
    """The guard in Dynamo's message for a recompile, without the expected value: equal if the same thing changes again."""
    what = _whole(said)
    if mismatch := MISMATCH.match(what):
        return mismatch["what"]
    return what.partition(" == ")[0].strip() if " == " in what else re.sub(r"\d+", "#", what).strip()


def _changes(guard: str, found: Sequence[Recompile]) -> str:
    """What changes, with its first values, as a clause."""
    values = list(dict.fromkeys(filter(None, map(_value, found))))
    shown = ", ".join(values[:MOST_VALUES]) + (" and so on" if len(values) > MOST_VALUES else "")
    where = f" ({shown})" if shown else ""
    if tensor := TENSOR.search(guard):
        dimension = f" in dimension {tensor['index']}" if tensor["index"] else ""
        return f"the {tensor['what']} of `{tensor['name']}` changes{dimension}{where}"
    return f"`{guard}` changes{where}" if guard else "its guards failed"


def _value(one: Recompile) -> str:
    mismatch = MISMATCH.search(_whole(one.guard))
    return mismatch["expected"] if mismatch else _whole(one.guard).partition(" == ")[2].strip()[:60]


# compile time ---------------------------------------------------------------------------------------------------------


def _long_compilations(health: Health, crowding: float) -> Iterator[Cause]:
    for one, blocks in compile_time.slow_compilations(health, crowding):
        finding = Finding(
            kind="compile_time",
            what=compile_time.sentence(one, blocks, health.seconds),
            source=_source(one.place),
            cost=Cost(what="compiling", value=round(one.seconds, 1), unit="s"),
        )
        yield Cause(finding, place=one.place, blocks=tuple(each.path for each in blocks), graph=one.graph)


# times ----------------------------------------------------------------------------------------------------------------


def _slow(timed: Sequence[Timed]) -> Iterator[Cause]:
    """Graphs whose compiled calls are slower than eager's, by more than the calls of either differ among themselves."""
    for one in timed:
        more = one.compiled - one.eager
        is_clear = one.compiled_fast > one.eager_slow and one.compiled > SLOWER * one.eager and more > SLOWER_SECONDS
        if one.turns >= LEAST_TURNS and is_clear:
            finding = Finding(
                kind="slow",
                what=f"Compiled, the graph that is called here takes {one.compiled * 1e3:.3g} ms a call, and {one.eager * 1e3:.3g} ms in eager.",
                source=_source(one.place),
                cost=Cost(what="more than eager", value=round(more * 1e3, 3), unit="ms per call"),
            )
            yield Cause(finding, place=one.place, graph=one.graph)


# memory ---------------------------------------------------------------------------------------------------------------


def _kept(health: Health) -> Iterator[Cause]:
    for one in memory.larger(health):
        more = round((one.compiled - one.eager) / memory.MEGA)
        finding = Finding(
            kind="memory",
            what=memory.sentence(one),
            source=_source(one.place),
            cost=Cost(what="kept for the backward beyond eager's", value=more, unit="MB"),
        )
        yield Cause(finding, place=one.place, graph=one.graph)


def _source(place: StackLine) -> Source:
    return Source(file=place.file, line=place.line, code=place.code)


def _stack(stack: Sequence[StackLine]) -> list[str]:
    return [f"{one.file} line {one.line}, in {one.function}: {one.code}" for one in stack]

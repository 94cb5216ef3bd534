"""Findings from Dynamo's metrics of a run: which graph breaks and recompiles deserve advice, with their cost and the
user's line.

A healthy program has none. One recompile makes a size dynamic and another one follows for size 1, a switch to
evaluation takes one, and the script's owner cannot mend a break that the script requests, or that torch's own
optimizers and profilers make.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from minimizer.engine.advice import compile_time, memory, settings
from minimizer.engine.advice.changes import advice, reasons
from minimizer.engine.advice.guards import Changing, changed
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.engine.child.protocol import Health, Timed
from minimizer.inside.questions import LEAST_TURNS
from minimizer.report.culprit import Source
from minimizer.report.finding import Cost, Finding, by_cost
from minimizer.vocabulary import counted

SLOWER, SLOWER_SECONDS = 1.2, 2e-4
"""The factor and the seconds by which a graph is called slower than eager.

The overhead of calling a tiny graph is tenths of a millisecond, whatever its content.
"""
CROWDED = "other processes used the cores during most measurements"
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
    (r"_local_scalar_dense", "a number is taken out of a tensor"),
    (r"tolist|to_list", "`.tolist()` takes numbers out of a tensor"),
    (r"builtin (?:operator )?`?print`?", "`print` is called"),
    (r"logging\.Logger", "a logger is called"),
    (r"`_?warnings\.warn\.?`", "a warning is given"),
    (r"capture_dynamic_output_shape_ops|dynamic shape operator", "the shape of a result depends on the values of a tensor"),
    (r"trace_autograd_ops", "gradients are taken within the compiled code"),
    (r"Unsupported context manager\n.*?know how to enter an? `([^`\n]+)` context", r"`with` enters a `\1`, which Dynamo cannot"),
    (r"know how to trace (?:the )?(?:Python )?builtin (?:operator )?`([\w.]+?)\.?`", r"`\1` is called, which Dynamo cannot trace"),
    (r"marked that the function `([^`\n]+)` in file", r"`\1` is called, which Dynamo does not trace"),
    (r"Observed exception\n[\s\S]*raised exception (.+)", r"tracing it raises `\1`"),
    (r"op returned non-Tensor\n[\s\S]*target: <(?:built-in )?(?:function|method) (\w+)", r"`\1` is called, whose result is no tensor"),
    (r"\bnumpy\b|\bnp\.", "NumPy is called"),
)  # fmt: skip
"""Patterns in Dynamo's reason of a break, and our words, with what the pattern captures."""
HINTS = re.compile(r"^\s*Hint: .*$", re.MULTILINE)
"""Matches the hints of Dynamo's message: they name functions and settings that the break may have nothing to do with."""
OUTSIDE = re.compile(r"is called, (?:which Dynamo|whose result)|`with` enters")
"""Matches our words for reasons that end where the call is moved out of what is compiled."""
EXPLANATION = re.compile(r"^\s*Explanation: (.+)$", re.MULTILINE)
"""Matches the line of Dynamo's message that explains a reason."""
MOVED = " Not tried: moving it out of the compiled function, before or after its call."
UNKNOWN = "Dynamo says"
"""The beginning of a reason for which we have no words."""
MOST_SAID = 300
"""Most characters of Dynamo's message in a sentence."""


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
    called: tuple[str, ...] = ()
    """Paths of modules that are called repeatedly, from the compiled module."""
    why: str = ""
    """The reason of a graph break or of recompiles, as a clause."""
    changing: Changing | None = None
    """The subject of the guards that fail most often."""
    graph: int | None = None
    """The index of the graph that a figure belongs to; None for other findings."""
    is_whole: bool = False
    """Whether a graph break leaves the compiled function to eager as a whole."""


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


def left_to_eager(health: Health) -> int:
    """Functions that a graph break leaves to eager as a whole."""
    return sum(one.is_whole and not one.passes for one in health.broken)


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
            is_whole = one.is_whole and not one.passes
            does = "keeps {} in eager as a whole" if is_whole else "splits {}"
            per_call = _per_call(one, health.calls)
            finding = Finding(
                kind="graph_breaks",
                what=f"A graph break {does.format(split)}, since {_why(one.reason)}.{MOVED if OUTSIDE.search(_why(one.reason)) else ''}",
                source=_source(place),
                stack=_stack(one.stack),
                cost=Cost(what="at this line", value=per_call, unit="graph breaks per call"),
            )
            yield Cause(finding, one.reason, place, is_whole=is_whole, why=_why(one.reason))


def _is_advisable(one: Break) -> bool:
    """Whether the owner of the script can do something about a break."""
    return bool(one.stack) and not ASKED_FOR.match(one.reason) and not _is_of_torch(one)


def _is_of_torch(one: Break) -> bool:
    return "marked as skipped" in one.reason and bool(OF_TORCH.search(one.reason))


def _per_call(one: Break, calls: int) -> float:
    """How often a place is executed per outermost call; 1 if unknown."""
    return round(one.passes / calls, 2) if calls and one.passes else 1.0


def _why(reason: str) -> str:
    told = HINTS.sub("", reason)
    matches = ((re.search(pattern, told, re.IGNORECASE), words) for pattern, words in REASONS)
    known = next((found.expand(words) for found, words in matches if found is not None), "")
    explanation = EXPLANATION.search(reason)
    said = explanation[1] if explanation else (reason.splitlines() or ["nothing"])[0]
    return known or f"{UNKNOWN}: {said.strip().rstrip('.')[:MOST_SAID]}"


# recompiles -----------------------------------------------------------------------------------------------------------


def _recompiles(found: Sequence[Recompile], name: str) -> Iterator[Cause]:
    """A cause for each function and what changes most; continuations after graph breaks count with their function."""
    causes: dict[tuple[str, int, str], list[Recompile]] = {}
    for _, group in groupby(sorted(found, key=lambda one: one.frame), key=lambda one: one.frame):
        of_frame = list(group)
        refused = [one for one in of_frame if one.refused]
        if changing := changed([one for one in of_frame if not one.refused] or refused, is_refused=bool(refused)):
            chosen = [one for one in of_frame if one.refused or any(one in each.found for each in changing)]
            causes.setdefault((chosen[0].file, chosen[0].line, changing[0].subject), []).extend(chosen)
    for chosen in causes.values():
        yield _recompiled(chosen, name)


def _recompiled(found: Sequence[Recompile], name: str) -> Cause:
    again = [one for one in found if not one.refused]
    is_refused = len(again) < len(found)
    changing = changed(again or found, is_refused=True)
    made = next((one for each in changing for one in each.found if one.made_by), None)
    stack = made.made_by if made is not None else found[0].stack
    limit = (
        " The recompile limit was reached: calls that no compiled version fits have run in eager since."
        if is_refused
        else ""
    )
    function = f"`{found[0].function}`" if found[0].function else "The compiled module"
    finding = Finding(
        kind="recompiles",
        what=f"{function} was compiled again {counted(len(again), 'time')}, since {reasons(changing, values=True)}.{limit}{advice(changing)}",
        source=_source(stack[-1]) if stack else None,
        stack=_stack(found[0].stack),
        cost=Cost(what="compiling again", value=round(sum(one.seconds for one in again), 2), unit="s"),
    )
    said, place = "\n".join(one.guard for one in found), stack[-1] if stack else None
    line = found[0].line if found[0].file == name else 0
    return Cause(
        finding, said, place, is_refused, function_line=line, why=reasons(changing, values=False), changing=changing[0]
    )


# compile time ---------------------------------------------------------------------------------------------------------


def _long_compilations(health: Health, crowding: float) -> Iterator[Cause]:
    for one, blocks in compile_time.slow_compilations(health, crowding):
        finding = Finding(
            kind="compile_time",
            what=compile_time.sentence(one, blocks, health.seconds),
            source=_source(one.place),
            cost=Cost(what="compiling", value=round(one.seconds, 1), unit="s"),
        )
        paths = tuple(each.path for each in blocks if not each.is_one)
        called = tuple(each.path for each in blocks if each.is_one)
        yield Cause(finding, place=one.place, blocks=paths, called=called, graph=one.graph)


# times ----------------------------------------------------------------------------------------------------------------


def untimed(health: Health) -> str:
    """Why it is not known which side of the graphs is slower, as the end of a sentence; empty where it is."""
    is_told = not health.timed or any(one.turns >= LEAST_TURNS for one in health.timed)
    return health.untimed or ("" if is_told else CROWDED)


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
    return [f"{one.file} line {one.line}{f', in {one.function}' if one.function else ''}: {one.code}" for one in stack]

"""Searches for the fewest events of a script's program that produce the value at which eager and compiled part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from minimizer.engine.child.outcome import Ending
from minimizer.engine.child.traced import Parting
from minimizer.engine.oracle.signature import ABSENT, NONFINITE, Signature
from minimizer.engine.outer.flat import Slice, Writable, slices
from minimizer.engine.outer.paired import Paired, backwards_alone, calls_alone, can_be_paired, control
from minimizer.engine.outer.program import BACKWARD, OuterProgram
from minimizer.engine.outer.search import CHEAP
from minimizer.engine.reduce.graph import Reduced
from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.reduce.python import Source as Script
from minimizer.engine.reduce.python.rerun import ASSERT_CLOSE
from minimizer.report.model import AlsoSeen, HistoryStep
from minimizer.vocabulary import Kind

TOLERANCES = ("rtol=0.01, atol=0.01", "")
"""Tolerances of the comparison, the widest first: a difference beyond it is least like rounding, even when more events
propagate it.
"""


@dataclass(frozen=True)
class Parted:
    """A script in which the two sides part as in the user's.

    ``events``: its size. ``trials``, ``seconds``: the cost of the search, with the steps of ``history``. ``cured``:
    edits the script, and scripts derived from it, so that they must pass. ``also_seen``: other wrong events of the
    program.
    """

    script: str
    events: int
    trials: int
    seconds: float
    history: Sequence[HistoryStep]
    cured: Callable[[str], str] = control
    also_seen: Sequence[AlsoSeen] = ()


def smallest_parting(
    program: OuterProgram, parting: Parting, rerun: Rerun, *, jobs: int, watch: Callable[[], None]
) -> Parted | None:
    """The smallest script of events that parts like the program, by the same type of difference; None without one of
    short inputs.

    Sets the ``target`` of ``rerun``, and its backend to the cheapest on which the script parts.
    """
    source = Writable.of(program)
    if not {parting.event, *_returned_by(program, parting)} <= source.can_be_written or not parting.value:
        return None
    start = Slice(source, parting.event, frozenset())
    tried, begun = 0, time.monotonic()
    for tolerance in TOLERANCES if can_be_paired(start) and not parting.is_of_reading else ():
        guess, last = (
            calls_alone(source, parting.event, parting.value, tolerance, last=last)
            or backwards_alone(source, parting.event, tolerance, last=last)
            for last in (False, True)
        )
        if guess is not None and last is not None:
            tried += 1
            if _begins(guess, parting, rerun) and not _parts(last, rerun):
                seconds = time.monotonic() - begun
                return Parted(guess, guess.count("\n"), tried + 1, seconds, (), _cure_of(guess, rerun))
    for first in candidates(source, parting):
        watch()
        tried += 1
        if _begins(first.text, parting, rerun):
            break
    else:
        return None
    cheap = rerun.fails_on(first.text, CHEAP) and _is_cured(first.text, rerun)
    rerun.backend = CHEAP if cheap else None

    def check(candidates: Sequence[Paired]) -> list[bool | None]:
        return [_parts(one.text, rerun) for one in candidates]

    problem = Problem(
        first, check=check, key=lambda one: (one.size,), on_step=lambda step, best: None, jobs=jobs, watch=watch
    )
    best = Reduced.by(lambda: _without_anchors(problem), problem).best
    of_ones = replace(best, drawn=False, exact=False)
    trials = tried + problem.trials + best.drawn
    best = of_ones if best.drawn and _parts(of_ones.text, rerun) else best
    seconds = time.monotonic() - begun
    return Parted(best.text, best.size, trials, seconds, problem.history, _cure_of(best.text, rerun))


def candidates(source: Writable, parting: Parting) -> Iterator[Paired]:
    """Scripts that may part there, random numbers and fewer events first.

    If zeros decide, the script's own numbers first.
    """
    start = Slice(source, parting.event, frozenset())
    kept = _returned_by(source.program, parting)
    forms = [(True, False), (False, False)]
    for drawn, exact in [(True, True), *forms] if parting.zeros_of is not None else forms:
        known: set[tuple[int, ...]] = set()
        for one in (replace(one, anchors=one.anchors | kept) for one in slices(start)):
            if tuple(one.events) in known or not can_be_paired(one):
                continue
            known.add(tuple(one.events))
            yield from (Paired(one, parting.value, drawn, tolerance, exact) for tolerance in TOLERANCES)


def told(program: OuterProgram, parting: Parting) -> str:
    """The place of the parting, in words: the graph call or backward, and what precedes it, or what it overwrites."""
    if parting.zeros_of is not None:
        return f"{_place(program, parting.zeros_of)}, whose zeros have another sign, which {parting.value} depends on"
    place = _place(program, parting.event)
    for maker in _returned_by(program, parting):
        return f"{place}, which writes over {parting.value}, a result of {_place(program, maker)}"
    return f"{place}, behind the calls that led to it"


def _place(program: OuterProgram, event: int) -> str:
    graph = program.graph_of[event]
    if graph is not None:
        number = sum(one == graph for one in program.graph_of[: event + 1])
        return f"call {number} of {graph.replace('_', ' ')}"
    number = sum(one.kind == BACKWARD for one in program.events[: event + 1])
    return f"backward {number} of the script"


def _returned_by(program: OuterProgram, parting: Parting) -> frozenset[int]:
    """The event that created the value overwritten by another one; none for other types of parting."""
    makers = (index for index, event in enumerate(program.events) if parting.value in event.makes)
    return frozenset([*makers][:1] if parting.overwrites else ())


def _without_anchors(problem: Problem[Paired]) -> None:
    while problem.shrink(sorted(problem.best.slice.anchors), Paired.without, "events"):
        pass


def _begins(text: str, parting: Parting, rerun: Rerun) -> bool:
    """Whether both sides of a script part on its own backend like the program; if so, sets the target of ``rerun``."""
    target, _ = rerun.failure(text)
    if target is None or not fails_alike(parting, target):
        return False
    rerun.target = target
    return _parts(text, rerun)


def _parts(text: str, rerun: Rerun) -> bool:
    """Whether both sides part on the backend of ``rerun``, and rounding does not explain it."""
    return bool(rerun.check([Script.parse(text)])[0]) and _is_cured(text, rerun)


def _cure_of(text: str, rerun: Rerun) -> Callable[[str], str]:
    """The edit that must make a script pass: including a recompilation for each call, if that cures it.

    Then the further reduced text remains a failure of a sequence, and does not drift to a backend that is wrong in each
    call.
    """
    of_sequence = partial(control, of_sequence=True)
    return of_sequence if _is_cured(text, rerun, of_sequence) else control


def _is_cured(text: str, rerun: Rerun, cured: Callable[[str], str] = control) -> bool:
    signature, outcome = rerun.failure(cured(text), rerun.backend)
    return signature is None and outcome.ending is Ending.SAME


def fails_alike(parting: Parting, signature: Signature) -> bool:
    """Whether a script ends in a comparison that fails by the same type of difference as the program.

    Other inputs may show another fault of the same code: NaN where the program's values are finite and wrong, or vice
    versa. Reading the sign of a zero can cause either.
    """
    what = ABSENT if parting.sort == ABSENT else ASSERT_CLOSE
    is_value = parting.sort in ("value", ABSENT, *NONFINITE)
    is_difference = signature.kind is Kind.WRONG_OUTPUT and signature.what == what
    is_alike = parting.zeros_of is not None or signature.nonfinite is (parting.sort in NONFINITE)
    return is_value and is_difference and is_alike

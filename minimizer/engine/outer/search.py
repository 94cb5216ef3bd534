"""Searches for the events of a program that raise like the script: first the raising event, then the events that it
needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minimizer.engine.outer.flat import Slice, Writable, slices, whole
from minimizer.engine.outer.program import OuterProgram
from minimizer.engine.outer.skeleton import skeletons
from minimizer.engine.reduce.graph import Reduced
from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.reduce.python import Source as Script
from minimizer.engine.user_script.bundle import Bundle
from minimizer.report.model import HistoryStep

CHEAP = "aot_eager"
"""The backend for trials of slices, if the whole program fails there as well: it compiles no kernel."""


@dataclass(frozen=True)
class FlatScript:
    """A flat script that fails like the user's.

    ``events``: those of the program it was made from. ``trials``, ``seconds``: the cost of the search, with the steps
    of ``history``. ``guessed``: whether the operators in its graphs are not the script's.
    """

    script: Bundle
    events: int
    trials: int
    guessed: bool
    seconds: float
    history: Sequence[HistoryStep]


def smallest(
    program: OuterProgram, rerun: Rerun, script: str, *, jobs: int, watch: Callable[[], None]
) -> FlatScript | None:
    """The smallest script of events that fails like the ``target`` of ``rerun`` on the script's own backend; None if
    the whole does not.

    ``script``: the file name under which texts are run.
    """
    source = Writable.of(program)
    if not source.can_be_written:
        return None
    start = _until_it_raises(whole(source), rerun, script)
    if start is None:
        return None

    def check(candidates: Sequence[Slice]) -> Sequence[bool | None]:
        return rerun.check([Script.parse(one.script.text) for one in candidates])

    first = next((one for one in slices(start) if any(check([one]))), None)
    if first is None:
        return None
    problem = Problem(
        first, check=check, key=lambda one: (one.size,), on_step=lambda step, best: None, jobs=jobs, watch=watch
    )
    best = Reduced.by(lambda: _without_anchors(problem), problem).best
    cheap, trials = rerun.backend, problem.trials
    for guess in (*skeletons(best), best.script):
        trials += 1
        text = [Script.parse(guess.text)]
        rerun.backend = cheap
        if guess is best.script or any(rerun.check(text)):
            rerun.backend = None
            if any(rerun.check(text)):
                is_guess = guess is not best.script
                return FlatScript(guess, best.size, trials, is_guess, problem.seconds, problem.history)
    return None


def _without_anchors(problem: Problem[Slice]) -> None:
    while problem.shrink(sorted(problem.best.anchors), Slice.without, "events"):
        pass


def _until_it_raises(program: Slice, rerun: Rerun, script: str) -> Slice | None:
    """The program up to the event that raises like the target, on the cheapest backend on which one does."""
    text = program.script.text
    for backend in (CHEAP, None):
        rerun.backend = backend
        signature, outcome = rerun.failure(text, backend)
        if signature is None or rerun.target is None or not rerun.target.matches(signature):
            continue
        stack = outcome.exception.stack if outcome.exception is not None else ""
        numbers = re.findall(rf'File "{re.escape(script)}", line (\d{{1,9}})', stack)
        at = _innermost([program.event_at(int(number)) for number in numbers])
        if at is not None:
            return Slice(program.source, at, program.anchors)
    return None


def _innermost(events: Sequence[int | None]) -> int | None:
    return next((index for index in reversed(events) if index is not None), None)

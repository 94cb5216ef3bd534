"""Fewer nodes: windows first, since a culprit is usually a short run of neighbours, then single ones."""

from __future__ import annotations

from minimizer.program import Program
from minimizer.reduce import cut
from minimizer.reduce.program_problem import ProgramProblem


def window(problem: ProgramProblem) -> None:
    """Close in on the run of nodes that fails on golden inputs.

    Invariant: the best program stays a contiguous run of the nodes it had. Halving costs two or three trials a level; where
    the culprit lies across the cuts, both ends are trimmed by bisection instead. Small programs are tried before large
    ones, since what a trial costs is the nodes it compiles.
    """
    while len(problem.best.nodes) > 1 and _halve(problem):
        pass
    names = [node.name for node in problem.best.nodes]
    if len(names) > 2:
        _trim(problem, names)


def drop(problem: ProgramProblem) -> None:
    """Drop nodes anywhere; what the rest used of them becomes golden input.

    Invariant: when nothing changes, no single node could be dropped.
    """
    names = [node.name for node in problem.best.nodes]
    problem.shrink(names, cut.drop, "drop nodes", whole=False)


def bypass(problem: ProgramProblem) -> None:
    """Lead values past runs of nodes that their dataflow does not need; DESIGN: two cooperating nodes far apart.

    Invariant: when nothing changes, no single node could be bypassed, whichever of its like inputs stands for it.
    """
    names = [node.name for node in problem.best.nodes]
    # After trimming, the two ends are what is needed most surely: all that lies between goes in one trial, if it can.
    if len(names) > 3 and problem.judge([cut.bypass(problem.best, names[1:-1])], "bypass")[0]:
        names = [node.name for node in problem.best.nodes]
    problem.shrink(names, cut.bypass, "bypass", whole=False)
    for node in reversed(problem.best.nodes):
        others = len(set(node.refs())) - 1
        problem.first((cut.bypass(problem.best, [node.name], choice=c) for c in range(others)), "bypass")


def _halve(problem: ProgramProblem) -> bool:
    names = [node.name for node in problem.best.nodes]
    half, quarter = len(names) // 2, len(names) // 4
    halves = [names[half:], names[:half]]
    middle = [names[quarter : len(names) - quarter]] if quarter else []
    best = problem.best
    return problem.first([cut.keep(best, part) for part in halves], "window") or problem.first(
        [cut.keep(best, part) for part in middle], "window"
    )


def _trim(problem: ProgramProblem, names: list[str]) -> None:
    def without_front(count: int) -> Program | None:
        return cut.keep(problem.best, names[count:])

    front = problem.largest(0, len(names) // 2 + 1, without_front, "window")
    left = names[front:]

    def without_back(count: int) -> Program | None:
        return cut.keep(problem.best, left[: len(left) - count])

    problem.largest(0, len(left), without_back, "window")

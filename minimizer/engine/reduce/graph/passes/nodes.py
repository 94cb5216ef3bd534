"""Fewer nodes: the window first, since a culprit is usually a short run of neighbours, then single ones."""

from __future__ import annotations

from minimizer.engine.program.model import TAKEN_APART, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def window(problem: ProgramProblem) -> None:
    """Close in on the run of nodes that fails on golden inputs: the shortest prefix that fails, then its shortest suffix.

    Takes about log(n) trials for the prefix, and 2·log(k) for the suffix where the culprit spans k nodes.
    Invariant: the best program stays a contiguous run of the nodes it had. Of several culprits the one that is complete first
    is left, and no later pass can leave it for another, in whatever order it tries: what fails needs the run's last node.
    """
    whole = problem.best
    names = [node.name for node in whole.nodes]

    def without_back(count: int) -> Program | None:
        return cut.keep(whole, names[: len(names) - count])

    left = names[: len(names) - problem.largest(0, len(names), without_back, "window")]

    def without_front(count: int) -> Program | None:
        return cut.keep(whole, left[count:])

    span = 1
    while span < len(left) and not problem.judge([without_front(len(left) - span)], "window")[0]:
        span *= 2
    problem.largest(max(0, len(left) - span), len(left) - span // 2, without_front, "window")


def drop(problem: ProgramProblem) -> None:
    """Drop nodes anywhere; what the rest used of them becomes golden input.

    Invariant: when nothing changes, no single node could be dropped.
    """
    names = [node.name for node in problem.best.nodes]
    problem.shrink(names, cut.drop, "drop nodes", whole=False)
    # What opens a transform and what closes it can only go together.
    around = [node.name for node in problem.best.nodes if node.target.startswith(TAKEN_APART)]
    if len(around) > 1:
        problem.judge([cut.drop(problem.best, around)], "drop nodes")


def bypass(problem: ProgramProblem) -> None:
    """Lead values past runs of nodes that their dataflow does not need: two cooperating nodes far apart.

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

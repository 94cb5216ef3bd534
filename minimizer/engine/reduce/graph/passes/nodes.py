"""Passes for fewer nodes: the window first, since a culprit is usually a short run of neighbours, then single nodes."""

from __future__ import annotations

from minimizer.engine.program.model import TAKEN_APART, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def window(problem: ProgramProblem) -> None:
    """Find the run of nodes that fails on golden inputs: the shortest failing prefix, then its shortest failing suffix.

    Takes about log(n) trials for the prefix, and 2·log(k) for the suffix where the culprit spans k nodes.

    Invariant: the best program stays a contiguous run of the nodes it had. Of several culprits, the one that is complete
    first remains. No later pass can slip from it to another, in whatever order it tries: every failure left needs the
    last node of the run.
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
    """Drop nodes anywhere; values of theirs that other nodes use become golden inputs.

    Invariant: when nothing changes, no single node could be dropped.
    """
    names = [node.name for node in problem.best.nodes]
    problem.shrink(names, cut.drop, "drop nodes", whole=False)
    # The nodes that open a transform and those that close it can only go together.
    around = [node.name for node in problem.best.nodes if node.target.startswith(TAKEN_APART)]
    if len(around) > 1:
        problem.judge([cut.drop(problem.best, around)], "drop nodes")


def bypass(problem: ProgramProblem) -> None:
    """Bypass runs of nodes between two that fail together though far apart: their values come from an ancestor alike.

    Invariant: when nothing changes, no single node could be bypassed, whichever of its similar inputs replaces it.
    """
    names = [node.name for node in problem.best.nodes]
    # After `window` the two ends are the most likely to be needed: try to bypass everything between them in one trial.
    if len(names) > 3 and problem.judge([cut.bypass(problem.best, names[1:-1])], "bypass")[0]:
        names = [node.name for node in problem.best.nodes]
    problem.shrink(names, cut.bypass, "bypass", whole=False)
    for node in reversed(problem.best.nodes):
        others = len(set(node.refs())) - 1
        problem.first((cut.bypass(problem.best, [node.name], choice=c) for c in range(others)), "bypass")

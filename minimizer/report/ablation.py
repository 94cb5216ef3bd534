"""The table of an ablation: the failure on each rung of the ladder, with one kind of parts off, and with one module in
eager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minimizer.report.model import Ablated, Failure, Report, Rung
from minimizer.report.outcomes import in_words
from minimizer.vocabulary import Kind

PASSES = "passes"
OWN = "the script's own backend"

RUNGS = {
    "eager": "what Dynamo captures",
    "aot_eager": "what AOTAutograd makes of the graph",
    "aot_eager_decomp_partition": "the decompositions, and the split into forward and backward",
    "inductor": "the code that Inductor generates",
    "cudagraphs": "the capture into a CUDA graph",
}
"""The stage that each backend of the ladder adds to the one before it; others are the script's own."""
KINDS = {
    "decomposition": "decompositions",
    "pre_grad_passes": "passes over the graph before autograd",
    "joint_graph_passes": "passes over forward and backward together",
    "post_grad_passes": "passes over the graph that is lowered",
    "passes": "passes that are no part of these",
    "patterns": "patterns that replace operators",
    "fusion": "fusions of operators into one kernel",
    "lowerings": "lowerings of operators",
    "cudagraphs": "captures into CUDA graphs",
}
"""The kinds of parts that are switched off as a whole."""


@dataclass(frozen=True)
class Row:
    """A row of the table. ``what`` is code, ``how`` the words after it; ``seconds``: None if the run was not timed."""

    what: str
    how: str
    outcome: str
    raised: str
    seconds: float | None
    says: str
    is_first_to_fail: bool = False


def rows(report: Report) -> Iterator[Row]:
    """All rows: those of the ladder, then those of the small program, then those of the whole script."""
    yield from of_compiler(report)
    yield from map(_taken_out, (one for one in report.ablation if one.of == "script" and one.outcome == PASSES))


def of_compiler(report: Report) -> Iterator[Row]:
    """The rows that name nothing of the script."""
    yield from of_ladder(report)
    yield from map(_taken_out, (one for one in report.ablation if one.of == "program"))


def of_ladder(report: Report) -> Iterator[Row]:
    """The rows of the ladder; the first that fails is the one that the stage was found by."""
    failed, below = False, True
    for rung in report.ladder:
        says = _of_rung(rung, failed=failed, below=below)
        is_first = rung.fails is True and not failed
        yield Row(
            rung.backend, "", _outcome(rung, report.failure), rung.raised, rung.seconds, says, is_first_to_fail=is_first
        )
        failed, below = failed or rung.fails is True, rung.fails is not None


def _outcome(rung: Rung, failure: Failure | None) -> str:
    """The outcome of a rung in words: a difference of metadata is none of values."""
    if rung.outcome == "different" and failure is not None and failure.kind is Kind.WRONG_METADATA:
        return "another memory layout" if failure.layout_only else "wrong metadata"
    return in_words(rung.outcome)


def _taken_out(one: Ablated) -> Row:
    how = "off" if one.of == "program" else "in eager, in the whole script"
    return Row(one.what, how, in_words(one.outcome), "", None, _of_part(one))


def _of_rung(rung: Rung, *, failed: bool, below: bool) -> str:
    """What a rung shows about the stage it adds, depending on whether an earlier one has ``failed``, and the one
    ``below`` was judged.
    """
    adds = RUNGS.get(rung.backend, OWN)
    if rung.fails is None:
        return f"nothing of {adds}"
    if failed:
        return "nothing new: it fails below, too" if rung.fails else f"with {adds} the failure does not show"
    if not rung.fails:
        return f"{adds}: not at fault{'' if rung.outcome == PASSES else ' for the error'}"
    return f"the first to fail, by {adds}" if below else "the first to fail; the one below could not be judged"


def _of_part(one: Ablated) -> str:
    if one.of == "script":
        return "the failure needs this module compiled"
    if one.outcome not in (PASSES, "fails"):
        return "nothing: it fails in another way"
    named = KINDS.get(one.what, "parts of this kind")
    return f"the failure needs {named}" if one.outcome == PASSES else f"the failure needs no {named}"

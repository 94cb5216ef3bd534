"""Decides whether a difference behind a jump is a fault: judges every part of the graph on eager's own inputs.

A jump (argmax, round, a comparison, a cast to an integer ...) turns a legal rounding into a whole step, so that code
behind it may be right and still differ. On eager's inputs each part is right or wrong. Regions are judged as wholes, to
keep their fusions; one that contains a jump and differs is split at its jumps, and finally into nodes. If every part is
right, the difference is amplified rounding.

The sign of a zero is irrelevant in a call's result, but propagates inside a graph: ``atan2`` turns it into half a turn.
A part that is right except for such signs is judged again with all nodes up to the next jump.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.program.model import Node, Program, TensorMeta
from minimizer.engine.program.regions import Cutter, Region, common_module

JUMPS = re.compile(
    r"(^|\.)(round|floor|ceil|trunc|fix|frac|sign|sgn|floor_divide|floordiv|remainder|fmod|mod|heaviside|threshold|hardshrink"
    r"|quantize\w*|fake_quantize\w*|gumbel_softmax|cond|while_loop)_?(\.\w+)*$"
)
"""Operators with a floating-point result that may jump when an input changes by a rounding."""
INDICES = re.compile(
    r"(^|\.)(topk|sort|max|min|median|nanmedian|mode|kthvalue|cummax|cummin|unique\w*|frexp|\w*_with_indices)(\.\w+)*$"
)
"""Operators that return indices in addition to values."""


@dataclass(frozen=True)
class Wrong:
    """A region of a program that is wrong on eager's own inputs, with its signature and outcome."""

    region: Region
    signature: Signature
    outcome: Outcome


@dataclass(frozen=True)
class Answer:
    """The answer of judging every part: the first wrong one, if any, and those that could not be judged."""

    wrong: Wrong | None = None
    unasked: tuple[Region, ...] = ()


def first_wrong(program: Program, regions: Sequence[Region], oracle: Oracle, *, backward: bool = True) -> Answer:
    """The first part of these regions that is wrong on eager's inputs, preferably with the oracle's failure.

    ``backward``: judge gradients too.
    """
    unasked: list[Region] = []
    prolonged: set[Region] = set()
    while regions := [
        region for region, part in zip(regions, cuts(program, regions, oracle), strict=True) if part.outputs
    ]:
        outcomes = judge_regions(program, regions, oracle, backward=backward)
        asked = [(region, outcome) for region, outcome in zip(regions, outcomes, strict=True) if outcome is not None]
        wrong = [found for region, outcome in asked if (found := _wrong(region, outcome)) is not None]
        if wrong:
            return Answer(next((found for found in wrong if oracle.shows(found.outcome)), wrong[0]))
        unclear = [region for region, outcome in asked if not _is_right(outcome)]
        unasked += [region for region in unclear if region.size == 1]
        signed = [region for region, outcome in asked if _is_right(outcome) and _has_other_zeros(outcome)]
        regions = [part for region in unclear for part in taken_apart(program, region)]
        for region in signed:
            further = _with_what_follows(program, region)
            regions += [part for part in further if part not in prolonged]
            prolonged.update(further)
    return Answer(None, tuple(unasked))


def _with_what_follows(program: Program, region: Region) -> list[Region]:
    """A region and all nodes up to the next jump, if there are any; a region with a later jump is split at it."""
    nodes, metas = program.nodes, program.metas
    end = next((i for i in range(region.start + 1, len(nodes)) if jumps(nodes[i], metas)), len(nodes))
    if end < region.stop:
        return taken_apart(program, region)
    return [Region(region.start, end, *common_module(nodes[region.start : end]))] if end > region.stop else []


def judge_regions(
    program: Program, regions: Sequence[Region], oracle: Oracle, *, backward: bool = True
) -> list[Outcome | None]:
    """Judge every distinct region, then the twins (equal but for their values) of failing ones, or all if none fails.

    None for a twin that was not judged.
    """
    programs = cuts(program, regions, oracle)
    families: dict[str, list[int]] = {}
    for index, candidate in enumerate(programs):
        families.setdefault(candidate.fingerprint(values=False), []).append(index)
    outcomes: dict[int, Outcome] = {}

    def judge(indices: Sequence[int]) -> None:
        found = oracle.judge([programs[index] for index in indices], backward=backward)
        outcomes.update(zip(indices, found, strict=True))

    judge([members[0] for members in families.values()])
    failing = [members for members in families.values() if oracle.shows(outcomes[members[0]])]
    judge([index for members in failing or families.values() for index in members[1:]])
    return [outcomes.get(index) for index in range(len(programs))]


def cuts(program: Program, regions: Sequence[Region], oracle: Oracle) -> list[Program]:
    """Regions of a program as separate programs.

    Raises:
        BudgetExceeded, Cancelled: the work is to end.
    """
    cutter, parts = Cutter(program), []
    for region in regions:
        oracle.watch()
        parts.append(cutter.cut(region.start, region.stop))
    return parts


def is_unclear(outcome: Outcome | None) -> bool:
    """Whether values behind a jump differ, so that only splitting the region can decide."""
    return outcome is not None and outcome.verdict is not None and outcome.verdict.discrete


def taken_apart(program: Program, region: Region) -> list[Region]:
    """The region split at its jumps: each jump, each run of nodes between them; every node if that splits nothing."""
    nodes, metas = program.nodes, program.metas
    ends = [region.start, region.stop]
    for index in range(region.start, region.stop):
        if jumps(nodes[index], metas):
            ends += [index, index + 1]
    ends = sorted(set(ends))
    if len(ends) <= 2:
        ends = list(range(region.start, region.stop + 1))
    return [Region(i, j, *common_module(nodes[i:j])) for i, j in pairwise(ends) if region.size > 1]


def jumps(node: Node, metas: Mapping[str, TensorMeta | None]) -> bool:
    """Whether a change in the last bit of an operand may become a whole step of the result."""
    if JUMPS.search(node.target) or dict(node.kwargs).get("rounding_mode"):
        return True
    if node.meta is None:
        return INDICES.search(node.target) is not None
    operands = [meta for name in node.refs() if (meta := metas.get(name)) is not None]
    return not _is_floating(node.meta) and any(map(_is_floating, operands))


def _is_floating(meta: TensorMeta) -> bool:
    return meta.dtype.startswith(("torch.float", "torch.bfloat", "torch.complex"))


def _wrong(region: Region, outcome: Outcome) -> Wrong | None:
    signature = signature_of(outcome)
    is_wrong = signature is not None and signature.kind.is_numeric and not signature.kind.is_of_metadata
    return Wrong(region, signature, outcome) if signature is not None and is_wrong else None


def _has_other_zeros(outcome: Outcome) -> bool:
    return outcome.verdict is not None and outcome.verdict.other_zeros


def _is_right(outcome: Outcome) -> bool:
    """Whether a part was judged and its values are right; metadata of intermediate values does not matter."""
    if is_unclear(outcome):
        return False
    signature = signature_of(outcome)
    return outcome.ending is Ending.SAME or (signature is not None and signature.kind.is_of_metadata)

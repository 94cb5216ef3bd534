"""Whether a difference behind a jump is a fault: every part of the graph is asked alone, on eager's own inputs.

A jump (argmax, round, a comparison, a cast to an integer ...) makes a whole step of a legal rounding, so that what is computed behind
it may be right and differ all the same. On eager's inputs it is right or wrong. Regions are asked as wholes, so that fusions
stay; one that holds a jump, and differs, is taken apart at its jumps, and at last node by node. Only where every part is right is
the difference legal rounding, amplified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.oracle.oracle import Oracle, Signature, signature_of
from minimizer.engine.program.model import Node, Program, TensorMeta
from minimizer.engine.program.regions import Cutter, Region, common_module
from minimizer.vocabulary import Kind

JUMPS = re.compile(
    r"(^|\.)(round|floor|ceil|trunc|fix|frac|sign|sgn|floor_divide|floordiv|remainder|fmod|mod|heaviside|threshold|hardshrink"
    r"|quantize\w*|fake_quantize\w*|gumbel_softmax|cond|while_loop)_?(\.\w+)*$"
)
"""Operators with a floating result that jumps where their input moves by a rounding."""
INDICES = re.compile(
    r"(^|\.)(topk|sort|max|min|median|nanmedian|mode|kthvalue|cummax|cummin|unique\w*|frexp|\w*_with_indices)(\.\w+)*$"
)
"""Operators that return positions beside values."""


@dataclass(frozen=True)
class Wrong:
    """A part of a program that is wrong on eager's own inputs, and how."""

    region: Region
    signature: Signature
    outcome: Outcome


@dataclass(frozen=True)
class Answer:
    """What asking every part has shown: the first that is wrong, if any, and those that could not be asked."""

    wrong: Wrong | None = None
    unasked: tuple[Region, ...] = ()


def first_wrong(program: Program, regions: Sequence[Region], oracle: Oracle, *, backward: bool = True) -> Answer:
    """The first part of these regions that is wrong on eager's inputs, as the oracle looks for it if there is one.

    ``backward``: gradients count as well; else they are not asked for.
    """
    unasked: list[Region] = []
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
        regions = [part for region in unclear for part in taken_apart(program, region)]
    return Answer(None, tuple(unasked))


def judge_regions(
    program: Program, regions: Sequence[Region], oracle: Oracle, *, backward: bool = True
) -> list[Outcome | None]:
    """Judge every distinct region, and its twins (equal but for their values) where it fails or no other region does.

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
    """Regions of a program as programs of their own.

    Raises:
        BudgetExceeded, Cancelled: as waiting for the oracle does.
    """
    cutter, parts = Cutter(program), []
    for region in regions:
        oracle.watch()
        parts.append(cutter.cut(region.start, region.stop))
    return parts


def is_unclear(outcome: Outcome | None) -> bool:
    """Whether values behind a jump differ, so that only what is judged alone is right or wrong."""
    return outcome is not None and outcome.verdict is not None and outcome.verdict.discrete


def taken_apart(program: Program, region: Region) -> list[Region]:
    """The jumps of a region one by one, and what lies between them as wholes; every node where there is no such cut."""
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
    """Whether a last bit in an operand of a call may become a whole step in its result."""
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
    is_wrong = signature is not None and signature.kind in (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
    return Wrong(region, signature, outcome) if signature is not None and is_wrong else None


def _is_right(outcome: Outcome) -> bool:
    """Whether a part was judged, and its values are right; strides and the like of its inner values are nobody's."""
    if is_unclear(outcome):
        return False
    signature = signature_of(outcome)
    return outcome.ending is Ending.SAME or (signature is not None and signature.kind is Kind.WRONG_METADATA)

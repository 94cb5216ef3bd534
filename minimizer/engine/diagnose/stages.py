"""Finds the part of the failing stage to blame: the kinds of parts of each stage, the choice among findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from minimizer.engine.diagnose.sets import Answer, Asker, Blame, Setting, blame, kind_of
from minimizer.engine.diagnose.trials import Trials
from minimizer.report import model
from minimizer.vocabulary import Stage

FUSION, LOWERINGS, CUDAGRAPHS = ("fusion",), ("lowerings",), ("cudagraphs",)
PASSES = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "passes", "patterns")
GROUPS: dict[Stage, tuple[Collection[str], ...]] = {
    Stage.DECOMPOSITION: (("decomposition",),),
    Stage.INDUCTOR: (PASSES, FUSION, LOWERINGS, CUDAGRAPHS),
}
RUNGS = {Stage.DECOMPOSITION: "aot_eager_decomp_partition"}
"""The backend that ends with this stage, if it is not the script's own."""
PARTS = {Stage.DECOMPOSITION: "decomposition", Stage.INDUCTOR: "pass, fusion or lowering"}
WORDS = {
    "decomposition": "the decomposition of",
    "lowerings": "the lowering of, or the code generated for,",
    "fusion": "the fusion of",
    "cudagraphs": "the capture into a CUDA graph:",
}
OUTCOMES = {Answer.FAILS: "fails", Answer.PASSES: "passes", Answer.OTHER: "fails otherwise"}
WITHOUT_PARTS = {
    Stage.DYNAMO: "Dynamo has no parts that can be switched off one by one.",
    Stage.AOT_AUTOGRAD: "AOTAutograd has no parts that can be switched off one by one.",
    Stage.CUDAGRAPHS: "CUDA graphs have no parts that can be switched off one by one.",
    Stage.CUSTOM_BACKEND: "The backend is the script's own; its parts are not known here.",
    Stage.CUSTOM_OP: "The operator is the script's own: no part of the compiler is at fault.",
    Stage.UNKNOWN: "The stage is unknown.",
}


def find_part(trials: Trials, stage: Stage, *, repeats: int = 1) -> model.Blame:
    """The part of a stage to blame, confirmed both ways if it can be; ``subsystem`` is ``unknown`` if none is found."""
    if stage not in GROUPS:
        return model.Blame(subsystem="unknown", what=WITHOUT_PARTS[stage])
    asker = Asker(trials.under(RUNGS[stage]) if stage in RUNGS else trials, repeats)
    found = blame(asker, GROUPS[stage])
    chosen = _choose(found, asker)
    if chosen is None:
        return model.Blame(subsystem="unknown", what=_why_not(asker, stage), runs=asker.runs)
    kinds = list(dict.fromkeys(kind_of(part) for part in chosen.parts))
    return model.Blame(
        subsystem=" + ".join(kinds),
        items=list(chosen.parts),
        any_of=chosen.any_of,
        confirmed=chosen.confirmed,
        runs=asker.runs,
        what=describe(chosen.parts, any_of=chosen.any_of),
    )


def each_kind_off(trials: Trials, stage: Stage, *, repeats: int = 1) -> list[model.Ablated]:
    """The failure with all parts of one kind off, for each kind of a stage that makes a difference; none if it does not
    reproduce unchanged.
    """
    if stage not in GROUPS:
        return []
    asker = Asker(trials.under(RUNGS[stage]) if stage in RUNGS else trials, repeats)
    base = asker.one(Setting())
    acting = {kind_of(part) for part, acted in base.parts.items() if acted}
    kinds = [kind for group in GROUPS[stage] for kind in group if kind in acting]
    if base.answer is not Answer.FAILS or not kinds:
        return []
    seen = asker.all([Setting(only=((kind, frozenset()),)) for kind in kinds])
    return [
        model.Ablated(what=kind, of="program", outcome=OUTCOMES[one.answer])
        for kind, one in zip(kinds, seen, strict=True)
    ]


def _why_not(asker: Asker, stage: Stage) -> str:
    """The reason why no part of a stage is blamed."""
    as_it_is = asker.one(Setting()).answer
    if as_it_is is Answer.PASSES:
        return "The failure does not show while the parts of the compiler are watched."
    if as_it_is is Answer.OTHER:
        return f"Under {RUNGS.get(stage, 'the backend')} alone the program fails in another way: its parts were not searched."
    if asker.fails_otherwise:
        return f"The failure stays where a {PARTS[stage]} can be left out; without some of them the program fails in another way."
    return f"The failure stays whatever {PARTS[stage]} is left out."


def _choose(found: Sequence[Blame], asker: Asker) -> Blame | None:
    """The finding that explains the others.

    Leaving out a pass also avoids a wrong lowering, if the pass inserts the lowered operator. A wrong pass stays wrong
    however its result is lowered, unless fewer fusions or copies hide it. So the pass is to blame if the operator
    exists without it. A failure that disappears without a fusion is one of the fused code only.
    """
    sure = [one for one in found if one.confirmed] or list(found)
    by_kind = {group: one for one in sure for group in (PASSES, FUSION, LOWERINGS) if kind_of(one.parts[0]) in group}
    if FUSION in by_kind:
        return by_kind[FUSION]
    if PASSES in by_kind and LOWERINGS in by_kind:
        without = asker.one(Setting(off=frozenset(by_kind[PASSES].parts)))
        is_there = any(part in without.parts for part in by_kind[LOWERINGS].parts)
        return by_kind[PASSES if is_there else LOWERINGS]
    return sure[0] if sure else None


def describe(parts: Sequence[str], *, any_of: bool) -> str:
    """The parts in words, for the report."""
    said: dict[str, list[str]] = {}
    for part in parts:
        kind, _, name = part.partition("/")
        if kind in WORDS:
            said.setdefault(f"{WORDS[kind]} ", []).append(name.replace("+", " with ") if kind == "fusion" else name)
        else:
            said.setdefault(f"the pass {name}, in ", []).append(kind)
    words = " and ".join(f"{start}{' and '.join(names)}" for start, names in said.items())
    return f"{words} (each by itself)" if any_of else words

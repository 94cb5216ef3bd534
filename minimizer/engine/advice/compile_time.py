"""Graphs whose compilation takes most of a run, by phase: thresholds for a finding, and its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minimizer.engine.child.protocol import Compilation, EqualBlocks, Health

LONG, LONG_WITH_BLOCKS = 60.0, 20.0
"""Seconds of one graph and its backward.

Worth a look for an engineer who starts the program ten times a day; less if equal blocks show the remedy at once. A
small model takes a few seconds, and the first C++ kernel of a machine ten more.
"""
MOSTLY = 0.5
"""Share of the run that all compiling takes; in a longer run it is an accepted price."""
LEAST_BLOCKS, BLOCKS_SHARE = 4, 0.5
"""Equal blocks of a graph, and their share of its nodes: compiled one by one, the graph then takes at most about two
thirds.
"""


def slow_compilations(health: Health, crowding: float) -> Iterator[tuple[Compilation, list[EqualBlocks]]]:
    """The graphs that are a finding, with the lists of equal blocks that can be compiled one by one.

    A recompile is none: its failed guard is. ``crowding``: the possible slowdown by the machine's load.
    """
    if not health.seconds or sum(one.seconds for one in health.compilations) < MOSTLY * health.seconds:
        return  # a run held in a call has no total time
    for one in health.compilations:
        blocks = [each for each in one.blocks if each.count >= LEAST_BLOCKS]
        if sum(each.nodes for each in blocks) < BLOCKS_SHARE * one.nodes:
            blocks = []
        if one.is_first and one.seconds >= crowding * (LONG_WITH_BLOCKS if blocks else LONG):
            yield one, blocks


def sentence(one: Compilation, blocks: Sequence[EqualBlocks], seconds: float) -> str:
    """The phases of a compilation's time, and repetitions in it; ``seconds``: of the run."""
    phases = {
        "Dynamo": one.dynamo,
        "AOTAutograd" if one.lowering or one.code else "the backend": one.aot,
        "Inductor's lowering": one.lowering,
        "code generation": one.code,
    }
    shown = ", ".join(f"{name} {value:.1f} s" for name, value in phases.items() if value >= 0.05)
    backward = ", its backward included" if one.backward else ""
    told = f"Of {seconds:.0f} s that the script runs, compiling the graph that is called here takes {one.seconds:.0f} s{backward} ({shown})."
    each = [
        f"{'' if one.count == one.of else f'{one.count} of '}the {one.of} {'calls' if one.is_one else 'modules'} of {_list(one.path)}"
        for one in blocks
    ]
    repeats = f" It compiles the same code again for each of {' and of '.join(each)}." if each else ""
    return told + repeats


def _list(path: str) -> str:
    return f"`{path}`" if path else "the compiled module"

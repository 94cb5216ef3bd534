"""Graphs of which compiled code keeps more for the backward than eager does: the threshold from which that is a finding, and its words."""

from __future__ import annotations

from collections.abc import Iterator

from minimizer.engine.child.protocol import Health, Kept

MORE, TIMES_MORE = 64_000_000, 1.25
"""Bytes that compiled code keeps beyond eager's, and how many times as much: statistics that a decomposed normalization keeps, random states
and masks of another dtype are a few percent of all, and a small model has less than this altogether."""
BUDGETS = (0.5, 0.1)
"""Settings of ``activation_memory_budget`` that are tried: 1 keeps what is fastest, 0 computes all again."""
MEGA = 1e6


def larger(health: Health) -> Iterator[Kept]:
    """The graphs that are a finding."""
    for one in health.kept:
        if one.compiled - one.eager >= MORE and one.compiled >= TIMES_MORE * one.eager:
            yield one


def sentence(one: Kept) -> str:
    """What both sides keep."""
    return (
        f"From its forward to its backward the compiled graph that is called here keeps {one.compiled / MEGA:,.0f} MB of activations, "
        f"and eager {one.eager / MEGA:,.0f} MB (in its first call, without arguments and results)."
    )


def kept(health: Health) -> float:
    """Megabytes that compiled code keeps for the backwards of all graphs."""
    return round(sum(one.compiled for one in health.kept) / MEGA, 1)

"""Graphs whose compiled code saves more for backward than eager: thresholds for a finding, and its words."""

from __future__ import annotations

from collections.abc import Iterator

from minimizer.engine.child.protocol import Health, Kept

MORE, TIMES_MORE = 64_000_000, 1.25
"""Bytes saved beyond eager's, and their ratio.

Statistics of a decomposed normalization, random states and masks of another dtype are a few percent of the total, and a
small model has less than this altogether.
"""
BUDGETS = (0.5, 0.1)
"""Values of ``activation_memory_budget`` to try: 1 saves what is fastest, 0 recomputes everything."""
MEGA = 1e6


def larger(health: Health) -> Iterator[Kept]:
    """The graphs that are a finding."""
    for one in health.kept:
        if one.compiled - one.eager >= MORE and one.compiled >= TIMES_MORE * one.eager:
            yield one


def sentence(one: Kept) -> str:
    """The bytes that both sides save."""
    return (
        f"From its forward to its backward the compiled graph that is called here keeps {one.compiled / MEGA:,.0f} MB of activations, "
        f"and eager {one.eager / MEGA:,.0f} MB (in its first call, without arguments and results)."
    )


def kept(health: Health) -> float:
    """Megabytes that compiled code saves for the backwards of all graphs."""
    return round(sum(one.compiled for one in health.kept) / MEGA, 1)

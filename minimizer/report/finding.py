"""What the owner of a script may do better, where nothing is wrong: findings, their cost, and remedies that were tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from minimizer.report.culprit import Source
from minimizer.report.part import Part

FindingKind = Literal[
    "graph_breaks", "recompiles", "compile_time", "memory", "slow", "bias", "chaos", "settings", "logs_reordered", "stale_cache_risk",
]  # fmt: skip


class Cost(Part):
    """What a finding costs, as it was measured."""

    what: str = Field(description="What was measured, as `compiling again`.")
    value: float
    unit: str = Field(description="As `s` or `graph breaks per call`.")

    @property
    def words(self) -> str:
        """The same in a few words."""
        return f"{measured(self.value, self.unit)} {self.what}".strip()


class Remedy(Part):
    """A change that was made by machine and run: one of the script, which is measured; or a setting of a failing one that is put back
    to its default, which is tried on the small program that fails and not on the script."""

    what: str
    diff: str = Field("", description="The change, as a unified diff of the script.")
    before: float | None = Field(None, description="What it is to lower, without the change.")
    after: float | None = Field(None, description="The same with the change; null where that run told nothing.")
    unit: str = ""
    helped: bool = Field(
        False,
        description="It is lower, and the script prints the same; of a setting put back: the small program does not fail.",
    )
    note: str = Field(
        "", description="Why it does not count as help, or what else it changes; empty if there is nothing."
    )

    @property
    def words(self) -> str:
        """The outcome, as a sentence."""
        if self.before is None or self.after is None:
            return self.note
        figures = f"{measured(self.before, self.unit)} before, {self.after:.3g} with it."
        return f"{figures} {self.note}".strip()


class Finding(Part):
    """Something about how the script is compiled that costs more than it need, or that its owner should know."""

    kind: FindingKind
    what: str = Field(description="A sentence or two of plain English.")
    source: Source | None = Field(None, description="The user's line that it is about.")
    stack: list[str] = Field(default_factory=list, description="The user's lines that lead there, outermost first.")
    cost: Cost | None = Field(None, description="Null for what is only told.")
    remedies: list[Remedy] = Field(default_factory=list)

    @property
    def helped(self) -> Remedy | None:
        """The first remedy that helped; None if none did."""
        return next((remedy for remedy in self.remedies if remedy.helped), None)

    @property
    def title(self) -> str:
        """Its kind, in words."""
        return self.kind.replace("_", " ").capitalize()


ORDER: Sequence[FindingKind] = (
    "recompiles", "graph_breaks", "compile_time", "slow", "memory", "bias", "chaos", "logs_reordered", "stale_cache_risk", "settings",
)  # fmt: skip
"""Kinds by their usual cost: a recompile takes seconds, a graph break some launches, and a setting nothing."""


PLURAL = re.compile(r"\b(\w{3,})s\b")
"""Matches the first plural of a unit, and no `ms`."""


def by_cost(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, the costliest first: by kind, and within one by the measurements."""
    return sorted(findings, key=lambda one: (ORDER.index(one.kind), -(one.cost.value if one.cost else 0.0)))


def measured(value: float, unit: str) -> str:
    """A figure with its unit."""
    if unit == "s" or unit.startswith("s "):
        return f"{value:.1f} {unit}"
    number = f"{value:,.0f}" if value == int(value) else f"{value:.3g}"
    return f"{number} {PLURAL.sub(_singular, unit, count=1) if value == 1 else unit}"


def _singular(plural: re.Match[str]) -> str:
    return plural[1]


def headline(findings: Sequence[Finding]) -> str:
    """A sentence or two on the costliest finding that asks for something to be done; empty if there is none."""
    costly = next((one for one in findings if one.cost is not None), None)
    if costly is None or costly.cost is None:
        return ""
    others = sum(one.cost is not None for one in findings) - 1
    which = f"The costliest of {others + 1} findings" if others else "One finding"
    where = f" at {costly.source.file} line {costly.source.line}" if costly.source is not None else ""
    helped = costly.helped
    cure = f" {helped.what} helps: {helped.words}" if helped is not None else ""
    return f"{which}{where} ({costly.cost.words}): {costly.what}{cure}"

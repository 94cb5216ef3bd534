"""What steps need and find, as values: `fold` puts them into the report.

A search replaces the `Fault` of the journal as often as it knows more, and takes back what proved wrong by the value from before. Steps
behind the repro hand what they know to ``keep``. So a step that is stopped in its middle keeps what it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minimizer.report.culprit import Culprit, GraphNode, Layer
from minimizer.report.examined import Observed, Version
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.model import (
    Ablated,
    AlsoSeen,
    Blame,
    Failure,
    Flag,
    HistoryStep,
    Reduction,
    Rung,
    Verification,
    Workaround,
)
from minimizer.vocabulary import Reason, Stage, Status


@dataclass(frozen=True)
class Fault:
    """All that is known of one fault so far, up to the verdict on it."""

    failure: Failure | None = None
    culprits: tuple[Culprit, ...] = ()
    ladder: tuple[Rung, ...] = ()
    observed: tuple[Observed, ...] = ()
    also_seen: tuple[AlsoSeen, ...] = ()
    reduction: Reduction | None = None
    verification: Verification | None = None
    blame: Blame | None = None
    flags: tuple[Flag, ...] = ()
    ablation: tuple[Ablated, ...] = ()
    workaround: Workaround | None = None
    generated_code: GeneratedCode | None = None
    graph: tuple[GraphNode, ...] = ()
    versions: tuple[Version, ...] = ()
    status: Status = Status.RUNNING
    reason: Reason | None = None
    summary: str = ""

    @property
    def holds(self) -> bool:
        """Whether there is a verified repro of it."""
        return self.verification is not None and self.verification.holds

    @property
    def announced(self) -> Failure:
        """Its failure, which is known by now."""
        assert self.failure is not None
        return self.failure

    @property
    def reduced(self) -> Reduction:
        """Its reduction, which has begun by now."""
        assert self.reduction is not None
        return self.reduction

    def stating(self, **changes: object) -> Fault:
        """The same fault, whose failure has these fields."""
        return replace(self, failure=self.announced.model_copy(update=changes))

    def blaming(self, first: Culprit) -> Fault:
        """The same fault with another first culprit."""
        return replace(self, culprits=(first, *self.culprits[1:]))

    def counting(self, **changes: object) -> Fault:
        """The same fault, whose reduction has these figures."""
        return replace(self, reduction=self.reduced.model_copy(update=changes))

    def behind(self, trials: int, seconds: float, history: Sequence[HistoryStep]) -> Fault:
        """The same fault, whose reduction went on from a search with these figures and steps."""
        reduction = self.reduced
        later = [
            step.model_copy(update={"trial": step.trial + trials, "seconds": round(step.seconds + seconds, 3)})
            for step in reduction.history
        ]
        return self.counting(
            trials=reduction.trials + trials,
            seconds=round(reduction.seconds + seconds, 2),
            history=[*history, *later],
        )


@dataclass(frozen=True)
class Failing:
    """A failure that is to be diagnosed. ``said``: its message and traceback. ``ladder``: its rungs. ``device``: ``cpu`` or ``cuda``."""

    stage: Stage
    said: str
    culprit: Culprit
    ladder: tuple[Rung, ...]
    device: str


@dataclass(frozen=True)
class Diagnosed:
    """The part of the compiler to blame, settings and parts that were tried, and a workaround, each as far as it is known."""

    blame: Blame | None = None
    flags: tuple[Flag, ...] = ()
    ablation: tuple[Ablated, ...] = ()
    workaround: Workaround | None = None


@dataclass(frozen=True)
class Described:
    """The table of layers, and the graph around the culprit; None for what is not known."""

    layers: tuple[Layer, ...] | None = None
    graph: tuple[GraphNode, ...] | None = None

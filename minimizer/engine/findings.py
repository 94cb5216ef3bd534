"""The inputs and results of steps, as values; `fold` puts them into the report.

A `Fault` goes from step to step: each takes what is known and returns more of it, up to a draft, its verification and
the verdict. The journal is told every value on the way, and reports it; a search that proved wrong is taken back by
telling it an earlier one. Steps after the verdict add to it. So a step that is interrupted keeps what it had.
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
    """Everything known about one fault so far, up to its verdict."""

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
    layers: tuple[Layer, ...] = ()
    graph: tuple[GraphNode, ...] = ()
    versions: tuple[Version, ...] = ()
    status: Status = Status.RUNNING
    reason: Reason | None = None
    summary: str = ""

    @property
    def holds(self) -> bool:
        """Whether the fault has a verified repro."""
        return self.verification is not None and self.verification.holds

    @property
    def announced(self) -> Failure:
        """The failure; an error before it is announced."""
        assert self.failure is not None
        return self.failure

    @property
    def reduced(self) -> Reduction:
        """The reduction; an error before it has begun."""
        assert self.reduction is not None
        return self.reduction

    def stating(self, **changes: object) -> Fault:
        """The same fault, with these fields of the failure changed."""
        return replace(self, failure=self.announced.model_copy(update=changes))

    def blaming(self, first: Culprit) -> Fault:
        """The same fault with another first culprit."""
        return replace(self, culprits=(first, *self.culprits[1:]))

    def counting(self, **changes: object) -> Fault:
        """The same fault, with these figures of the reduction changed."""
        return replace(self, reduction=self.reduced.model_copy(update=changes))

    def behind(self, trials: int, seconds: float, history: Sequence[HistoryStep]) -> Fault:
        """The same fault, with its reduction appended to an earlier search that has these figures and steps."""
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


UNKNOWN = Fault()
"""The fault of a job that has just begun."""


@dataclass(frozen=True)
class Failing:
    """A failure to diagnose.

    ``said``: its message and traceback. ``ladder``: its rungs. ``device``: ``cpu`` or ``cuda``.
    """

    stage: Stage
    said: str
    culprit: Culprit
    ladder: tuple[Rung, ...]
    device: str


@dataclass(frozen=True)
class Diagnosed:
    """A diagnosis, complete or partial: the part to blame, the settings and parts tried, and a workaround."""

    blame: Blame | None = None
    flags: tuple[Flag, ...] = ()
    ablation: tuple[Ablated, ...] = ()
    workaround: Workaround | None = None


@dataclass(frozen=True)
class Described:
    """The table of layers and the graph around the culprit; None where unknown."""

    layers: tuple[Layer, ...] | None = None
    graph: tuple[GraphNode, ...] | None = None

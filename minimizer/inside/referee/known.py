"""What the referee has learned of a graph in earlier calls, so that it need not run eager again for every last bit."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

NEAR = 2.0
"""A result this many times eager's own error away from eager is at most three times as far from the truth, which is legal."""


@dataclass(frozen=True)
class OwnError:
    """Eager's own error against float64, redrawn roundings included: of the worst element relative to the largest, and in the norm."""

    worst: float
    norm: float

    def covers(self, expected: Tensor, actual: Tensor) -> bool:
        """Whether a result in double precision is so near to eager's that its own error cannot be a fault."""
        error, sizes = (actual - expected).abs(), expected.abs()
        if not bool(error.isfinite().all()):
            return False
        is_near = float(error.max()) <= NEAR * self.worst * float(sizes.max())
        return is_near and float(error.norm()) <= NEAR * self.norm * float(sizes.norm())


@dataclass
class Known:
    """Of one graph: the places that are rounded in every call, and eager's own error where only small values differed."""

    rounded: set[str] = field(default_factory=set)
    errors: dict[str, OwnError] = field(default_factory=dict)

"""Sequential test for flaky failures: how many compilations it takes to accept or refuse a candidate.

A flaky candidate must not be refused because it passed once, and one that fails a hundred times more rarely than the
target has another failure. Both are a question of two rates, which Wald's sequential probability ratio test answers
with the fewest compilations: each moves the evidence towards "fails as often as the target" or towards "fails a
`RARER`-th as often, or never", until one side has enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minimizer.report.model import Reproducibility

MISS = 1e-3
"""Probability of refusing a candidate that fails as often as the target."""
TAKEN = 0.05
"""Probability of accepting a candidate that fails only a `RARER`-th as often.

One that never fails is never accepted.
"""
RARER = 5.0
LEAST_RATE, MOST_RATE = 0.25, 0.7
"""Bounds of the assumed rate: a refusal takes 30 passes at the lower one, and 7 at the upper one.

The upper one allows for a failure that becomes half as frequent during reduction, such as one in any of several
nodes."""
MOST_COMPILATIONS = 100
"""Compilations after which the side with more evidence wins."""
CONFIDENCE = 1.28
"""Standard deviations below the measured rate: the true rate is lower than the assumed one in one of ten estimates."""

_ACCEPT = math.log((1 - MISS) / TAKEN)
_REFUSE = math.log(MISS / (1 - TAKEN))


@dataclass(frozen=True)
class SequentialTest:
    """Distinguishes candidates that fail at ``rate`` (a share of all compilations, between 0 and 1) from rarer ones."""

    rate: float

    @classmethod
    def of(cls, seen: Reproducibility) -> SequentialTest:
        """The test for a failure seen ``failed`` times in ``runs``: assumes the lowest rate that explains that."""
        return cls(min(MOST_RATE, max(LEAST_RATE, least_rate(seen))))

    def verdict(self, failed: int, passed: int) -> bool | None:
        """Whether a candidate with these compilations fails like the target; None while undecided."""
        evidence = self._evidence(failed, passed)
        if evidence >= _ACCEPT or evidence <= _REFUSE:
            return evidence >= _ACCEPT
        return evidence > 0 if failed + passed >= MOST_COMPILATIONS else None

    def passes_left(self, failed: int, passed: int) -> int:
        """Passes in a row that would decide it now."""
        left = math.ceil((_REFUSE - self._evidence(failed, passed)) / self._of_pass)
        return max(1, min(left, MOST_COMPILATIONS - failed - passed))

    def failures_left(self, failed: int, passed: int) -> int:
        """Failures in a row that would decide it now."""
        return max(1, math.ceil((_ACCEPT - self._evidence(failed, passed)) / self._of_failure))

    @property
    def _of_failure(self) -> float:
        return math.log(RARER)

    @property
    def _of_pass(self) -> float:
        return math.log((1 - self.rate) / (1 - self.rate / RARER))

    def _evidence(self, failed: int, passed: int) -> float:
        return failed * self._of_failure + passed * self._of_pass


def least_rate(seen: Reproducibility) -> float:
    """The lower end of Wilson's score interval for the rate of a failure, a share of all runs; 0 without a run."""
    if not seen.runs:
        return 0.0
    share, weight = seen.failed / seen.runs, CONFIDENCE**2 / seen.runs
    spread = CONFIDENCE * math.sqrt(share * (1 - share) / seen.runs + weight / (4 * seen.runs))
    return max(0.0, (share + weight / 2 - spread) / (1 + weight))

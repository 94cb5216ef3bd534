"""Judging what does not always show: how many compilations it takes to say that a candidate fails, or that it does not.

A candidate that fails now and then must not be given up because it passed once, and one that fails a hundred times more
rarely than the target is another failure. Both are one question, of two rates, and Wald's sequential probability ratio test
answers it with the fewest compilations: each moves the evidence towards "fails as often as the target does" or towards "fails
a `RARER`-th as often, or never", until one side has enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minimizer.report.model import Reproducibility

MISS = 1e-3
"""Chance that a candidate which fails as often as the target is refused."""
TAKEN = 0.05
"""Chance that a candidate which fails only a `RARER`-th as often is accepted; of those that never fail none is."""
RARER = 5.0
LEAST_RATE, MOST_RATE = 0.25, 0.7
"""Bounds of the rate that is assumed: a refusal takes 30 passes at the one and 7 at the other.

The upper one leaves room for what becomes half as frequent on its way down, as where each of several nodes may fail."""
MOST_COMPILATIONS = 100
"""After so many the side that has more evidence has won."""
CONFIDENCE = 1.28
"""Standard deviations; the true rate is below the one assumed in one of ten estimates."""

_ACCEPT = math.log((1 - MISS) / TAKEN)
_REFUSE = math.log(MISS / (1 - TAKEN))


@dataclass(frozen=True)
class SequentialTest:
    """Tells candidates that fail at ``rate`` (a share of all compilations, above 0 and below 1) from rarer ones."""

    rate: float

    @classmethod
    def of(cls, seen: Reproducibility) -> SequentialTest:
        """The test for a failure that was seen ``failed`` times in ``runs``: it assumes the least rate that explains that."""
        return cls(min(MOST_RATE, max(LEAST_RATE, least_rate(seen))))

    def verdict(self, failed: int, passed: int) -> bool | None:
        """Whether a candidate with these compilations behind it fails like the target; None while it may go either way."""
        evidence = self._evidence(failed, passed)
        if evidence >= _ACCEPT or evidence <= _REFUSE:
            return evidence >= _ACCEPT
        return evidence > 0 if failed + passed >= MOST_COMPILATIONS else None

    def passes_left(self, failed: int, passed: int) -> int:
        """How many passes in a row would settle it now."""
        left = math.ceil((_REFUSE - self._evidence(failed, passed)) / self._of_pass)
        return max(1, min(left, MOST_COMPILATIONS - failed - passed))

    def failures_left(self, failed: int, passed: int) -> int:
        """How many failures in a row would settle it now."""
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

"""The time for writing a repro and its clean runs, reserved according to how long things have taken in this job."""

from __future__ import annotations

import math
import os

from minimizer.engine.budget.pace import Pace
from minimizer.engine.budget.patience import (
    CLEAN_FACTOR,
    REPRO_SECONDS,
    RESERVE_MARGIN,
    TRIALS_TO_WRITE,
    VERIFY_RUNS,
    VERIFY_SECONDS,
)
from minimizer.engine.child.watchdog import crowding
from minimizer.vocabulary import Kind


def to_verify(pace: Pace, kind: Kind | None) -> float:
    """Seconds for the clean runs of a repro: each starts torch and compiles with an empty cache, and they share the
    cores.

    The child's times were measured at the start of the job; other processes may share the cores by now. Those running
    at that time are already included.
    """
    rounds = math.ceil((VERIFY_RUNS + 1) / len(os.sched_getaffinity(0)))
    slower = max(1.0, crowding() / pace.crowding)
    hangs = REPRO_SECONDS if kind is Kind.HANG else 0.0  # each compiled run waits for the hang
    return RESERVE_MARGIN * slower * rounds * (pace.start + pace.cold) + hangs


def to_finish(pace: Pace, kind: Kind | None) -> float:
    """Seconds to blame, write and verify."""
    return TRIALS_TO_WRITE * pace.trial + to_verify(pace, kind)


def clean_run_timeout(pace: Pace) -> float:
    """Most seconds of one clean run, in addition to the time after which the repro of a hang ends itself."""
    return max(VERIFY_SECONDS, CLEAN_FACTOR * to_verify(pace, kind=None))

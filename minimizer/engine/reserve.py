"""The time that is held back at the end of a job to write and verify its repro, by how long things have taken in this very job."""

from __future__ import annotations

import math
import os

from minimizer.engine.emit.idioms import REPRO_SECONDS
from minimizer.engine.pace import Pace
from minimizer.engine.verify.clean_runs import VERIFY_RUNS
from minimizer.vocabulary import Kind

TRIALS_TO_WRITE = 8
"""Trials, one after another, that climb the ladder of backends and write the repro."""
MARGIN = 1.25
"""A machine has more to do at one time than at another."""
WRITE_SECONDS = 60.0
"""Most seconds for which a job that was cancelled goes on, to write its repro."""
BLAME_SHARE = 0.9
"""Most of what is left that blame and writing hold back for verification: a verified repro is worth more than its stage."""


def to_verify(pace: Pace, kind: Kind | None) -> float:
    """Seconds for the clean runs of a repro: each starts torch and compiles with an empty cache, and they share the cores."""
    rounds = math.ceil((VERIFY_RUNS + 1) / len(os.sched_getaffinity(0)))
    hangs = REPRO_SECONDS if kind is Kind.HANG else 0.0  # each compiled run waits for the hang
    return MARGIN * rounds * (pace.start + pace.cold) + hangs


def to_finish(pace: Pace, kind: Kind | None) -> float:
    """Seconds to blame, write and verify."""
    return TRIALS_TO_WRITE * pace.trial + to_verify(pace, kind)

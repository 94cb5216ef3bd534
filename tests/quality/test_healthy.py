"""Healthy models and training loops: not one of them may raise an alarm.

Rounding, random streams, in-place state, jumps on rounded values, graph breaks: each script does something that a careless
comparison takes for a fault. Three are run a day, another three each day; all if WHOLE_CORPUS is set.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest
from test_corpus import minimize

SCRIPTS = sorted((Path(__file__).parent / "healthy").glob("*.py"))
DAILY = 3


def chosen(day: int) -> list[Path]:
    """The scripts of a day; all have had their turn after so many days that every one was drawn."""
    return [SCRIPTS[(DAILY * day + index) % len(SCRIPTS)] for index in range(DAILY)]


TODAY = SCRIPTS if "WHOLE_CORPUS" in os.environ else chosen(datetime.date.today().toordinal())


@pytest.mark.quality
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", TODAY, ids=lambda path: path.stem)
def test_no_alarm(script: Path, tmp_path: Path) -> None:
    status, report = minimize(script, tmp_path)

    assert report["status"] == "healthy", report["summary"]
    assert status == 3
    assert report["failure"] is None
    assert report["checked"]["calls"] > 0


def test_there_are_enough_and_all_have_their_turn() -> None:
    assert len(SCRIPTS) >= 25
    assert {path for day in range(len(SCRIPTS)) for path in chosen(day)} == set(SCRIPTS)

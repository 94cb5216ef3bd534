"""Healthy models and training loops: not one of them may raise an alarm.

Rounding, random streams, in-place state, jumps on rounded values, graph breaks: each script does something that a careless
comparison takes for a fault. Each commit runs some of them (`shares`); all if WHOLE_CORPUS is set.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_corpus import minimize

SCRIPTS = sorted((Path(__file__).parent / "healthy").glob("*.py"))


@pytest.mark.quality("healthy")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_alarm(script: Path, tmp_path: Path) -> None:
    status, report = minimize(script, tmp_path)

    assert report["status"] == "healthy", report["summary"]
    assert status == 3
    assert report["failure"] is None
    assert report["checked"]["calls"] > 0


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 25

"""Wrong operators behind jumps: each is found, and its healthy twin, in which a legal rounding turns the jump, stays quiet.

A few of the rows are run a day, others each day; all if WHOLE_CORPUS is set.
"""

from __future__ import annotations

import datetime
import itertools
import os
from pathlib import Path

import pytest
from test_corpus import minimize

LAYER = Path(__file__).parent / "jumps" / "layer.py"
JUMPS = ("router", "codebook", "quantiser", "bucketize", "remainder", "mask", "count")
MODES = ([], ["--no-grad"], ["--backward"])
DTYPES = ([], ["--bf16"])
ROWS = [
    (jump, wrong, [*mode, *dtype])
    for dtype, mode, wrong, jump in itertools.product(DTYPES, MODES, ("relu", "log1p", "none"), JUMPS)
]
DAILY = 2
STEP = 61
"""Prime to the number of rows, so that neighbours in the table do not share a day."""


def chosen(day: int) -> list[tuple[str, str, list[str]]]:
    """The rows of a day; all have had their turn after so many days that every one was drawn."""
    return [ROWS[STEP * (DAILY * day + index) % len(ROWS)] for index in range(DAILY)]


TODAY = ROWS if "WHOLE_CORPUS" in os.environ else chosen(datetime.date.today().toordinal())


@pytest.mark.quality
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("jump", "wrong", "flags"), TODAY, ids=lambda value: "".join(value))
def test_what_is_wrong_behind_a_jump(jump: str, wrong: str, flags: list[str], tmp_path: Path) -> None:
    status, report = minimize(LAYER, tmp_path, "--no-diagnosis", "--", jump, wrong, *flags)

    if wrong == "none":
        assert (status, report["status"]) == (3, "healthy"), report["summary"]
        return
    assert (status, report["status"]) == (0, "minimized"), report["summary"]
    assert f"aten.{wrong}" in report["culprits"][0]["ops"]
    assert report["reduction"]["nodes_after"] <= 2
    assert report["verification"]["failed_same"] == report["verification"]["runs"]


def test_all_rows_have_their_turn() -> None:
    days = [chosen(day) for day in range(len(ROWS))]
    assert [row for row in ROWS if not any(row in day for day in days)] == []

"""Wrong operators behind jumps: each is found, and its healthy twin, in which a legal rounding turns the jump, stays quiet.

Each commit runs some of the rows (`shares`); all if WHOLE_CORPUS is set.
"""

from __future__ import annotations

import itertools
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


@pytest.mark.quality("jumps")
@pytest.mark.fault_behind("behind_jump")
@pytest.mark.needs_excuse("behind_jump")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("jump", "wrong", "flags"), ROWS, ids=lambda value: "".join(value))
def test_what_is_wrong_behind_a_jump(jump: str, wrong: str, flags: list[str], tmp_path: Path) -> None:
    status, report = minimize(LAYER, tmp_path, "--no-diagnosis", "--", jump, wrong, *flags)

    if wrong == "none":
        assert (status, report["status"]) == (3, "healthy"), report["summary"]
        return
    assert (status, report["status"]) == (0, "minimized"), report["summary"]
    assert f"aten.{wrong}" in report["culprits"][0]["ops"]
    assert report["reduction"]["nodes_after"] <= 2
    assert report["verification"]["failed_same"] == report["verification"]["runs"]

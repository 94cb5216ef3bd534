"""The CPU twins of the GPU set, through the command that runs the set on a card; each commit runs one (`shares`).

All if WHOLE_CORPUS is set, also one that takes many minutes: a hang is known only after it was waited for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from gpuset import page
from gpuset.expect import EXPECTED, KNOWN_WRONG
from gpuset.results import read
from gpuset.rows import Row, chosen, load

BY_HAND = ("kernel_never_ends",)
TWINS = [row for row in chosen(load(), "cpu", []) if row.name not in BY_HAND or "WHOLE_CORPUS" in os.environ]
SECONDS = 900


@pytest.mark.quality("gpu twins")
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("row", TWINS, ids=lambda row: row.name)
def test_a_twin_gives_what_it_must(row: Row, tmp_path: Path) -> None:
    results = tmp_path / "cpu.jsonl"
    places = ["--results", str(results), "--out", str(tmp_path / "out"), "--limit", str(SECONDS)]
    command = [sys.executable, str(ROOT / "tests" / "gpu"), "run", "--device", "cpu", "--only", row.name, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    known = row.sides["cpu"].known_wrong
    assert page.verdict(row, read(results).get(row.name)) == (KNOWN_WRONG if known else EXPECTED), known

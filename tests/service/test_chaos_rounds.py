"""Two rounds of `make chaos`, as every commit may have to stand them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT


@pytest.mark.quality("slow")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["embedded 1.12", "servers 1.13"])
def test_a_job_stands_a_round_of_chaos(name: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, str(ROOT / "benchmarks" / "chaos"), "--only", name, "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(results.read_text())
    assert row["broken"] == []
    assert [struck["step"] is not None for struck in row["struck"]] == [True] * 3

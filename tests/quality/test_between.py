"""Faults of Dynamo between graphs, in scripts that compare and print nothing, through the command line; and healthy ones.

Each commit runs some of them (`shares`); all if WHOLE_CORPUS is set.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_corpus import minimize

HERE = Path(__file__).parent / "between"
FAULTS: dict[str, tuple[str, str, int]] = {
    "prefix_cache_order": ("lost_mutation", "recent.entries", 14),
    "flag_from_environment": ("stale_guard", "what the call returns", 14),
    "grad_mode_after_a_bad_batch": ("leaked_state", "torch.is_grad_enabled()", 16),
    "penalty_set_before_backward": ("late_read", "x.grad", 24),
    "events_in_a_closure": ("lost_mutation", "rows", 20),
    "checked_prefix_cache": ("lost_mutation", "fast.entries", 17),
}
"""Mechanism and object of each, and how many lines its repro may have."""
BOTH = {
    "cache_order_then_wrong_score": ("dynamo", ["aten.relu"]),
    "wrong_score_then_cache_order": ("inductor", []),
}
"""Scripts with a fault between graphs and one in a graph: the stage of the one that is met first, and the operators of the other."""
HEALTHY = sorted(path.stem for path in HERE.glob("healthy_*.py"))

pytestmark = [pytest.mark.quality("between"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_between_graphs_gets_a_repro(name: str, tmp_path: Path) -> None:
    mechanism, what, lines = FAULTS[name]

    status, report = minimize(HERE / f"{name}.py", tmp_path, "--no-diagnosis")

    assert (status, report["status"]) == (0, "minimized"), report["summary"]
    failure = report["failure"]
    assert (failure["stage"], failure["mechanism"], failure["object"]) == ("dynamo", mechanism, what)
    assert report["verification"]["failed_same"] == report["verification"]["runs"]
    assert report["verification"]["passes_with_compiler_off"]
    assert 'backend="eager"' in (tmp_path / "repro.py").read_text()
    assert report["reduction"]["lines_after"] <= lines
    assert subprocess.run([sys.executable, "repro.py"], cwd=tmp_path, check=False).returncode == 1


@pytest.mark.parametrize("name", sorted(BOTH))
def test_both_faults_of_a_script_get_a_repro(name: str, tmp_path: Path) -> None:
    stage, others = BOTH[name]

    status, report = minimize(HERE / f"{name}.py", tmp_path, "--no-diagnosis")

    assert (status, report["status"], report["failure"]["stage"]) == (0, "minimized", stage), report["summary"]
    first, second = report["culprits"]
    assert second["ops"] == others
    assert second["what"].endswith("fails by itself too: repro-2.py")
    assert [seen["kind"] for seen in report["also_seen"]] == ["wrong_output"]
    for file in ("repro.py", "repro-2.py"):
        assert subprocess.run([sys.executable, file], cwd=tmp_path, check=False).returncode == 1
    assert first["ops"] != second["ops"]


@pytest.mark.parametrize("name", HEALTHY)
def test_no_alarm_between_graphs(name: str, tmp_path: Path) -> None:
    status, report = minimize(HERE / f"{name}.py", tmp_path)

    assert (status, report["status"]) == (3, "healthy"), report["summary"]
    assert report["failure"] is None

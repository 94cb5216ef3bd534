"""docs/backend.md, followed literally."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import follow


@pytest.mark.quality("docs")
@pytest.mark.timeout(600)
def test_the_block_for_a_test_suite_runs(tmp_path: Path) -> None:
    follow("backend.md", tmp_path, only="test_model.py")


@pytest.mark.quality("docs")
@pytest.mark.timeout(1200)
def test_the_page_leads_to_a_repro(tmp_path: Path) -> None:
    printed = follow("backend.md", tmp_path)
    (repro,) = tmp_path.glob("minimizer-out/train-*/graph-0/repro.py")
    assert f"minimizer: reduced: {repro}" in printed[0]
    assert printed[0].count("wrong_output in call 0") == 1
    assert "relu" in repro.read_text()

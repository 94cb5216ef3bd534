"""docs/api.md, followed literally."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from pages import ROOT, follow

from minimizer.api import minimize


def test_every_argument_is_described() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    parameters = inspect.signature(minimize).parameters.values()
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert f"`{parameter.name}`" in text


@pytest.mark.quality("docs")
@pytest.mark.timeout(600)
def test_the_healthy_block_runs(tmp_path: Path) -> None:
    follow("api.md", tmp_path, only="healthy.py")


@pytest.mark.quality("docs")
@pytest.mark.timeout(1200)
def test_the_page_leads_to_repros(tmp_path: Path) -> None:
    printed = follow("api.md", tmp_path)
    assert printed[0].startswith("minimized wrong_output ['aten.relu'] 3")
    assert all((tmp_path / name / "repro.py").exists() for name in ("script", "function"))

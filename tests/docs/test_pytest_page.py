"""docs/pytest.md, followed literally, and what the plugin is where nobody asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from checkout import entry_points
from pages import ROOT, follow

FAILING = """
import sys
import pytest

@pytest.fixture
def three():
    return 3

@pytest.mark.parametrize("number", [1, 2])
def test_numbers(three, number):
    assert "torch" not in sys.modules
    assert "minimizer.api" not in sys.modules
    raise KeyError(f"{three} and {number}")
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "path").mkdir(exist_ok=True)
    if not any((folder / "path").iterdir()):
        entry_points(folder / "path")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder / 'path'}"},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.quality("slow")
def test_it_is_there_and_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    assert "--minimize-budget" in run_pytest(tmp_path, "--help").stdout
    for arguments in ((), ("--minimize",)):  # nothing was compiled: nothing is reduced
        ran = run_pytest(tmp_path, "test_it.py", *arguments)
        assert "KeyError: '3 and 1'" in ran.stdout
        assert "2 failed" in ran.stdout
        assert "minimizer -" not in ran.stdout
    assert not (tmp_path / "minimizer-out").exists()


def test_a_test_as_a_script_raises_what_the_test_raises(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --maxfail=7\n")
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "from minimizer.pytest_plugin import as_script\n"
        "def pytest_runtest_teardown(item):\n"
        "    Path(item.name.strip(']').replace('[', '-') + '.py').write_text(as_script(item, []))\n"
    )
    run_pytest(tmp_path, "test_it.py")
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "test_numbers-2.py")],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 1
    assert ran.stderr.strip().endswith("KeyError: '3 and 2'")


@pytest.mark.quality("docs")
@pytest.mark.timeout(1200)
def test_the_page_leads_to_a_repro(tmp_path: Path) -> None:
    (printed,) = follow("pytest.md", tmp_path, env={"PYTEST_ADDOPTS": "--junitxml=junit.xml -p no:cacheprovider"})
    (repro,) = tmp_path.glob("minimizer-out/pytest-*/test_model.py_test_compiled_is_eager/repro.py")
    assert "MINIMIZED" in printed
    culprit = next(
        line for line in (ROOT / "docs" / "pytest.md").read_text().splitlines() if line.startswith("culprit ")
    )
    assert culprit in printed
    assert str(repro) in printed
    assert "relu" in repro.read_text()
    properties = ElementTree.parse(tmp_path / "junit.xml").iter("property")
    assert [(p.get("name"), p.get("value")) for p in properties] == [("minimizer_repro", str(repro))]

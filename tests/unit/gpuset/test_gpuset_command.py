"""``python tests/gpu run`` as a whole, with stand-ins for an interpreter, its torch and the engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gpuset.__main__ import main
from gpuset.results import read
from gpuset.rows import chosen, load
from test_gpuset_machine import CPU_BUILD, WITH_CARD

HEALTHY, WRONG = "tf32_products", "wrong_kernel_forward"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with a stand-in for torch, in which the engine finds every script healthy and notes which it was given."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "torch.py").write_text(WITH_CARD)
    file = tmp_path / "python"
    file.write_text(
        f"""#!/bin/sh
if [ "$1 $2" = "-m minimizer" ]; then
    echo "$4" >> {tmp_path}/ran
    echo '{{"reason": null, "summary": "No difference."}}' > "$6/report.json"
    exit 3
fi
PYTHONPATH={tmp_path}/modules:$PYTHONPATH exec {sys.executable} "$@"
"""
    )
    file.chmod(0o755)
    return file


def ran(python: Path) -> list[str]:
    file = python.parent / "ran"
    return [Path(line).stem for line in file.read_text().splitlines()] if file.exists() else []


def call(python: Path, *arguments: str) -> int:
    places = ["--results", str(python.parent / "results.jsonl"), "--out", str(python.parent / "out")]
    return main(["run", "--python", str(python), *places, *arguments])


def test_without_a_card_nothing_is_run_and_nothing_counts_as_passed(
    python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (python.parent / "modules" / "torch.py").write_text(CPU_BUILD)
    assert call(python) == 0
    said = capsys.readouterr().out
    for row in chosen(load(), "cuda", []):
        assert any(line.split() == [row.name, "not", "run"] for line in said.splitlines())
    assert "nothing counts as passed" in said
    assert "built for the CPU only" in said
    assert "The engine starts" in said
    assert ran(python) == []
    assert not (python.parent / "results.jsonl").exists()


def test_a_call_does_what_an_earlier_one_left(python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All rows, with an engine that finds everything healthy: wrong answers are named, and not asked for again."""
    assert call(python, "--only", HEALTHY) == 0
    assert ran(python) == [HEALTHY]
    assert "1 scripts: 1 as expected" in capsys.readouterr().out

    assert call(python) == 1
    names = [row.name for row in chosen(load(), "cuda", [])]
    assert ran(python)[0] == HEALTHY
    assert sorted(ran(python)) == sorted(names)
    said = capsys.readouterr().out
    assert f"1 of {len(names)} have their results" in said
    assert "WRONG" in next(line for line in said.splitlines() if line.startswith(WRONG))

    assert call(python) == 1
    assert len(ran(python)) == len(names)
    results = read(python.parent / "results.jsonl")
    assert {result.machine.card for result in results.values()} == {"NVIDIA H100"}

    assert call(python, "--only", HEALTHY) == 0
    assert len(ran(python)) == len(names) + 1, "what is named is run again"


def test_a_limit_that_is_too_short_leaves_the_rest_to_the_next_call(
    python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(python, "--limit", "1", "--only", HEALTHY) == 3
    assert ran(python) == []
    assert "not run yet" in capsys.readouterr().out


def test_bad_input_is_told_in_a_sentence(python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(python, "--only", "nonsense") == 2
    assert "nonsense" in capsys.readouterr().err
    assert call(python, "--python", "/nowhere/python") == 2
    assert "no interpreter /nowhere/python" in capsys.readouterr().err

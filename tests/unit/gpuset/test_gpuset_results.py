"""Results that are written as they come, and what a later call has still to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpuset.expect import Answer
from gpuset.machine import Machine
from gpuset.results import CUT, DONE, OVER, Result, append, code_of, missing, read
from gpuset.rows import Row, Side

H100 = Machine(torch="2.11.0+cu128", card="NVIDIA H100")
ROWS = [Row(name, name, {"cuda": Side(({"exit": 3},))}) for name in ("first", "second")]
RESULT = Result(
    "first", "cuda", "abc", DONE, Answer(3, ops=("aten.relu",)), "", 12.5, 900, False, H100, "2026-01-01 10:00"
)
CODES = {"first": "abc", "second": "abc"}


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "results" / "cuda.jsonl"
    assert read(file) == {}
    other = replace(RESULT, name="second", answer=None, status=OVER, gpu_mib=None)
    append(file, RESULT)
    append(file, other)
    assert read(file) == {"first": RESULT, "second": other}


def test_the_last_result_of_a_script_counts(tmp_path: Path) -> None:
    file = tmp_path / "cuda.jsonl"
    for seconds in (1.0, 2.0):
        append(file, replace(RESULT, seconds=seconds))
    assert read(file)["first"].seconds == 2.0


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path) -> None:
    file = tmp_path / "cuda.jsonl"
    append(file, RESULT)
    whole = file.read_bytes()
    file.write_bytes(whole + whole.replace(b"first", b"second")[:40])
    assert read(file) == {"first": RESULT}
    append(file, replace(RESULT, name="second"))
    assert read(file).keys() == {"first", "second"}


def test_only_what_is_missing_is_run_again() -> None:
    assert missing(ROWS, {}, CODES, H100) == ROWS
    assert missing(ROWS, {"first": RESULT}, CODES, H100) == ROWS[1:]
    assert missing(ROWS, {"first": replace(RESULT, status=OVER)}, CODES, H100) == ROWS[1:], "it had its time"


@pytest.mark.parametrize(
    ("result", "codes", "machine"),
    [
        (replace(RESULT, status=CUT), CODES, H100),
        (RESULT, {**CODES, "first": "changed"}, H100),
        (RESULT, CODES, replace(H100, card="NVIDIA H200")),
        (RESULT, CODES, replace(H100, torch="2.13.0")),
    ],
    ids=["cut", "other code", "other card", "other torch"],
)
def test_a_result_that_does_not_hold_here_is_made_anew(result: Result, codes: dict[str, str], machine: Machine) -> None:
    assert missing(ROWS, {"first": result}, codes, machine) == ROWS


def test_a_result_is_one_of_the_code_that_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuset.rows.SCRIPTS", tmp_path)
    (tmp_path / "first.py").write_text("one")
    (tmp_path / "engine").mkdir()
    engine = tmp_path / "engine" / "module.py"
    codes = []
    for script, text in (("one", "a"), ("two", "a"), ("two", "b")):
        (tmp_path / "first.py").write_text(script)
        engine.write_text(text)
        codes.append(code_of(ROWS[0], engine.parent))
    assert len(set(codes)) == 3
    assert code_of(ROWS[0], engine.parent) == codes[-1]

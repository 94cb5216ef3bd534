"""The tables of docs/gpu.md: made from the results in the repository, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpuset import page
from gpuset.expect import Answer
from gpuset.machine import Machine
from gpuset.results import CUT, OVER, Result, read
from gpuset.rows import Row, Side, load

H100 = Machine(torch="2.11.0", triton="3.6.0", card="NVIDIA H100", driver="570.86")
RELU = Row("relu", "wrong kernel", {"cuda": Side(({"exit": 0},)), "cpu": Side(({"exit": 0},))})
RACE = Row("race", "stream race", {"cuda": Side(({"exit": 3},), known_wrong="it is not seen")}, no_twin="no streams")
DONE = Result(
    "relu", "cuda", "", "done", Answer(0, kind="crash"), "Found.", 31.4, 2048, False, H100, "2026-01-02 10:00"
)


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each script's row in the first table."""
    table = text.split("### On a GPU")[1].split("###")[0]
    lines = [line[1:-1].split("|") for line in table.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[2:]] for cells in lines}


def test_the_page_says_what_the_results_in_the_repository_say() -> None:
    text = page.PAGE.read_text()
    results = {device: read(path) for device, path in page.RESULTS.items()}
    assert text == page.written(text, page.tables(load(), results)), "run make gpu-page"


def test_what_was_not_run_is_not_run_yet() -> None:
    text = page.tables([RELU, RACE], {"cuda": {}, "cpu": {}})
    assert {name: cells[0] for name, cells in rows_of(text).items()} == {"relu": "not run yet", "race": "not run yet"}
    assert "as expected" not in text
    assert "| `race` | no streams |" in text


def test_what_was_run_has_its_figures_and_its_machine() -> None:
    text = page.tables([RELU, RACE], {"cuda": {"relu": DONE}, "cpu": {}})
    assert rows_of(text)["relu"] == ["as expected", "exit 0, crash", "31", "2,048 MiB"]
    assert rows_of(text)["race"][0] == "not run yet"
    assert "2 scripts: 1 as expected, 1 not run yet." in text
    assert "Run on: NVIDIA H100, driver 570.86, torch 2.11.0, Triton 3.6.0, 2026-01-02." in text


@pytest.mark.parametrize(
    ("result", "cells"),
    [
        (replace(DONE, answer=Answer(3)), ["WRONG", "exit 3", "31", "2,048 MiB"]),
        (replace(DONE, status=OVER, answer=None), ["NO ANSWER", "over its limit", "31", "2,048 MiB"]),
        (replace(DONE, answer=None), ["NO ANSWER", "no report", "31", "2,048 MiB"]),
        (replace(DONE, status=CUT, answer=None), ["not run yet", "", "", ""]),
        (replace(DONE, gpu_mib_is_bound=True), ["as expected", "exit 0, crash", "31", "≤ 2,048 MiB"]),
        (replace(DONE, gpu_mib=None), ["as expected", "exit 0, crash", "31", ""]),
    ],
    ids=["wrong", "over", "no report", "cut", "bound", "no memory"],
)
def test_no_other_end_counts_as_right(result: Result, cells: list[str]) -> None:
    assert rows_of(page.tables([RELU], {"cuda": {"relu": result}, "cpu": {}}))["relu"] == cells


def test_an_answer_that_is_known_to_be_wrong_is_marked_and_explained() -> None:
    seen = replace(DONE, name="race", answer=Answer(0))
    text = page.tables([RACE], {"cuda": {"race": seen}, "cpu": {}})
    assert rows_of(text)["race"][0] == "wrong, as known"
    assert "`race`: expected is exit 3. it is not seen Found." in text
    assert "`race`: it is not seen" in page.tables([RACE], {"cuda": {}, "cpu": {}})
    assert "expected exit 3 (it is not seen)" in page.line(RACE, seen)


def test_an_answer_that_is_wrong_comes_with_what_was_expected() -> None:
    wrong = replace(DONE, answer=Answer(4), summary="3 runs <b>had</b> to be stopped | for want of time.")
    text = page.tables([RELU], {"cuda": {"relu": wrong}, "cpu": {}})
    assert "`relu`: expected is exit 0. 3 runs  b had /b  to be stopped   for want of time." in text
    assert "expected is" not in page.tables([RELU], {"cuda": {"relu": DONE}, "cpu": {}})


def test_only_what_is_between_the_markers_is_written() -> None:
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    once = page.written(text, "new \\1")
    assert once == f"before\n{page.BEGIN}\n\nnew \\1\n\n{page.END}\nafter\n"
    assert page.written(once, "new \\1") == once
    with pytest.raises(ValueError, match="markers"):
        page.written("nothing", "new")

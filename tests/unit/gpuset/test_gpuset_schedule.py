"""Order, limits and memory: which script is begun when, and what becomes of one that does not end.

The engine is a shell command of the test's, so that runs take no longer than it takes to start and stop them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpuset import runs, schedule
from gpuset.expect import Answer
from gpuset.machine import Machine
from gpuset.results import CUT, DONE, OVER, Result
from gpuset.rows import Row, Side
from gpuset.runs import Engine
from gpuset.schedule import Session, next_row, slots

HEALTHY = ({"exit": 3},)


def row(name: str, **side: Any) -> Row:
    return Row(name, name, {"cuda": Side(HEALTHY, **side)})


SMALL, LARGE, ALONE = row("small", memory_gib=4), row("large", memory_gib=30), row("alone", alone=True)


def test_rows_begin_in_the_order_of_the_set_as_memory_allows() -> None:
    assert next_row([LARGE, SMALL], [], "cuda", 1) is LARGE, "a card with nothing on it is not waited for"
    assert next_row([LARGE, SMALL], [(SMALL, 100)], "cuda", 40) is LARGE
    assert next_row([LARGE, SMALL], [(SMALL, 100)], "cuda", 20) is SMALL
    assert next_row([LARGE, SMALL], [(SMALL, 100)], "cuda", 3) is None
    assert next_row([], [], "cuda", 80) is None


def test_memory_is_promised_to_what_has_just_begun() -> None:
    assert next_row([LARGE], [(LARGE, 1)], "cuda", 40) is None
    assert next_row([LARGE], [(LARGE, 100)], "cuda", 40) is LARGE


def test_what_needs_the_card_for_itself_waits_and_is_left_alone() -> None:
    assert next_row([ALONE, SMALL], [], "cuda", 80) is SMALL
    assert next_row([ALONE], [(SMALL, 100)], "cuda", 80) is None
    assert next_row([ALONE], [], "cuda", 80) is ALONE
    assert next_row([SMALL], [(ALONE, 100)], "cuda", 80) is None


@pytest.mark.parametrize(
    ("cores", "device", "number"), [(16, "cuda", 5), (64, "cuda", 6), (2, "cuda", 1), (64, "cpu", 1)]
)
def test_scripts_at_once(cores: int, device: str, number: int) -> None:
    assert slots(cores, device) == number


class Lab:
    """A session whose engine runs a line of Python for each row."""

    def __init__(self, folder: Path, limit: float = 600, at_once: int = 2) -> None:
        self.results: list[Result] = []
        self.lines: dict[str, str] = {}
        self.folder = folder
        engine = Engine(Path(sys.executable), [], folder, jobs=1)
        self.session = Session(
            "cuda", engine, Machine(), at_once, limit, {}, self.results.append, self.command, free=lambda: None
        )  # fmt: skip

    def command(self, row: Row, device: str) -> list[str]:
        return [sys.executable, "-c", self.lines[row.name]]

    def run(self, *lines: tuple[Row, str]) -> list[Row]:
        self.lines = {row.name: line for row, line in lines}
        self.session.codes = dict.fromkeys(self.lines, "code")
        return self.session.run([row for row, _ in lines])

    def ends(self, name: str, status: int = 3) -> str:
        """A line that leaves a report and ends."""
        report = self.folder / name / "report.json"
        return f"import sys; open({str(report)!r}, 'w').write({json.dumps(json.dumps({'reason': None}))}); sys.exit({status})"


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., Lab]:
    return lambda **options: Lab(tmp_path, **options)


STANDS = "import signal; print('here', flush=True); signal.pause()"
DEAF = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {STANDS}"


def test_every_row_has_its_result(lab: Callable[..., Lab]) -> None:
    here = lab()
    left = here.run(*((row(name), here.ends(name)) for name in "abc"))
    assert left == []
    assert {(result.name, result.status, result.answer) for result in here.results} == {
        (name, DONE, Answer(3)) for name in "abc"
    }


def test_a_run_without_a_report_has_no_answer_and_its_last_words(lab: Callable[..., Lab]) -> None:
    here = lab()
    here.run((row("a"), "raise SystemExit('no compiler')"))
    assert [(result.status, result.answer, result.summary) for result in here.results] == [(DONE, None, "no compiler")]


@pytest.mark.parametrize("line", [STANDS, DEAF], ids=["heeds an interrupt", "has to be killed"])
def test_a_run_over_its_limit_is_stopped_and_holds_up_no_other(
    lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(runs, "GRACE", 1.0)
    here = lab(at_once=1)
    here.run((row("stands", limit=1), line), (row("next"), here.ends("next")))
    assert [(result.name, result.status) for result in here.results] == [("stands", OVER), ("next", DONE)]
    assert here.results[0].answer is None


def test_the_limit_of_all_stops_what_runs_and_begins_no_more(
    lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (runs, schedule):
        monkeypatch.setattr(module, "GRACE", 1.0)
    monkeypatch.setattr(schedule, "SHORTEST", 0.5)
    here = lab(limit=3.0, at_once=1)
    later = row("later")
    assert here.run((row("stands"), STANDS), (later, here.ends("later"))) == [later]
    assert [(result.name, result.status, result.is_final) for result in here.results] == [("stands", CUT, False)]


def test_an_interrupt_leaves_the_results_that_there_are(lab: Callable[..., Lab]) -> None:
    here = lab(at_once=2)

    def keep(result: Result) -> None:
        here.results.append(result)
        if result.name == "a":
            raise KeyboardInterrupt

    here.session.keep = keep
    with pytest.raises(KeyboardInterrupt):
        here.run((row("a"), here.ends("a")), (row("stands"), STANDS))
    assert [(result.name, result.status) for result in here.results] == [("a", DONE), ("stands", CUT)]


def test_what_is_stopped_takes_its_children_with_it(
    lab: Callable[..., Lab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE", 0.5)
    here, note = lab(), tmp_path / "pid"
    parent = f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {DEAF!r}]); open({str(note)!r}, 'w').write(str(c.pid)); {DEAF}"
    here.run((row("stands", limit=2), parent))
    deadline = time.monotonic() + 30
    while (stat := Path("/proc", note.read_text(), "stat")).exists() and time.monotonic() < deadline:
        if stat.read_text().rpartition(")")[2].split()[0] == "Z":
            break
    else:
        assert not stat.exists()

"""Since when it fails: the repro in interpreters that really differ, virtual environments each with a torch of its own."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.environment import Place
from minimizer.engine.emit import Repro, idioms
from minimizer.engine.fold import compared
from minimizer.engine.journal import Journal
from minimizer.engine.verify.other_torches import compare, compare_releases, edge
from minimizer.errors import Cancelled, MissingTool
from minimizer.report.examined import Version
from minimizer.report.model import Report
from minimizer.report.version_span import Span, span
from minimizer.sandbox import choose_sandbox
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind

REPRO = Repro(
    source="import torch\nif torch.is_wrong:\n    raise AssertionError('wrong')\n",
    lines=3,
    kind=Kind.WRONG_OUTPUT,
    evidence="AssertionError: ",
)


def interpreter(folder: Path, version: str | None, *, is_wrong: bool = False) -> Path:
    """A virtual environment whose torch says that it is this version; none for None."""
    venv.create(folder, with_pip=False)
    if version is not None:
        package = next((folder / "lib").glob("python*")) / "site-packages" / "torch"
        package.mkdir()
        (package / "__init__.py").write_text(f"__version__ = {version!r}\nis_wrong = {is_wrong}\n")
    return folder / "bin" / "python"


def test_the_repro_runs_in_every_interpreter(tmp_path: Path) -> None:
    toolchains = {
        "old": interpreter(tmp_path / "old", "2.11.0"),
        "next": interpreter(tmp_path / "next", "2.14.0.dev20261101"),
        "middle": interpreter(tmp_path / "middle", "2.12.1", is_wrong=True),
        "bare": interpreter(tmp_path / "bare", None),
        "gone": tmp_path / "gone" / "python",
        "own": Path(sys.executable),
    }
    report = Report(environment={"torch": "2.13.0+cpu"})
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), report, Clock(600))
    found = compared(compare(REPRO, None, place, toolchains, journal, jobs=2), "2.13.0+cpu")
    assert [(v.name, v.torch, v.outcome) for v in found] == [
        ("this job's", "2.13.0+cpu", "fails"),
        ("old", "2.11.0", "passes"),
        ("next", "2.14.0.dev20261101", "passes"),
        ("middle", "2.12.1", "fails"),
        ("bare", "", "cannot_run"),
        ("gone", "", "cannot_run"),
    ]
    assert found[4].note == "ModuleNotFoundError: No module named 'torch'"
    assert "is not a Python interpreter that runs" in found[5].note
    assert span(found) == Span(last_good="2.11.0", first_bad="2.12.1", fixed_in="2.14.0.dev20261101")


def test_the_end_of_the_budget_takes_nothing_back(tmp_path: Path) -> None:
    old = interpreter(tmp_path / "old", "2.11.0")
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(0))
    (other,) = compare(REPRO, None, place, {"old": old}, journal, jobs=1)
    assert other.name == "old"
    assert other.note == "there was no time left for it"  # which says nothing of that torch


def test_a_job_that_is_stopped_does_not_wait_for_other_torches(tmp_path: Path) -> None:
    class Stopped(FolderSink):
        def cancelled(self) -> bool:
            return True

    old = interpreter(tmp_path / "old", None)
    package = next((old.parents[1] / "lib").glob("python*")) / "site-packages" / "torch.py"
    package.write_text("import time\ntime.sleep(3600)\n")
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    with pytest.raises(Cancelled):
        compare(REPRO, None, place, {"old": old}, Journal(Stopped(tmp_path / "out"), Report(), Clock(600)), jobs=1)


def test_a_repro_that_fails_in_another_way_says_so(tmp_path: Path) -> None:
    """Of the failure that is looked for it says nothing, but torch runs there."""
    old = interpreter(tmp_path / "old", "2.11.0")
    (next((old.parents[1] / "lib").glob("python*")) / "site-packages" / "torch" / "__init__.py").write_text(
        "__version__ = '2.11.0'\n"
    )
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    (found,) = compare(REPRO, None, place, {"old": old}, journal, jobs=1)
    assert (found.torch, found.outcome) == ("2.11.0", "cannot_run")
    assert found.note == "fails in another way: AttributeError: module 'torch' has no attribute 'is_wrong'"


def version(torch: str, outcome: str, name: str = "") -> Version:
    return Version.model_validate({"name": name or torch, "torch": torch, "outcome": outcome})


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ([], ""),
        ([version("2.13.0", "fails")], "fails since at least 2.13.0, the oldest that could be tried"),
        ([version("2.9.0", "passes"), version("2.10.0", "fails")], "last good: 2.9.0, first bad: 2.10.0"),
        ([version("2.13.0", "fails"), version("2.12.0", "cannot_run")],
         "fails since at least 2.13.0, the oldest that could be tried"),
        ([version("2.13.0+cpu", "fails"), version("2.11.0", "fails"), version("2.14.0", "passes")],
         "fails since at least 2.11.0, the oldest that could be tried, fixed in 2.14.0"),
        ([version("2.13.0", "fails", "own"), version("2.13.0", "passes", "patched")],
         "fails since at least 2.13.0 (own), the oldest that could be tried, fixed in 2.13.0 (patched)"),
        ([version("2.13.0", "fails", "own"), version("2.13.0", "passes", "patched"), version("2.12.0", "passes")],
         "last good: 2.12.0, first bad: 2.13.0 (own), fixed in 2.13.0 (patched)"),
        ([version("2.13.0+cpu", "passes"), version("2.13.0+cu130", "fails")],
         "fails since at least 2.13.0+cu130, the oldest that could be tried, builds of 2.13.0 disagree"),
        ([version("2.13.0+cu130", "fails"), version("2.13.0+cpu", "passes"), version("2.12.0+cpu", "passes"),
          version("2.14.0+cpu", "passes")],
         "builds of 2.13.0 disagree"),
        ([version("2.13.0+cu130", "fails"), version("2.13.0+cpu", "passes"), version("2.12.0+cpu", "passes"),
          version("2.12.0+cu130", "passes"), version("2.14.0+cu130", "passes")],
         "last good: 2.12.0+cu130, first bad: 2.13.0+cu130, fixed in 2.14.0+cu130, builds of 2.13.0 disagree"),
        ([version("2.13.0+cu130", "fails"), version("2.12.0+cpu", "passes")],
         "last good: 2.12.0+cpu, first bad: 2.13.0+cu130"),
        ([version("2.13.0", "passes")], ""),
        ([version("who knows", "fails")], ""),
    ],
)  # fmt: skip
def test_what_a_table_says(versions: list[Version], said: str) -> None:
    assert str(span(versions)) == said


def test_toolchains_are_read_by_name() -> None:
    settings = Settings(toolchains="old=/opt/old/bin/python, next = /opt/next/bin/python,")
    assert settings.interpreters == {"old": Path("/opt/old/bin/python"), "next": Path("/opt/next/bin/python")}


WRONG = ("2.12.1", "2.13.0", "2.14.0")
RELEASES = ("2.11.0", "2.12.0", *WRONG, "2.14.1", "2.15.0")


@pytest.mark.parametrize(
    ("own", "fails", "lacks", "asked", "said"),
    [
        ("2.13.0", WRONG, (), 6, Span(last_good="2.12.0", first_bad="2.12.1", fixed_in="2.14.1")),
        ("2.13.0", RELEASES, (), 2, Span(since="2.11.0")),
        ("2.13.0", ("2.13.0",), (), 4, Span(last_good="2.12.1", first_bad="2.13.0", fixed_in="2.14.0")),
        ("2.15.0", RELEASES[-1:], (), 3, Span(last_good="2.14.1", first_bad="2.15.0")),
        ("2.13.0", WRONG, ("2.11.0", "2.12.1"), 6, Span(last_good="2.12.0", first_bad="2.13.0", fixed_in="2.14.1")),
    ],
)
def test_the_edges_are_found_with_few_of_the_releases(
    own: str, fails: Sequence[str], lacks: Sequence[str], asked: int, said: Span
) -> None:
    def ask(release: str) -> Version:
        outcome = "cannot_run" if release in lacks else "fails" if release in fails else "passes"
        return Version(name=f"torch {release}", torch=release, outcome=outcome)

    at = RELEASES.index(own)
    found = edge(RELEASES[:at], ask) | edge(RELEASES[:at:-1], ask)
    assert len(found) == asked
    assert span([Version(name="own", torch=own, outcome="fails"), *found.values()]) == said


class Prepared:
    """Releases of which the environments are there; one of them cannot be made."""

    named, searched = ("2.11.0", "2.10.0"), ("2.11.0", "2.12.1", "2.13.0", "2.14.0")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def interpreter(self, release: str, *, left: Callable[[], float], watch: Callable[[], None]) -> Path:
        if release == "2.10.0":
            raise MissingTool("no wheel for this Python")
        return interpreter(self._folder / release, release, is_wrong=release in WRONG[:-1])


def test_the_repro_runs_in_the_releases_that_are_asked_for_and_the_others_are_searched(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    found = compare_releases(REPRO, None, place, Prepared(tmp_path), journal, own="2.13.0+cpu")
    assert [(v.torch, v.outcome) for v in found] == [
        ("2.11.0", "passes"),
        ("2.10.0", "cannot_run"),
        ("2.12.1", "fails"),
        ("2.14.0", "passes"),
    ]
    assert found[1].note == "no wheel for this Python"


def test_what_keeps_a_repro_from_running_is_told_and_not_the_advice_behind_it(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    body = "    raise RuntimeError('no compiler\\n\\nSet TORCHDYNAMO_VERBOSE=1')\n"
    repro = replace(REPRO, source=f"import torch\ntry:\n{body}{idioms.CANNOT_RUN}")
    (seen,) = compare(repro, None, place, {"old": interpreter(tmp_path / "old", "2.11.0")}, journal, jobs=1)
    assert (seen.outcome, seen.note) == ("cannot_run", "cannot run here: no compiler")


def test_a_repro_runs_in_a_folder_without_spaces(tmp_path: Path) -> None:
    """Below one with a space Inductor's C++ compiler finds no file."""
    (tmp_path / "job").mkdir()
    place = Place(python=Path(sys.executable), sandbox=choose_sandbox("auto"), scratch=tmp_path / "job")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    repro = replace(REPRO, source="import os\nassert ' ' not in os.environ['HOME'] + os.getcwd()\n")
    (seen,) = compare(repro, None, place, {"my 2.11": interpreter(tmp_path / "old", "2.11.0")}, journal, jobs=1)
    assert seen.outcome == "passes"

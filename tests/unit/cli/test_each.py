"""The scripts of a folder: which are run, which are done, and how their faults are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer.cli.each import Row, scripts_in, status_of, table, work_off
from minimizer.cli.exit_status import Exit, exit_status
from minimizer.errors import InvalidScript
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Report, Reproducibility
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Reason, Stage, Status

Ends = Callable[[], Report]


def wrong(op: str) -> Report:
    rate = Reproducibility(failed=2, runs=2)
    return Report(
        status=Status.MINIMIZED,
        failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, message="m", signature="s", reproducibility=rate),
        culprits=[Culprit(ops=[op], module="")],
    )


def healthy() -> Report:
    return Report(status=Status.HEALTHY)


def stopped() -> Report:
    return Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED)


class Reduce:
    """An engine that ends each script as it is told, and leaves what a job leaves."""

    def __init__(self, **ends: Ends) -> None:
        self.ends = ends
        self.asked: list[str] = []

    def __call__(self, script: Path, folder: Path) -> int:
        self.asked.append(script.stem)
        if script.stem == "refused":
            raise InvalidScript("it is empty")
        report = self.ends[script.stem]()
        sink = FolderSink(folder)
        if report.status is Status.MINIMIZED:
            sink.artifact("repro.py", b"assert False\n")
        sink.report(report)
        return exit_status(report.status, report.reason)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "failing"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.py").write_text(f"import torch  # {name}\n")
    return folder


def rows_of(home: Path, reduce: Reduce, **asked: str) -> tuple[list[Row], bool]:
    return work_off(scripts_in(home), home.parent / "out", asked, reduce)


def test_scripts_are_the_python_files_that_lie_in_the_folder(home: Path) -> None:
    for name in ("_helpers.py", "__init__.py", ".hidden.py", "notes.txt"):
        (home / name).write_text("")
    (home / "package").mkdir()
    (home / "package" / "module.py").write_text("")
    assert [path.name for path in scripts_in(home)] == ["a.py", "b.py", "c.py"]


def test_a_folder_without_scripts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidScript, match="no script lies directly in this folder"):
        scripts_in(tmp_path)


def test_equal_faults_are_one_group_before_all_else(home: Path) -> None:
    rows, _ = rows_of(home, Reduce(a=healthy, b=lambda: wrong("aten.relu"), c=lambda: wrong("aten.relu")))
    first, empty, heading, b, c, _, last, a = table(rows)
    out = home.parent / "out"
    assert (first, empty) == ("3 scripts, 1 fault", "")
    assert heading.startswith("wrong_output in inductor: aten.relu  [wrong_output-")
    assert [b, c] == [f"  {name}.py  minimized  {out / name / 'repro.py'}" for name in "bc"]
    assert (last, a) == ("healthy", "  a.py")


def test_other_faults_are_other_groups(home: Path) -> None:
    rows, _ = rows_of(
        home, Reduce(a=lambda: wrong("aten.sin"), b=lambda: wrong("aten.relu"), c=lambda: wrong("aten.relu"))
    )
    lines = list(table(rows))
    assert lines[0] == "3 scripts, 2 faults"
    assert ["aten.relu" in lines[2], "aten.sin" in lines[6]] == [True, True], "what most scripts have comes first"


def test_a_second_call_goes_on_with_what_is_not_done(home: Path) -> None:
    first = Reduce(a=healthy, b=stopped, c=healthy)
    rows, all_done = rows_of(home, first)
    assert (first.asked, all_done, status_of(rows, all_done=all_done)) == (["a", "b"], False, Exit.CANCELLED)
    second = Reduce(a=healthy, b=lambda: wrong("aten.relu"), c=healthy)
    rows, all_done = rows_of(home, second)
    assert (second.asked, all_done) == (["b", "c"], True)
    assert [row.script.stem for row in rows] == ["a", "b", "c"], "what was done before is in the table"
    third = Reduce()
    rows_of(home, third)
    assert not third.asked


def test_a_script_that_was_changed_or_is_asked_otherwise_is_not_done(home: Path) -> None:
    ends: dict[str, Ends] = {"a": healthy, "b": healthy, "c": healthy}
    rows_of(home, Reduce(**ends), budget="300")
    (home / "b.py").write_text("import torch  # another\n")
    again = Reduce(**ends)
    rows_of(home, again, budget="300")
    assert again.asked == ["b"]
    rows_of(home, other := Reduce(**ends), budget="600")
    assert other.asked == ["a", "b", "c"]


def test_results_that_were_interrupted_are_not_taken_for_those_of_before(home: Path) -> None:
    """A script that was changed, and whose new job was killed, has the report of the old one still."""
    ends: dict[str, Ends] = {"a": healthy, "b": healthy, "c": healthy}
    rows_of(home, Reduce(**ends))
    old = (home / "a.py").read_text()
    (home / "a.py").write_text("import torch  # changed\n")

    def killed() -> Report:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows_of(home, Reduce(**{**ends, "a": killed}))
    (home / "a.py").write_text(old)
    rows_of(home, again := Reduce(**ends))
    assert again.asked == ["a"]


@pytest.mark.parametrize("reason", [Reason.WORKER_TROUBLE, Reason.INTERNAL_ERROR])
def test_an_end_that_is_no_answer_is_asked_again(home: Path, reason: Reason) -> None:
    bad = lambda: Report(status=Status.FAILED, reason=reason)  # noqa: E731
    rows_of(home, Reduce(a=bad, b=healthy, c=healthy))
    rows_of(home, again := Reduce(a=healthy))
    assert again.asked == ["a"]


def test_a_script_that_is_refused_stops_no_other(home: Path) -> None:
    (home / "refused.py").write_text("")
    rows, all_done = rows_of(home, Reduce(a=healthy, b=healthy, c=healthy))
    assert all_done and rows[-1].refused == "it is empty"
    assert list(table(rows))[-2:] == ["refused", "  refused.py  it is empty"]
    assert status_of(rows, all_done=True) == Exit.USAGE


EAGER = Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER)
PARTIAL = Report(status=Status.PARTIAL, reason=Reason.UNEXPLAINED)
OURS = Report(status=Status.FAILED, reason=Reason.INTERNAL_ERROR)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([healthy(), healthy(), healthy()], Exit.HEALTHY),
        ([healthy(), EAGER, healthy()], Exit.FAILED),
        ([healthy(), EAGER, PARTIAL], Exit.PARTIAL),
        ([wrong("aten.relu"), EAGER, PARTIAL], Exit.MINIMIZED),
        ([wrong("aten.relu"), OURS, PARTIAL], Exit.INTERNAL),
    ],
)
def test_the_exit_status_is_that_of_what_weighs_most(home: Path, ends: list[Report], status: int) -> None:
    told: dict[str, Ends] = {name: (lambda end=end: end) for name, end in zip("abc", ends, strict=True)}  # type: ignore[misc]
    rows, all_done = rows_of(home, Reduce(**told))
    assert status_of(rows, all_done=all_done) == status

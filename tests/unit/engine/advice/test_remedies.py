"""What a run with a remedy tells: lower or not, and the same results or others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.advice.edits import Edit
from minimizer.engine.advice.printed import difference
from minimizer.engine.advice.remedies import (
    ENDS_OTHERWISE,
    GIVEN_UP,
    NOTHING_COMPILED,
    SILENT,
    VARIES,
    VARIES_IN_PART,
    Trial,
)
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.engine.child.protocol import Checked, Compilation, Finished, Health
from minimizer.engine.journal import Journal
from minimizer.report.finding import Remedy
from minimizer.report.model import Report
from minimizer.sink import FolderSink


def ran(recompiles: int, output: str, graphs: int = 1) -> Finished:
    health = Health(recompiled=[Recompile(guard=f"0/{n}: n == {n}") for n in range(recompiles)])
    return Finished(checked=Checked(graphs=graphs), health=health, output=output)


CHANGE = Edit("A change", "new", "recompiles")
RISKY = replace(CHANGE, computes_otherwise=True)


def remedied(
    tmp_path: Path, after: Finished | None, again: str = "loss 1.0\n", before: str = "loss 1.0\n", edit: Edit = CHANGE
) -> Remedy:
    """What comes of a remedy for a script with eight recompiles."""
    journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
    runs = {"new": after, None: ran(8, again)}
    trial = Trial(ran(8, before), lambda text=None, *, cold=False: runs[text], "old", "a.py", journal)
    return trial.remedy(edit)


def compiled_in(seconds: float, rest: float, output: str = "loss 1.0\n") -> Finished:
    """A run that compiled for so long, and did other things for the rest."""
    one = Compilation(place=StackLine(file="a.py", line=1), is_first=True, seconds=seconds)
    health = Health(compilations=[one], seconds=seconds + rest)
    return Finished(checked=Checked(graphs=1), health=health, output=output)


@pytest.mark.parametrize(
    ("after", "helped"),
    [
        (compiled_in(10, 3), True),
        (compiled_in(38, 3), False),
        (compiled_in(10, 9), False),
        (compiled_in(10, 3, "loss 2.0\n"), False),
    ],
    ids=["helps", "as long", "slower steps", "another result"],
)
def test_compile_time_is_compared_on_empty_caches_and_with_the_rest(
    tmp_path: Path, after: Finished, helped: bool
) -> None:
    caches: list[bool] = []

    def run(text: str | None = None, *, cold: bool = False) -> Finished:
        caches.append(cold)
        return after if text else compiled_in(40, 2)

    journal = Journal(FolderSink(tmp_path), Report(), Clock(600))
    trial = Trial(compiled_in(1, 2), run, "old", "a.py", journal)
    edit = Edit("Blocks", "new", "s of compiling")

    remedy = trial.remedy(edit)

    assert (remedy.before, remedy.helped, caches) == (40.0, helped, [True, True])
    assert trial.remedy(edit) == remedy and len(caches) == 3, "the run without a change is asked once"
    if helped:
        assert remedy.words == (
            "40.0 s of compiling before, 10 with it. Without compiling, the script takes 2.0 s before and 3.0 s with it."
        )


def test_a_remedy_helps_where_there_is_less_and_the_same_is_printed(tmp_path: Path) -> None:
    remedy = remedied(tmp_path, ran(0, "loss 1.0001\n"))
    assert (remedy.before, remedy.after, remedy.helped) == (8.0, 0.0, True)
    assert "-old" in remedy.diff and "+new" in remedy.diff


def test_a_remedy_that_changes_what_is_printed_does_not_help_and_says_so(tmp_path: Path) -> None:
    remedy = remedied(tmp_path, ran(0, "loss 1.5\n"))
    assert not remedy.helped and "prints “loss 1.5” where it printed “loss 1.0”" in remedy.note


@pytest.mark.parametrize(
    ("after", "note"), [(None, ENDS_OTHERWISE), (ran(0, "loss 1.0\n", graphs=0), NOTHING_COMPILED)]
)
def test_a_remedy_with_which_nothing_is_told_does_not_help(tmp_path: Path, after: Finished | None, note: str) -> None:
    remedy = remedied(tmp_path, after)
    assert (remedy.after, remedy.helped, remedy.note) == (None, False, note)


@pytest.mark.parametrize(("after", "is_told"), [(8, True), (3, False)])
def test_what_a_remedy_shows_that_lowers_nothing_is_told(tmp_path: Path, after: int, is_told: bool) -> None:
    edit = replace(CHANGE, if_useless="The size is a number somewhere.")
    assert ("number somewhere" in remedied(tmp_path, ran(after, "loss 1.0\n"), edit=edit).note) is is_told


def test_a_script_that_prints_nothing_is_told_to_be_uncompared(tmp_path: Path) -> None:
    remedy = remedied(tmp_path, ran(0, ""), before="")
    assert remedy.helped and remedy.note == SILENT


@pytest.mark.parametrize(("again", "before"), [("", ""), ("loss 2.0\n", "loss 1.0\n")])
def test_what_may_compute_otherwise_is_no_help_where_nothing_was_compared(
    tmp_path: Path, again: str, before: str
) -> None:
    after = ran(0, "loss 3.0\n" if before else "")
    assert not remedied(tmp_path, after, again, before, RISKY).helped
    assert remedied(tmp_path, ran(0, "loss 1.0\n"), edit=RISKY).helped


def test_another_order_is_the_same_only_for_what_moves_prints(tmp_path: Path) -> None:
    before, after = "True\nFalse\n", ran(0, "False\nTrue\n")
    assert not remedied(tmp_path, after, before=before, edit=CHANGE).helped
    assert remedied(tmp_path, after, before=before, edit=replace(CHANGE, reorders=True)).helped


def test_a_function_that_is_left_to_eager_is_no_gain(tmp_path: Path) -> None:
    whole = Finished(
        checked=Checked(graphs=1), health=Health(broken=[Break(reason="given up", is_whole=True)]), output="loss 1.0\n"
    )
    remedy = remedied(tmp_path, whole)
    assert not remedy.helped and remedy.note == GIVEN_UP


def test_a_choice_is_told_with_what_it_costs_and_helps_by_itself_in_nothing(tmp_path: Path) -> None:
    remedy = remedied(tmp_path, ran(0, "loss 1.0\n"), edit=replace(CHANGE, but="It costs."))
    assert (remedy.after, remedy.helped, remedy.note) == (0.0, False, "It costs.")


def test_no_less_is_no_help(tmp_path: Path) -> None:
    assert not remedied(tmp_path, ran(8, "loss 1.0\n")).helped


@pytest.mark.parametrize(
    ("again", "note"),
    [("loss 2.0\nend\n", VARIES_IN_PART), ("loss 2.0\nmore\nend\n", VARIES), ("loss 2.0\nstop\n", VARIES)],
)
def test_what_varies_by_itself_is_not_held_against_a_remedy(tmp_path: Path, again: str, note: str) -> None:
    remedy = remedied(tmp_path, ran(0, "loss 3.0\nend\n"), again, "loss 1.0\nend\n")
    assert remedy.helped and remedy.note == note


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("a 1.0\n", "a 1.00002\n", False),
        ("a 1.0\n", "a 1.01\n", True),
        ("a 1.0\n", "b 1.0\n", True),
        ("a nan\n", "a nan\n", False),
        ("a\nb\n", "a\n", True),
        ("v2 3\n", "v3 3\n", True),
        ("#\n", "0.5\n", True),
        ("1" * 50_000 + "a\n", "1" * 50_000 + "b\n", True),
    ],
)
def test_numbers_agree_within_rounding_and_words_to_the_letter(before: str, after: str, differs: bool) -> None:
    assert bool(difference(before, after)) is differs

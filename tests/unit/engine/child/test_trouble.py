"""Whose fault an end is: the first rule of the table that holds, and each rule once where nothing before it does."""

from __future__ import annotations

import pytest

from minimizer.engine.child.connection import refusal
from minimizer.engine.child.trouble import (
    BROKEN,
    BUS_ERROR,
    BY_ITSELF,
    CONTEXT_LOST,
    DIED,
    ENDED_BY_US,
    GPU_IS_FULL,
    KILLED,
    LATE,
    LATE_IN_A_CROWD,
    MACHINE_IS_BROKEN,
    OUT_OF_MEMORY,
    OWN_CODE,
    OWN_CODE_RAISED,
    RULES,
    SILENT,
    UNTOLD,
    Again,
    AtFault,
    Death,
    EndRule,
    is_starved_compiler,
    rule_for,
    signal_of,
)
from minimizer.errors import WorkerTrouble

FULL = "CUDA out of memory. Tried to allocate 2 GiB"
TRUNCATED = "ImportError: /tmp/c.so: file too short"
ENDS = [
    (Death(gpu=OUT_OF_MEMORY), GPU_IS_FULL),
    (Death.by_status(1, FULL), GPU_IS_FULL),
    (Death.by_status(None, FULL), GPU_IS_FULL),
    (Death(9, is_by_us=True), ENDED_BY_US),
    (Death.by_status(None), ENDED_BY_US),
    (Death(9), KILLED),
    (Death.by_status(-9), KILLED),
    (Death.by_status(DIED + 9), KILLED),
    (Death(9, said="Cannot allocate memory"), KILLED),
    (Death(said=TRUNCATED), MACHINE_IS_BROKEN),
    (Death(7, said=TRUNCATED), MACHINE_IS_BROKEN),
    (Death.by_status(1, "MemoryError", is_run=True), MACHINE_IS_BROKEN),
    (Death.by_status(1, "MemoryError"), BY_ITSELF),
    (Death(7), BUS_ERROR),
    (Death(is_late=True, is_crowded=True), LATE_IN_A_CROWD),
    (Death(is_late=True), LATE),
    (Death(is_silent=True), SILENT),
    (Death(is_untold=True), UNTOLD),
    (Death(9, is_untold=True), KILLED),
    (Death(status=OWN_CODE), OWN_CODE_RAISED),
    (Death(11), BY_ITSELF),
    (Death(6, said="Aborted"), BY_ITSELF),
    (Death(status=1, said="RuntimeError: shapes"), BY_ITSELF),
    (Death(gpu=CONTEXT_LOST), BY_ITSELF),
    (Death(is_crowded=True), BY_ITSELF),
]  # fmt: skip


@pytest.mark.parametrize(("death", "rule"), ENDS)
def test_the_first_rule_that_holds_counts(death: Death, rule: EndRule) -> None:
    assert rule_for(death) is rule


def test_each_rule_is_reached() -> None:
    assert {rule.name for _, rule in ENDS} == {rule.name for rule in RULES}


def test_only_what_the_machine_may_have_done_is_asked_again() -> None:
    """A signal that truncated libraries raise is the one exception: on a clean cache it is the program's own."""
    assert {rule for rule in RULES if rule.again is not Again.NOT and rule.fault is not AtFault.MACHINE} == {BUS_ERROR}


@pytest.mark.parametrize(("status", "died_by"), [(None, None), (0, None), (1, None), (128, None), (-11, 11), (139, 11)])
def test_a_signal_is_read_from_a_status(status: int | None, died_by: int | None) -> None:
    assert signal_of(status) == died_by


@pytest.mark.parametrize(
    ("said", "is_starved"),
    [
        ("InductorError: CppCompileError: cc1plus: out of memory allocating 1 bytes", True),
        ("RuntimeError: std::bad_alloc", False),
        ("InductorError: CppCompileError: expected ';'", False),
    ],
)
def test_a_compiler_without_memory_is_no_compile_error(said: str, *, is_starved: bool) -> None:
    assert is_starved_compiler(said) is is_starved


def test_a_compiler_without_memory_is_a_broken_machine_too() -> None:
    assert BROKEN.search("g++: fatal error: Killed signal terminated program cc1plus")


@pytest.mark.parametrize("death", [death for death, _ in ENDS])
def test_who_gives_no_answer_is_the_machines_trouble_by_the_table_alone(death: Death) -> None:
    """A holder that is late, a run whose end nobody tells, a zygote that is gone: one question, asked at one place."""
    error = refusal("the holder", death, "has not answered")
    assert isinstance(error, WorkerTrouble) == (rule_for(death).fault is AtFault.MACHINE)
    assert str(error) == "the holder has not answered"


@pytest.mark.parametrize(
    ("death", "said"),
    [
        (Death(9), "was killed, for want of memory most often"),
        (Death(is_untold=True), "was gone, and had not ended within"),
        (Death(11), "is gone"),
        (Death.by_status(None), "is gone"),
    ],
)
def test_what_is_gone_says_how(death: Death, said: str) -> None:
    assert str(refusal("the child", death)).startswith(f"the child {said}")

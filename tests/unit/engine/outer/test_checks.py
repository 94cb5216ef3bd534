"""Which events of a program a failing check of the script's own reads."""

from __future__ import annotations

from typing import Any

import pytest
from sample_trace import event, traced

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.outer.checks import lines_of_check, read_by_check
from minimizer.engine.outer.program import OuterProgram, parse

SCRIPT = """import torch
first = f(w)
second = g(w)
print(first.sum().item())
assert torch.allclose(
    second,
    w,
), "no"
if (second - w).abs().max() > 1:
    raise ValueError("no")
assert best < 3
"""
FIRST, SECOND, _, FOURTH = range(4)
"""Events."""
STORAGES = {"w": 1, "first": 2, "second": 3, "total": 4, "rest": 5}


def at(line: int) -> tuple[str, int, str]:
    return "train.py", line, SCRIPT.splitlines()[line - 1].strip()


EVENTS = [
    {**event("first = graph_0(w, w)", "graph", "first"), "source": at(2)},
    {**event("second = graph_0(w, w)", "graph", "second"), "source": at(3)},
    {**event("total = first.sum()", makes="total"), "source": at(4)},
]
LOOKS = [
    {"after": 3, "values": ["total"], "source": at(4)},
    {"after": 3, "values": ["second", "w"], "source": at(5)},
]


def program(*events: dict[str, Any], looks: list[dict[str, Any]] = LOOKS) -> OuterProgram:
    return parse(traced(events=[*EVENTS, *events], storages=STORAGES, looks=looks))


def failed(line: int) -> ExceptionInfo:
    code = at(line)[2]
    error = {"type": "AssertionError", "message": "no", "root_type": "AssertionError", "root_message": "no"}
    return ExceptionInfo(**error, frames=[("train.py", "<module>", code)], source=at(line))


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(5, {5, 6, 7, 8}, id="a statement of several lines"),
        pytest.param(10, {9, 10}, id="a raise under a condition"),
        pytest.param(11, {11}, id="one line"),
    ],
)
def test_a_check_reads_on_its_lines_and_on_those_of_conditions(line: int, lines: set[int]) -> None:
    assert {number for _, number in lines_of_check(SCRIPT, "train.py", failed(line))} == lines


def test_a_check_reads_what_its_values_come_from() -> None:
    found = read_by_check(program(), SCRIPT, "train.py", failed(5))

    assert SECOND in found and FIRST not in found


def test_a_check_of_a_number_may_read_all_that_the_script_reads() -> None:
    found = read_by_check(program(), SCRIPT, "train.py", failed(11))

    assert {FIRST, SECOND} <= found


def test_events_of_its_own_lines_are_read() -> None:
    rest = {**event("rest = second - w", makes="rest"), "source": at(9)}

    assert read_by_check(program(rest), SCRIPT, "train.py", failed(10)) == {SECOND, FOURTH}


def test_what_was_changed_in_place_counts() -> None:
    """The value that is read was made by the second call, and changed since by what comes from the first."""
    added = {**event("second.add_(first)", writes=["second"]), "source": at(3)}
    looks = [{"after": 4, "values": ["second"], "source": at(5)}]

    assert {FIRST, SECOND} <= read_by_check(program(added, looks=looks), SCRIPT, "train.py", failed(5))


def test_nothing_is_known_of_a_script_that_reads_nothing() -> None:
    silent = program(looks=[])

    assert read_by_check(silent, SCRIPT, "other.py", failed(5)) == frozenset()

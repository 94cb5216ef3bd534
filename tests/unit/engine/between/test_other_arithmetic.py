"""Other arithmetic explains a difference only where redrawn roundings move the very same elements as far."""

from __future__ import annotations

import array
import base64
from typing import Any

import pytest
from test_difference import log, number

from minimizer.engine.between.difference import first_difference
from minimizer.engine.between.other_arithmetic import is_shown
from minimizer.engine.child.exact_log import ExactLog

EPS = 2.0**-23


def holding(*values: float, **state: Any) -> ExactLog:
    """A run that sees a tensor with these elements, which are kept."""
    entry = {"type": "Tensor", "dtype": "torch.float32", "values": f"#{values}", "whole": "0"}
    text = base64.b64encode(array.array("d", values).tobytes()).decode()
    return log({"x": entry, **state}).model_copy(update={"whole": [text]})


def shown(eager: ExactLog, compiled: ExactLog, *redrawn: ExactLog) -> bool:
    difference = first_difference(eager, compiled)
    assert difference is not None
    return is_shown(difference, eager, compiled, redrawn)


@pytest.mark.parametrize(
    ("compiled", "redrawn", "expected"),
    [
        ((1.0 + EPS, 2.0), [(1.0 - EPS, 2.0), (1.0 + EPS, 2.0)], True),
        ((1.0, 2.0 + EPS), [(1.0 - EPS, 2.0 + EPS)], False),
        ((1.001, 2.0), [(1.001 + EPS, 2.0)], False),
        ((float("nan"), 2.0), [(float("nan"), 2.0)], False),
        ((1.0 + EPS, 2.0), [(1.0 + EPS, 2.0)], False),
    ],
    ids=["moved as far", "another element moves", "a wrong constant", "not a number", "nothing moves"],
)
def test_each_element_has_to_move(
    compiled: tuple[float, ...], redrawn: list[tuple[float, ...]], *, expected: bool
) -> None:
    assert shown(holding(1.0, 2.0), holding(*compiled), *(holding(*values) for values in redrawn)) is expected


def test_a_counter_beside_it_is_not_explained() -> None:
    runs = [holding(1.0 + i * EPS, n=i > 0) for i in range(3)]
    assert not shown(*runs)


def test_python_floats_are_numbers_too() -> None:
    runs = [log({"loss": number(1.0 + i * EPS)}) for i in range(3)]
    assert shown(*runs)
    assert not shown(log({"loss": 1.0}), log({"loss": 1.5}), log({"loss": 1.5}))


def test_elements_that_were_not_kept_explain_nothing() -> None:
    runs = [holding(1.0 + i * EPS).model_copy(update={"whole": []}) for i in range(3)]
    assert not shown(*runs)

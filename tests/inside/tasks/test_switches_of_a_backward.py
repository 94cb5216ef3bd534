"""The switches of a backward are those when its cotangent arrives, on both sides, and in the program that is reduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from children import script, survey
from surveyed import finished, held

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.sent_program import parse_program

SCALED = """
import torch

gate = torch.nn.Linear(4, 1)

@torch.compile
def f(x):
    with torch.autocast("cpu", enabled=False):
        return gate(x)

with torch.autocast("cpu", dtype=torch.float16):
    y = f(torch.ones(4, 4))
"""
OUTSIDE = "(y * 16384).sum().backward()\n"
INSIDE = "    (y * 16384).sum().backward()\n"


def test_a_backward_outside_of_autocast_is_replayed_outside_of_it(child: Executor, home: Path) -> None:
    found = held(survey(child, script(home, SCALED + OUTSIDE)))
    program: Any = parse_program(found.program)

    assert (found.failure.kind, found.failure.phase) == ("wrong_gradient", "backward")
    assert found.failure.verdict is not None and found.failure.verdict.differences[0].what == "inf"
    assert program.around == ('torch.autocast("cpu", dtype=torch.float16)',)
    assert not any("autocast" in line for line in program.setup)


def test_a_backward_inside_of_autocast_overflows_in_eager_too(child: Executor, home: Path) -> None:
    answer = finished(survey(child, script(home, SCALED + INSIDE)))

    assert answer.exception is None
    assert answer.checked.backward == 1


def test_the_weighted_graph_has_the_cotangents_of_the_script(child: Executor, home: Path) -> None:
    found = survey(child, script(home, SCALED + OUTSIDE))
    assert found.held is not None
    try:
        program = found.program("weighted")
        file = found.golden(frozenset(["weight_0"]))
        weights = torch.load(file, weights_only=True)
    finally:
        found.close()

    assert program.nodes[-1].target == "torch.mul"
    assert program.outputs == (program.nodes[-1].name,)
    assert torch.equal(weights["weight_0"], torch.full((4, 1), 16384.0))

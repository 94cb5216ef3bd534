"""How a graph is cut into the rows of the table of layers, and what a row's verdict is."""

from __future__ import annotations

import pytest

from minimizer.layers import MOST_LAYERS, Row, modules
from minimizer.localize import Region
from minimizer.program import Node, Ref
from minimizer.protocol import Outcome


def nodes(*paths: str) -> list[Node]:
    return [Node(f"v{i}", "torch.relu", (Ref("x"),), module=path) for i, path in enumerate(paths)]


def test_every_run_of_a_module_is_a_row() -> None:
    rows = modules(nodes("blocks.0.norm", "blocks.0.norm", "blocks.0", "blocks.0.up", "blocks.0", "head"))
    assert [(row.start, row.stop, row.path) for row in rows] == [
        (0, 2, "blocks.0.norm"), (2, 3, "blocks.0"), (3, 4, "blocks.0.up"), (4, 5, "blocks.0"), (5, 6, "head"),
    ]  # fmt: skip


def test_too_many_modules_are_taken_together_by_what_they_are_in() -> None:
    paths = [f"blocks.{block}.part.{part}" for block in range(MOST_LAYERS // 2) for part in range(3)]
    rows = modules(nodes(*paths))
    assert [row.path for row in rows] == [f"blocks.{block}.part" for block in range(MOST_LAYERS // 2)]
    flat = modules(nodes(*(f"m{index}" for index in range(MOST_LAYERS + 1))))
    assert [(row.start, row.stop) for row in flat] == [(0, MOST_LAYERS + 1)]


SAME, WRONG = Outcome(outcome="same"), Outcome(outcome="different", verdict={"fault": True, "kind": "wrong_output"})  # type: ignore[arg-type]
LOST, DIED = Outcome(outcome="nondeterministic"), Outcome(outcome="crash", signal=11, phase="compiled")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"local": SAME, "whole": SAME}, "good"),
        ({"local": SAME, "whole": WRONG}, "propagated"),
        ({"local": SAME}, "good"),
        ({"local": WRONG, "whole": SAME}, "bad"),
        ({"local": DIED}, "bad"),
        ({"local": LOST, "whole": SAME}, "unknown"),
        ({"whole": WRONG}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_verdict_of_a_row(found: dict[str, Outcome], verdict: str) -> None:
    assert Row(Region(0, 1), found).verdict() == verdict


@pytest.mark.parametrize(
    ("forward", "backward", "fails"),
    [(SAME, WRONG, True), (SAME, SAME, False), (WRONG, WRONG, False), (SAME, LOST, False)],
)
def test_a_backward_that_is_wrong_behind_a_right_forward(forward: Outcome, backward: Outcome, fails: bool) -> None:
    row = Row(Region(0, 1), {"local": forward, "whole": WRONG, "local backward": backward})
    assert row.fails_only_backward == fails

"""Rows of the table of layers: their names, which one is the culprit's, and which of several a row is."""

from __future__ import annotations

import pytest

from minimizer.report.culprit import Culprit, Layer, LayerVerdict
from minimizer.report.layer_rows import layer_rows


def layers(*rows: tuple[str, LayerVerdict], phase: str = "forward") -> list[Layer]:
    return [
        Layer.model_validate({"path": path, "class": "ReLU", "order": order, "verdict": verdict, "phase": phase})
        for order, (path, verdict) in enumerate(rows)
    ]


def test_a_path_that_ends_with_a_number_has_its_class() -> None:
    rows = layer_rows(layers(("net.1", "bad"), ("net.act", "good"), ("", "good")))
    assert [row.name for row in rows] == ["net.1 (ReLU)", "net.act", ""]
    assert rows[2].words == "outside of modules"


@pytest.mark.parametrize(
    ("paths", "parts"),
    [
        (["blocks.0", "blocks.0.up", "blocks.0"], ["piece 1 of 2", "", "piece 2 of 2"]),
        (["up", "act", "down", "act"], ["", "call 1 of 2", "", "call 2 of 2"]),
        (["", "up", ""], ["", "", ""]),
    ],
    ids=["its own code around a module in it", "called twice", "outside of modules"],
)
def test_rows_of_the_same_module_are_told_apart(paths: list[str], parts: list[str]) -> None:
    assert [row.part for row in layer_rows(layers(*((path, "good") for path in paths)))] == parts


def test_a_module_that_has_a_backward_too_is_not_called_twice() -> None:
    both = [*layers(("act", "good")), *layers(("act", "good"), phase="backward")]
    assert [row.part for row in layer_rows(both)] == ["", ""]


def test_the_rows_of_the_culprit_are_the_wrong_ones_of_the_innermost_module_around_it() -> None:
    culprit = Culprit(module="blocks.1.mlp.act")
    rows = layers(("blocks.1", "bad"), ("blocks.1.mlp", "good"), ("blocks.1.mlp", "bad"), ("blocks.10.mlp", "bad"))
    assert [row.is_culprit for row in layer_rows(rows, [culprit])] == [False, False, True, False]
    right = layers(("blocks.1", "bad"), ("blocks.1.mlp", "good"))
    assert [row.is_culprit for row in layer_rows(right, [culprit])] == [False, True]
    assert not any(row.is_culprit for row in layer_rows(rows, [Culprit()]))

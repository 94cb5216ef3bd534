"""The pictures: what is drawn, what is said of it for who cannot see it, and that no name becomes markup."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from minimizer.report.culprit import GraphNode, Layer, NonFinite
from minimizer.report.drift import Drift
from minimizer.report.layer_rows import layer_rows
from web.job_page.charts import Point, culprit_graph, layer_errors, loss_curves, trials_curve
from web.job_page.diagnosis import drawn

EVIL = '"><script>alert(1)</script>&'


def layer(path: str, order: int, own: float | None, whole: float | None, verdict: str = "good") -> Layer:
    return Layer.model_validate(
        {"path": path, "order": order, "local_error": own, "propagated_error": whole, "verdict": verdict}
    )


def drawn_layers(layers: Sequence[Layer], title: str) -> Markup | None:
    return layer_errors(layer_rows(layers), title)


def parts(picture: str | None, kind: str) -> list[ElementTree.Element]:
    assert picture is not None
    return [e for e in ElementTree.fromstring(str(picture)).iter() if kind in (e.get("class") or "").split()]


def test_the_first_offender_is_marked_and_named() -> None:
    rows = [
        layer("embed", 0, 0.0, 0.0),
        layer("blocks.0", 1, 1e-7, 1e-7),
        layer("blocks.1", 2, 1.0, 1.0, "bad"),
        layer("head", 3, 0.0, 2.0, "propagated"),
        layer("tail", 4, 0.5, 2.0, "bad"),
    ]
    picture = drawn_layers(rows, "Error of every layer")
    assert picture is not None
    assert "first wrong: blocks.1" in picture
    assert (
        "The first that is wrong by itself is blocks.1, with an error of 1; 1 more is. 1 passes wrong values on."
        in picture
    )
    assert len(parts(picture, "root")) == len(parts(picture, "bad")) == 2
    assert len(parts(picture, "own")) == 3


def test_blocks_are_told_apart_below_what_all_paths_begin_with() -> None:
    rows = [layer(f"model.layers.{n}.{part}", 2 * n, 1e-7, 1e-7) for n in range(3) for part in ("norm", "mlp")]
    picture = drawn_layers(rows, "t")
    assert len(parts(picture, "block")) == 5  # between each two of six
    deep = [layer(f"model.layers.{n}.{part}", n, 1e-7, 1e-7) for n in range(9) for part in ("norm", "mlp")]
    names = [tick.text for tick in parts(drawn_layers(deep, "t"), "tick") if (tick.text or "").startswith("model")]
    assert len(parts(drawn_layers(deep, "t"), "block")) == 8
    assert not names or names[0] == "model.layers.0"


def test_a_number_for_a_name_has_its_class_in_the_picture() -> None:
    rows = [
        Layer.model_validate({**layer(str(n), n, 1.0, 1.0, "bad").model_dump(by_alias=True), "class": "ReLU"})
        for n in range(2)
    ]
    picture = drawn_layers(rows, "t")
    assert picture is not None and "first wrong: 0 (ReLU)" in picture
    assert [tick.text for tick in parts(picture, "tick") if "(" in (tick.text or "")] == ["0 (ReLU)", "1 (ReLU)"]


def test_a_picture_that_is_drawn_again_is_the_same() -> None:
    """A page leaves alone what has not changed: an open list, a selection, where one has scrolled to."""
    layers = [layer("a", 0, 1e-7, 1e-7), layer("b", 1, 0.5, 0.5, "bad")]
    other = [layers[0], layer("b", 1, 0.25, 0.5, "bad")]
    assert drawn_layers(layers, "Errors") == drawn_layers(layers, "Errors") != drawn_layers(other, "Errors")


def test_the_scale_is_logarithmic_and_zero_stands_below_it() -> None:
    rows = [layer(str(i), i, error, None) for i, error in enumerate((0.0, 1e-8, 1e-4, 1.0))]
    heights = [float(point.get("cy") or "nan") for point in parts(drawn_layers(rows, "t"), "own")]
    exact, least, middle, most = heights
    assert exact > least > middle > most
    assert math.isclose(least - middle, middle - most, abs_tol=0.2)


@pytest.mark.parametrize("errors", [(5e-324, 1.0, 1.5e308), (1e308, 1.2e308, 1.5e308)])
def test_the_smallest_and_largest_floats_have_a_place(errors: tuple[float, ...]) -> None:
    rows = [layer(str(i), i, error, None) for i, error in enumerate(errors)]
    least, middle, most = (float(point.get("cy") or "nan") for point in parts(drawn_layers(rows, "t"), "own"))
    assert least > middle > most


def test_a_picture_that_cannot_be_drawn_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert drawn(lambda: Markup(1 // 0)) is None
    assert "ZeroDivisionError" in caplog.text


def test_what_is_unknown_is_not_drawn() -> None:
    assert drawn_layers([layer("a", 0, None, None)], "t") is None
    assert drawn_layers([], "t") is None
    picture = drawn_layers([layer("a", 0, None, 1.0), layer("b", 1, None, None), layer("c", 2, None, 1.0)], "t")
    assert not parts(picture, "own")
    (line,) = parts(picture, "whole")
    assert re.findall("[ML]", line.get("d") or "") == ["M", "M"]


def test_the_first_nan_is_drawn() -> None:
    row = layer("a", 0, 1.0, 1.0, "bad").model_copy(update={"nonfinite": NonFinite(side="compiled", what="nan")})
    assert [mark.text for mark in parts(drawn_layers([row], "t"), "lost")] == ["NaN"]


def test_a_layer_of_which_nothing_but_nan_is_known_is_drawn() -> None:
    """Such as a gradient that is NaN all over: no error has a size, and it is the one to blame."""
    row = layer("head", 0, None, None, "bad").model_copy(update={"nonfinite": NonFinite(side="compiled", what="nan")})
    picture = drawn_layers([row], "t")
    assert [mark.text for mark in parts(picture, "lost")] == ["NaN"]
    assert picture is not None and "The first that is wrong by itself is head, with NaN." in picture


def node(name: str, *inputs: str, verdict: str = "good", culprit: bool = False) -> GraphNode:
    return GraphNode.model_validate(
        {"name": name, "op": name, "inputs": inputs, "verdict": verdict, "culprit": culprit, "shape": "float32[4]"}
    )


def test_values_flow_downwards_and_an_edge_that_skips_a_rank_bends() -> None:
    nodes = [node("a"), node("b", "a"), node("c", "b", verdict="bad", culprit=True), node("d", "c", "a")]
    picture = culprit_graph(nodes)
    boxes = [float(box[0].get("y") or box.find("*[@y]").get("y")) if box[0].get("y") else float(box[1].get("y") or 0)  # type: ignore[union-attr]
             for box in parts(picture, "node")]  # fmt: skip
    assert boxes == sorted(boxes) and len(set(boxes)) == 4
    assert len(parts(picture, "edge")) == 6  # a-b, b-c, c-d, and a-d in three pieces
    assert len(parts(picture, "culprit")) == 1
    assert picture is not None and "Culprit: c." in picture and "c is wrong by itself." in picture


def test_no_graph_without_nodes() -> None:
    assert culprit_graph([]) is None


@pytest.mark.parametrize(
    "picture",
    [drawn_layers([layer(EVIL, 0, 1.0, 1.0, "bad")], EVIL), culprit_graph([node(EVIL), node("b", EVIL, culprit=True)])],
)
def test_no_name_becomes_markup_and_every_picture_has_words(picture: str) -> None:
    svg = ElementTree.fromstring(str(picture))
    assert not any("script" in element.tag for element in svg.iter())
    names = (svg.get("aria-labelledby") or "").split()
    said = [element.text for element in svg.iter() if element.get("id") in names]
    assert len(said) == 2 and all(said)
    assert "style=" not in str(picture)


def test_the_reduction_over_trials() -> None:
    curve = trials_curve([Point(0, 58), Point(6, 1)], until=9)
    assert "Nodes fell from 58 to 1 in 6 trials" in curve and "9 trials" in curve


LOSSES = Drift(
    verdict="chaos",
    what="",
    steps=3,
    at=[1, 2, 3],
    eager=[4.0, 3.0, 2.0],
    compiled=[4.0, None, 1e9],
    redrawn=[[4.0, 3.5, 1.0], [4.0, 2.5, 2.0]],
)


def test_losses_are_drawn_with_gaps_and_none_runs_out_of_the_picture() -> None:
    picture = loss_curves(LOSSES)
    assert picture is not None and picture.count('class="redrawn"') == 2
    assert "2 runs of eager with other roundings" in picture
    (compiled,) = re.findall(r'class="compiled" d="([^"]+)"', picture)
    assert compiled.count("M") == 2
    heights = [float(y) for y in re.findall(r",([-\d.]+)", "".join(re.findall(r' d="([^"]+)"', picture)))]
    assert min(heights) >= 0 and max(heights) <= 300


def test_losses_that_nobody_knows_are_not_drawn() -> None:
    assert loss_curves(LOSSES.model_copy(update={"at": [], "eager": [], "compiled": [], "redrawn": []})) is None
    assert loss_curves(LOSSES.model_copy(update={"eager": [None] * 3})) is None

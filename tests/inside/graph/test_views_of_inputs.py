"""Which inputs of a graph are views of other ones is told, and a trial makes them so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from minimizer.inside.graph.graphs import to_json
from minimizer.inside.graph.lowering import lower
from minimizer.inside.questions import GivenInput, TrialRequest
from minimizer.inside.tasks.trial import Trial
from minimizer.inside.values.snapshot import clone


def captured(inputs: Sequence[Tensor]) -> fx.GraphModule:
    """A graph that adds all its inputs up, by element."""
    graph = fx.Graph()
    places = [graph.placeholder(f"x{index}") for index in range(len(inputs))]
    total = graph.call_method("sum", (places[0],))
    for place in places[1:]:
        total = graph.call_function(torch.add, (total, graph.call_method("sum", (place,))))
    graph.output((total,))
    return fx.GraphModule(torch.nn.Module(), graph)


def views(inputs: list[Tensor]) -> list[Any]:
    """The views that are told of a graph with these inputs, which are copied before as those of a call are."""
    body = to_json(captured(inputs).graph, clone(inputs), called_from=None, level="dynamo")
    return [item.get("view") for item in body["inputs"]]


def test_a_view_of_another_input_is_told() -> None:
    base = torch.arange(12.0).reshape(3, 4).clone()
    index = {"tuple": [{"slice": [1, None, None]}, 2]}
    assert views([base[1:, 2], base]) == [
        {"of": "x1", "steps": [{"target": "operator.getitem", "args": [index]}]},
        None,
    ]
    assert views([base, base.t()]) == [None, {"of": "x0", "steps": [{"target": ".t", "args": []}]}]


def test_what_only_shares_memory_is_no_view() -> None:
    base = torch.arange(12.0)
    assert views([base, torch.empty(0).set_(base.untyped_storage(), 2, (3,), (1,))]) == [None, None]
    assert views([base[:4], base[2:]]) == [None, None]
    assert views([base, base.clone()[2:]]) == [None, None]


def test_what_requires_a_gradient_is_no_view() -> None:
    base = torch.arange(12.0).requires_grad_()
    assert views([base, base[2:]]) == [None, None]
    base = torch.arange(12.0)
    assert views([base, base[2:].requires_grad_()]) == [None, None]


def test_a_view_has_no_place_in_whole_memory_where_its_base_is_a_part_of_that() -> None:
    """The offset of ``as_strided`` counts from the begin of the memory, which the base that a repro makes does not have."""
    part = torch.empty(0).set_(torch.arange(20.0).untyped_storage(), 4, (4, 4), (4, 1))
    assert views([part, part[1:]])[1]["of"] == "x0"
    assert views([part, part.diagonal()]) == [None, None]


def test_a_joint_graph_has_no_views() -> None:
    inputs = clone([base := torch.ones(3, 4, requires_grad=True), base[1:]])
    module, values = lower(captured(inputs), inputs, [torch.ones(())])
    body = to_json(module.graph, values, called_from=None, level="aot")
    assert not any("view" in item for item in body["inputs"])


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_trial_makes_a_view_of_its_base(tmp_path: Path, is_saved: bool) -> None:
    file = tmp_path / "golden.pt"
    torch.save({"b": torch.arange(4.0)}, file)
    base = GivenInput(name="b", golden="b") if is_saved else GivenInput(name="b", code="torch.arange(4.0)")
    request = TrialRequest(
        setup="import torch",
        source="def f(a, b):\n    return a\n",
        name="f",
        inputs=[GivenInput(name="a", code="b[1:]", is_view=True), base],
        golden_files=[str(file)] * is_saved,
    )
    _, (view, made) = Trial(request, channel=None).load()  # type: ignore[arg-type]
    assert view._base is made and view.tolist() == [1, 2, 3]

"""Launches of Triton kernels in captured graphs, with stand-ins for the kernels: Triton itself needs a GPU."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

from minimizer.inside.graph.graphs import MADE, to_json
from minimizer.inside.graph.launches import is_launch, modules_of
from minimizer.inside.graph.literals import Opaque
from minimizer.inside.graph.lowering import write_down
from minimizer.inside.values.snapshot import rng_state


class Kernel:
    arg_names = ("source", "target", "count", "BLOCK")


class Wrapped(Kernel):
    def __init__(self, fn: Any) -> None:
        self.fn = fn


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel among the script's globals."""
    known = Kernel()
    monkeypatch.setattr(sys.modules["__main__"], "scale_kernel", known, raising=False)
    yield known
    kernel_side_table.reset_table()


def launching(kernel: Any, *grids: tuple[Any, ...], **changes: Any) -> fx.GraphModule:
    """A graph that launches a kernel on its input, as Dynamo captures it."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    out = graph.call_function(torch.empty_like, (x,))
    x.meta["example_value"] = out.meta["example_value"] = torch.ones(1000)
    known = {
        "kernel_idx": kernel_side_table.add_kernel(kernel),
        "constant_args_idx": kernel_side_table.add_constant_args({"BLOCK": 256, "count": 1000}),
        "grid": list(grids),
        "tma_descriptor_metadata": {},
        "kwargs": {"target": out, "source": x},
        **changes,
    }
    graph.call_function(triton_kernel_wrapper_mutation, (), known)
    graph.output((out,))
    return fx.GraphModule({}, graph)


def written(module: fx.GraphModule) -> dict[str, Any]:
    nodes: Any = to_json(module.graph, [torch.ones(1000)], called_from=None, level="dynamo")["nodes"]
    return dict(nodes[-1])


@pytest.mark.parametrize(
    ("grids", "said"),
    [([(4, 1, 1)], "scale_kernel[4, 1, 1]"), ([(4,)], "scale_kernel[4, 1]"), ([(2, 3), (2, 3)], "scale_kernel[2, 3]")],
    ids=["three numbers", "one number", "the same for each configuration"],
)
def test_a_launch_is_written_as_a_script_has_it(kernel: Kernel, grids: list[tuple[int, ...]], said: str) -> None:
    node = written(launching(kernel, *grids))
    assert (node["target"], node["args"]) == ("operator.call", [{"code": said}])
    assert list(node["kwargs"]) == list(Kernel.arg_names)
    assert node["kwargs"]["source"] == {"ref": "x"}
    assert node["kwargs"]["count"] == 1000


def test_a_grid_of_symbolic_sizes_is_that_of_the_call(kernel: Kernel) -> None:
    module = launching(kernel, (4,))
    (launch,) = (node for node in module.graph.nodes if is_launch(node))
    with module.graph.inserting_before(launch):
        size = module.graph.call_function(operator.floordiv, (1000, 256))
    size.meta[MADE] = 3
    launch.kwargs = {**launch.kwargs, "grid": [(size, 1, 1)]}
    assert written(module)["args"] == [{"code": "scale_kernel[3, 1, 1]"}]


@pytest.mark.parametrize(
    ("grids", "changes"),
    [([(4,), (8,)], {}), ([(4,)], {"tma_descriptor_metadata": {"source": "a descriptor"}})],
    ids=["a grid for each configuration", "descriptors"],
)
def test_a_launch_without_source_text_is_refused(
    kernel: Kernel, grids: list[tuple[int, ...]], changes: dict[str, Any]
) -> None:
    with pytest.raises(Opaque, match="has no source text"):
        written(launching(kernel, *grids, **changes))


def test_a_kernel_of_another_module_is_named_with_its_path(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is wrapped, as an autotuned one is, and where the script has it by a name of its own."""
    home = ModuleType("own_kernels.scaling")
    exec("def scale(source): pass", vars(home))
    wrapped = Wrapped(Wrapped(home.scale))
    home.scale = wrapped  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, home.__name__, home)
    monkeypatch.setattr(sys.modules["__main__"], "scale", wrapped, raising=False)
    module = launching(wrapped, (4, 2))
    assert written(module)["args"] == [{"code": "own_kernels.scaling.scale[4, 2]"}]
    outer = fx.GraphModule({"body": module}, fx.Graph())
    outer.body = module
    assert modules_of(module) == modules_of(outer) == ["own_kernels.scaling"]
    assert modules_of(launching(kernel, (4,))) == []


def test_a_kernel_without_a_name_is_refused(kernel: Kernel) -> None:
    with pytest.raises(Opaque, match="has no source text"):
        written(launching(Kernel(), (4,)))


def test_a_graph_that_launches_kernels_is_not_lowered_without_them(kernel: Kernel) -> None:
    """Tracing drops a launch, since its operator returns nothing: what it would have written is missing then."""
    with pytest.raises(Opaque, match="no aten operators"):
        write_down(
            launching(kernel, (4,)), [torch.ones(1000)], rng_state(), level="aot", called_from=None, cotangents=None
        )

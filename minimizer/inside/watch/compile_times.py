"""Compile time by graph and phase, from Dynamo's own metrics, and equal blocks compiled repeatedly inside one graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch._dynamo.utils as books
from torch import fx

from ..graph.modules import module_path
from ..messages import Compilation, EqualBlocks, StackLine
from .captured import CapturedGraph

MOST_COMPILATIONS, MOST_LISTS = 50, 20
"""Most reported graphs, the costliest first, and lists of blocks of each."""
BOUND = "__self__"
"""The step from the compiled method to its module, if torch's own module is compiled by its ``forward``."""
LEAST_BLOCKS = 2
"""Least number of equal blocks: a list without a pair of them repeats nothing."""


def compilations(graphs: Sequence[CapturedGraph]) -> list[Compilation]:
    """The compilation of each graph with its backward, the costliest first; graphs with a duplicate id are left out."""
    metrics: dict[str, list[Any]] = {}
    for one in books.get_compilation_metrics():
        metrics.setdefault(str(one.compile_id or ""), []).append(one)
    times = Counter(graph.compile_id for graph in graphs)  # `torch._dynamo.reset` restarts them at 0
    found = [
        _compilation(graph, metrics[graph.compile_id])
        for graph in graphs
        if graph.compile_id in metrics and times[graph.compile_id] == 1
    ]
    return sorted(found, key=lambda one: -one.seconds)[:MOST_COMPILATIONS]


def _compilation(graph: CapturedGraph, metrics: Sequence[Any]) -> Compilation:
    """The compiler's metrics of one graph; each phase excludes nested ones."""
    frame = sum(one.entire_frame_compile_time_s or 0.0 for one in metrics)
    aot = seconds_of(metrics, "aot_autograd_cumulative_compile_time_us")
    backward = seconds_of(metrics, "backward_cumulative_compile_time_us")
    inductor = seconds_of(metrics, "inductor_cumulative_compile_time_us")
    code = seconds_of(metrics, "inductor_code_gen_cumulative_compile_time_us")
    ours = min(graph.eager_seconds, aot)  # the graph is run once in eager before it is compiled
    return Compilation(
        graph=graph.index,
        place=graph.called_at or StackLine("", 0, "", ""),
        is_first=graph.compile_id.endswith("/0"),
        seconds=max(frame - ours, 0.0) + backward,
        backward=backward,
        dynamo=max(frame - aot, 0.0),
        aot=max(aot - ours + backward - inductor, 0.0),
        lowering=max(inductor - code, 0.0),
        code=code,
        nodes=len(graph.form),
        blocks=equal_blocks(graph.module.graph),
    )


def seconds_of(metrics: Sequence[Any], name: str) -> float:
    """The sum of one of Dynamo's metrics, converted from microseconds."""
    return sum(getattr(one, name, None) or 0 for one in metrics) / 1e6


def equal_blocks(graph: fx.Graph) -> list[EqualBlocks]:
    """Lists of modules, such as ``layers``, with members of equal computation and different weights, and modules that
    are called repeatedly where there are no such lists; outer ones hide inner ones.
    """
    forms: dict[tuple[str, bool], dict[str, list[Hashable]]] = {}
    for node in graph.nodes:
        if node.op.startswith("call_"):
            for path, place, is_one in (*_places(node), *_calls(node)):
                forms.setdefault((path, is_one), {}).setdefault(place, []).append(_form(node))
    found: list[EqualBlocks] = []
    for (path, is_one), blocks in sorted(forms.items(), key=lambda one: one[0][0].count(".")):
        ((form, count),) = Counter(map(tuple, blocks.values())).most_common(1)
        is_within = any(f"{path}.".startswith(f"{one.path}." if one.path else "") for one in found)
        if count >= LEAST_BLOCKS and not is_within:
            found.append(EqualBlocks(path, count, len(blocks), count * len(form), is_one))
    return ([one for one in found if not one.is_one] or found)[:MOST_LISTS]


def _places(node: fx.Node) -> dict[tuple[str, str, bool], None]:
    """The lists of modules around a node, each with the node's index in it."""
    found: dict[tuple[str, str, bool], None] = {}
    for source, *_ in (node.meta.get("nn_module_stack") or {}).values():
        steps = [step for step in module_path(source).split(".") if step != BOUND]
        for at, step in enumerate(steps):
            if step.isdigit() and not source.startswith("G["):  # not a global's module
                found[".".join(steps[:at]), step, False] = None
    return found


def _calls(node: fx.Node) -> Iterator[tuple[str, str, bool]]:
    """The modules around a node that belong to the compiled one, each with the number of its call."""
    for key, (source, *_) in (node.meta.get("nn_module_stack") or {}).items():
        path = ".".join(step for step in module_path(source).split(".") if step != BOUND)
        if path and not source.startswith("G["):
            yield path, key.partition("@")[2], True


def _form(node: fx.Node) -> Hashable:
    """The computation of a node: its operation, and the type, size and dtype of the result."""
    value = node.meta.get("example_value")
    return node.op, str(node.target), str(getattr(value, "shape", type(value))), str(getattr(value, "dtype", ""))

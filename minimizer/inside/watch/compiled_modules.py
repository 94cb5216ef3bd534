"""Modules of which something ran compiled: those that a change of the script sends to eager are no longer among them."""

from __future__ import annotations

import itertools

from ..graph.graphs import module_of
from .coverage import Coverage

MOST_MODULES = 5000


def compiled_modules(coverage: Coverage) -> list[str]:
    """The paths of modules whose code is in a graph that was called, from the root of the model."""
    found: dict[str, None] = {}
    for graph, made in zip(coverage.graphs, coverage.keys.of_graph, strict=False):
        instances = dict.fromkeys(coverage.keys.name(key) for key in dict.fromkeys(made))
        paths = dict.fromkeys(module_of(node)[0] for node in graph.module.graph.nodes if node.op.startswith("call_"))
        for instance, path in itertools.product(instances, paths):
            found[".".join(filter(None, (instance, path)))] = None
    found.pop("", None)
    return list(found)[:MOST_MODULES]

"""Lists the modules that ran compiled, to see whether a changed script has sent some of them to eager."""

from __future__ import annotations

import itertools

from ..graph.modules import module_of
from .coverage import Coverage

MOST_MODULES = 5000
"""Paths that are reported at most, to bound the message."""


def compiled_modules(coverage: Coverage) -> list[str]:
    """Paths, from the root of the model, of the modules that have operations in a graph that was called."""
    found: dict[str, None] = {}
    for graph, made in zip(coverage.graphs, coverage.keys.of_graph, strict=False):
        instances = dict.fromkeys(coverage.keys.name(key) for key in dict.fromkeys(made))
        paths = dict.fromkeys(module_of(node)[0] for node in graph.module.graph.nodes if node.op.startswith("call_"))
        for instance, path in itertools.product(instances, paths):
            found[".".join(filter(None, (instance, path)))] = None
    found.pop("", None)
    return list(found)[:MOST_MODULES]

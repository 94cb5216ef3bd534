"""Lists the modules that ran compiled, to detect a changed script that moved some of them to eager."""

from __future__ import annotations

import itertools

from ..graph.modules import module_of
from .coverage import Coverage

MOST_MODULES = 5000
"""Most reported paths, to bound the message."""


def compiled_modules(coverage: Coverage) -> list[str]:
    """Paths, from the root of the model, of the modules with operations in a graph that was called."""
    found: dict[str, None] = {}
    for graph, made in zip(coverage.graphs, coverage.keys.of_graph, strict=False):
        instances = dict.fromkeys(coverage.keys.name(key) for key in dict.fromkeys(made))
        paths = dict.fromkeys(module_of(node)[0] for node in graph.module.graph.nodes if node.op.startswith("call_"))
        for instance, path in itertools.product(instances, paths):
            found[".".join(filter(None, (instance, path)))] = None
    found.pop("", None)
    return list(found)[:MOST_MODULES]

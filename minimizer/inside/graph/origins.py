"""Origins of a graph's inputs by Dynamo's sources: parameters and buffers of modules, arguments, globals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .modules import module_path


def origin(placeholder: fx.Node) -> str:
    """Dynamo's name of an input, such as ``L['self']._modules['up']._parameters['weight']``; empty if it has none."""
    return name_of(getattr(placeholder.meta.get("grapharg"), "source", None))


def name_of(source: Any) -> str:
    """The name of a Dynamo source; ``name`` is a method in older versions and a property in newer ones."""
    try:
        name = source.name() if callable(source.name) else source.name
    except (AttributeError, NotImplementedError):  # some sources have no name
        return ""
    return str(name)


def owner_of(placeholder: fx.Node) -> str:
    """The path of a parameter or buffer from the compiled module, such as ``up.weight``; for other inputs the name in the graph."""
    path = re.sub(r"\b(_modules|_parameters|_buffers|__dict__)\.", "", module_path(origin(placeholder)) + ".")
    return path.strip(".") or placeholder.name


def state_places(module: fx.GraphModule, inputs: Sequence[Any]) -> list[int]:
    """The positions of a graph's inputs that are parameters or buffers of modules."""
    return [
        place
        for place, (node, value) in enumerate(zip(module.graph.find_nodes(op="placeholder"), inputs, strict=False))
        if isinstance(value, torch.nn.Parameter)
        or (isinstance(value, torch.Tensor) and re.search(r"_buffers\b", origin(node)))
    ]

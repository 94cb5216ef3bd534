"""The module of a graph's node: its path, as a reader of the script would write it, and its class."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

WRAPPED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""Attributes in which torch's wrappers hold the wrapped module."""
WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "AveragedModel")
"""torch's wrapper classes that hold the module as ``module``; by name, since importing them takes time."""


def module_of(node: fx.Node) -> tuple[str, str]:
    """Path and class of a node's innermost nn.Module, such as ``("blocks.7.activation", "ReLU")``."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", ""
    steps = [(module_path(path), _class_name(kind)) for path, kind, *_ in stack]
    path, name = steps[-1]
    for outer, kind in reversed(steps[:-1]):
        wrapped = f"{outer}.module".strip(".")
        if kind in WRAPPERS and f"{path}.".startswith(f"{wrapped}."):
            path = outer + path.removeprefix(wrapped)
    return path.strip("."), name


def _class_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]


def module_path(path: str) -> str:
    """``L['self']._modules['blocks'][7].up`` → ``blocks.7.up``; a global ``G['net'].up`` keeps its name.

    ``L['args'][0]`` is ``self`` as a decorator of ``forward`` has it: transformers decorates those of its models.
    """
    path = re.sub(r"^L\['args'\]\[0\]|^L\['\w+'\]|^G(?=\[)", "", path)
    path = re.sub(r"""\[(?:["'])?([^\]"']+)(?:["'])?\]""", r".\1", path)
    return ".".join(step for step in path.split(".") if step and step not in ("_modules", "__dict__", *WRAPPED))

"""Public names of callables, as a person would write them, for the targets of FX nodes."""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

PUBLIC = (
    "torch",
    "torch.nn.functional",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch.nn.init",
    "torch.utils.checkpoint",
    "math",
)
"""Modules to search for a public name, in order of preference."""


@functools.lru_cache(maxsize=1)
def _public_names() -> dict[int, str]:
    names: dict[int, str] = {}
    for module_name in PUBLIC:
        module = importlib.import_module(module_name)
        for name in sorted(dir(module), key=lambda n: (n.startswith("_"), len(n), n)):
            value = getattr(module, name, None)
            if callable(value) and not name.startswith("__"):
                names.setdefault(id(value), f"{module_name}.{name}")
    return names


def dotted_name(target: Callable[..., Any]) -> str | None:
    """The dotted path under which ``target`` can be written in source text, or None if there is none."""
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target.namespace}.{target._opname}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.__name__}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return f"torch.ops.{target._qualified_op_name.replace('::', '.')}"
    module = getattr(target, "__module__", None) or ""
    name = str(getattr(target, "__qualname__", None) or getattr(target, "__name__", ""))
    if module == "builtins" and getattr(builtins, name, None) is target:
        return name
    if module == "_operator":
        return f"operator.{name}"
    public = _public_names().get(id(target))
    if public is not None:
        return public
    for candidate in _homes(target, module):
        path = f"{candidate}.{name}"
        if resolve(path) is target:
            return path
    return None


def global_name(value: Any, module: str = "__main__") -> str | None:
    """The name to which a module, by default the script, binds an object; None if there is none."""
    scope = vars(sys.modules[module]) if module in sys.modules else {}
    return next((name for name, bound in list(scope.items()) if bound is value), None)


def path_of_global(value: Any, home: str) -> str | None:
    """The global bound to an object: of its ``home``, with that module's path, or else of the script; None without one."""
    if home != "__main__" and (name := global_name(value, home)) is not None:
        return f"{home}.{name}"
    return global_name(value)


def resolve(path: str) -> Any:
    """The object that a dotted path names, or None."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part, None)
        return value
    return None


def _homes(target: Callable[..., Any], module: str) -> list[str]:
    owner = getattr(target, "__self__", None)
    homes = [module] if module not in ("", "__main__") else []  # a repro cannot import the script itself
    if isinstance(owner, types.ModuleType):
        homes.append(owner.__name__)
    return [*homes, "torch", "torch._C._nn", "torch._C"]

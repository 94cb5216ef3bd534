"""The environment variables that change a process's compiler settings, and the settings that read each of them."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterator

from ..graph.state import CONFIGS

OURS = frozenset({
    "TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_VEC_ISA_OK", "TORCHINDUCTOR_FX_GRAPH_CACHE",
    "TORCHINDUCTOR_AUTOGRAD_CACHE", "TRITON_CACHE_DIR",
})  # fmt: skip
"""Variables that our child is started with (`engine/child/environment.py`)."""
PREFIXES = ("TORCH", "PYTORCH", "TRITON")


def set_variables() -> list[tuple[str, list[str]]]:
    """Each variable of this process that a compiler setting reads when torch is imported, with the names of these
    settings.

    The reads are found in the text of torch's own configs: a variable that a script sets itself comes too late for this
    process, where torch was already imported, but not for the script's own process.
    """
    names = [name for name in os.environ if name.startswith(PREFIXES) and name not in OURS]
    readers = list(_readers()) if names else []
    known = [(name, list(dict.fromkeys(setting for setting, read in readers if name in read))) for name in names]
    return [(name, settings) for name, settings in known if settings]


def _readers() -> Iterator[tuple[str, set[str]]]:
    """The name of each setting, and the quoted words in the expression of its default."""
    for config in CONFIGS:
        try:
            with open(str(importlib.import_module(config).__file__), encoding="utf-8") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError):
            continue
        yield from _of_body(config, tree.body)


def _of_body(prefix: str, body: list[ast.stmt]) -> Iterator[tuple[str, set[str]]]:
    for node in body:
        match node:
            case ast.ClassDef(name=name, body=inner):
                yield from _of_body(f"{prefix}.{name}", inner)
            case ast.Assign(targets=[ast.Name(name)], value=value) | ast.AnnAssign(
                ast.Name(name), value=ast.expr() as value
            ):
                words = (one.value for one in ast.walk(value) if isinstance(one, ast.Constant))
                yield f"{prefix}.{name}", {word for word in words if isinstance(word, str)}

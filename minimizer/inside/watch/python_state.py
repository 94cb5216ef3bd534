"""Names the Python state that a frame reads or changes while it is traced, from Dynamo's record of side effects.

Dynamo replays such changes after the graph, and guards the state that was read. Neither is part of a graph's call, so comparing
calls of graphs cannot check them; the report says so.
"""

from __future__ import annotations

import re
from typing import Any

from ..graph.origins import name_of

UNKNOWN = "Python state that traced code reads or changes: this torch does not say which"
MOST_NAMES = 4
"""Most names in one sentence of the report."""
_BOOKKEEPING = re.compile(
    r"^L\['k?w?args'\]$|_(parameters|modules|buffers)\b|_hooks\b|__import_|__mro__|__class__|__closure__"
)
"""Matches ignored names: state that ``nn.Module.__call__`` and ``__setattr__`` read in every model, and a call's
arguments.
"""
_NO_STATE = re.compile(r"Tensor|NNModule|PythonModule|SymNode|Stream|Event|ProcessGroup|DeviceMesh|Opaque|ScriptObject")
"""Matches ignored Dynamo variable types: values that graphs compute with, and modules, whose attributes have their own
variables.
"""


class PythonState:
    """Names of the Python state that the frames of a run read and change."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._read: set[str] = set()
        self._is_known = True

    def add_frame(self) -> None:
        """Add the state that the frame being compiled reads or changes; call this from within its backend."""
        try:
            from torch._dynamo.symbolic_convert import InstructionTranslator

            changed, read = _touched(InstructionTranslator.current_tx().output.side_effects)
        except Exception:  # private, and different in each version
            self._is_known = False
            return
        self._changed |= changed
        self._read |= read

    def sentences(self) -> list[str]:
        """Sentences for the report about Python state that is not compared."""
        found = [
            f"Python state that traced code {what} ({_some(names)}): only what graphs compute is compared"
            for what, names in (("changes", self._changed), ("reads", self._read - self._changed))
            if names
        ]
        return found if self._is_known else [*found, UNKNOWN]


def _touched(effects: Any) -> tuple[set[str], set[str]]:
    changed: set[str] = set()
    read: set[str] = set()
    for variable in list(effects.id_to_variable.values()):
        # A cell has a source, and only the closure variable has its name.
        name = getattr(variable, "local_name", None) or name_of(getattr(variable, "source", None))
        if not name or not type(variable.mutation_type).__name__.endswith("Existing"):
            continue  # created by the frame itself
        kind = type(variable).__name__
        attributes = effects.store_attr_mutations.get(variable, {})
        if "Tensor" not in kind and attributes:
            changed |= {_plain(name if kind == "CellVariable" else f"{name}.{key}") for key in attributes}
        elif _NO_STATE.search(kind) or _BOOKKEEPING.search(name):
            continue
        elif effects.is_modified(variable):
            changed.add(_plain(name))
        elif kind != "CellVariable":
            read.add(_plain(name))
    return changed, read


def _plain(name: str) -> str:
    """A source name as a user writes it: ``self.log`` for ``L['self'].log``, ``a.b.log`` for the ``log`` of an imported module ``a.b``."""
    name = re.sub(r"(?<![\w.])[LG]\['(\w+)'\]", r"\1", name)
    name = re.sub(r"^__import_(\w+)", lambda found: found[1].replace("_dot_", "."), name)
    return re.sub(r"\.__dict__\['(\w+)'\]|\._modules\['(\w+)'\]", lambda found: f".{found[1] or found[2]}", name)


def _some(names: set[str]) -> str:
    shown = sorted(names)[:MOST_NAMES]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")

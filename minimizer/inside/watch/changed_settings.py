"""The settings that a script, its calls of ``torch.compile`` and the environment change from their defaults."""

from __future__ import annotations

from typing import Any

import torch
import torch._higher_order_ops.utils

from ..compiler.variables import set_variables
from ..graph import state
from ..messages import Changed

MOST_CHANGED, MOST_LOOKS = 100, 64
"""Settings that are told, and compilations at which is looked: a script that compiles more has shown what it sets by then."""


class ChangedSettings:
    """Settings as they were when graphs were compiled, and as they are in the end: one that is put back meanwhile is told too."""

    def __init__(self) -> None:
        self._while_compiling: dict[str, Changed] = {}
        self._options: dict[str, Changed] = {}
        self._ours: set[str] = set()
        self._looks = 0

    def look(self, backend: Any) -> None:
        """Note what is changed while a graph is compiled, and the options that its backend object was made with."""
        self._looks += 1
        if self._looks > MOST_LOOKS:
            return
        for name, default, value in state.changed_settings() if not _is_of_torch() else ():
            if name not in state.IMPLIED and name not in self._ours:
                self._while_compiling[name] = Changed(name, default, value, is_passing=True)
        for name, value in state.inductor_options(backend).items():
            self._options[name] = Changed(name, "", state.shown(value), by="torch.compile")

    def leave_out(self, name: str) -> None:
        """Never tell of a setting that we make ourselves from now on."""
        if name not in self._while_compiling:
            self._ours.add(name)

    def found(self) -> list[Changed]:
        """All of them, each once, in the order of what has set them: the script, its calls of ``torch.compile``, the environment."""
        now = {one[0]: Changed(*one) for one in state.changed_settings() if one[0] not in self._ours}
        variables = [Changed(name, "", ", ".join(of), by="environment") for name, of in set_variables()]
        return [*(self._while_compiling | now).values(), *self._options.values(), *variables][:MOST_CHANGED]


def _is_of_torch() -> bool:
    """Whether torch compiles the body of an operator that was called in eager, such as ``torch.cond``, under settings of its own."""
    asked = getattr(torch._higher_order_ops.utils, "_in_hop_compile", None)  # torch 2.11 has none
    return asked is not None and bool(asked())

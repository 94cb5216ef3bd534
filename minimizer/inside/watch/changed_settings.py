"""Settings that differ from their defaults because of the script, its calls of ``torch.compile`` or the environment."""

from __future__ import annotations

from typing import Any

import torch
import torch._higher_order_ops.utils

from ..compiler.variables import set_variables
from ..graph import state
from ..hooks import required
from ..messages import Changed

MOST_CHANGED, MOST_LOOKS = 100, 64
"""Most reported settings, and compilations at which settings are read: a script with more has shown its settings by
then.
"""


class ChangedSettings:
    """Settings at the compilations of graphs and at the end: one that is reset in between is reported too."""

    def __init__(self) -> None:
        self._while_compiling: dict[str, Changed] = {}
        self._options: dict[str, Changed] = {}
        self._ours: set[str] = set()
        self._looks = 0

    def look(self, backend: Any) -> None:
        """Record the changed settings at the compilation of a graph, and the options of its backend object."""
        self._looks += 1
        if self._looks > MOST_LOOKS:
            return
        for name, default, value in state.changed_settings() if not _is_of_torch() else ():
            if name not in state.IMPLIED and name not in self._ours:
                self._while_compiling[name] = Changed(name, default, value, is_passing=True)
        for name, value in state.inductor_options(backend).items():
            self._options[name] = Changed(name, "", state.shown(value), by="torch.compile")

    def leave_out(self, name: str) -> None:
        """Never report a setting that we change ourselves from now on."""
        if name not in self._while_compiling:
            self._ours.add(name)

    def found(self) -> list[Changed]:
        """All of them, each once, by what set them: the script, its calls of ``torch.compile``, the environment."""
        now = {one[0]: Changed(*one) for one in state.changed_settings() if one[0] not in self._ours}
        variables = [Changed(name, "", ", ".join(of), by="environment") for name, of in set_variables()]
        return [*(self._while_compiling | now).values(), *self._options.values(), *variables][:MOST_CHANGED]


def _is_of_torch() -> bool:
    """Whether torch itself compiles the body of an operator called in eager, such as ``torch.cond``, under its own
    settings.
    """
    return bool(required(torch._higher_order_ops.utils, "_in_hop_compile")())

"""Readable rows of the table of layers: by name, with the culprit's marked, and several rows of one module
distinguished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minimizer.report.culprit import Culprit, Layer, module_of


@dataclass(frozen=True)
class LayerRow:
    """A row of one phase."""

    layer: Layer
    part: str
    """Which of several rows of the same module it is: ``call 2 of 3``, or ``piece 2 of 3`` of its own code.

    Empty for the only one.
    """
    is_culprit: bool

    @property
    def name(self) -> str:
        """The path from the root, with the class if it ends with a number; empty outside of any module."""
        return module_of({"module": self.layer.path, "module_class": self.layer.cls})

    @property
    def words(self) -> str:
        """The same, with the part."""
        return (self.name or "outside of modules") + (f", {self.part}" if self.part else "")


def layer_rows(layers: Sequence[Layer], culprits: Sequence[Culprit] = ()) -> list[LayerRow]:
    """The rows of a report's ``layers``, in their order, distinguished within their phase."""
    guilty = _of_culprit(layers, culprits)
    parts: dict[int, str] = {}
    for phase in ("forward", "backward"):
        of_phase = [index for index, layer in enumerate(layers) if layer.phase == phase]
        places: dict[str, list[int]] = {}
        for index in of_phase:
            places.setdefault(layers[index].path, []).append(index)
        for path, rows in places.items():
            if path and len(rows) > 1:
                between = [layers[i].path for i in of_phase if rows[0] < i < rows[-1] and i not in rows]
                # Two pieces of a module's own code are separated by the modules in it.
                word = "piece" if all(other.startswith(f"{path}.") for other in between) else "call"
                parts |= {row: f"{word} {number} of {len(rows)}" for number, row in enumerate(rows, 1)}
    return [LayerRow(layer, parts.get(index, ""), index in guilty) for index, layer in enumerate(layers)]


def _of_culprit(layers: Sequence[Layer], culprits: Sequence[Culprit]) -> set[int]:
    """The rows that hold the first culprit: of those with the innermost path around its module the wrong ones, if some are."""
    module = culprits[0].module if culprits else ""
    around = [layer.path for layer in layers if layer.path and f"{module}.".startswith(f"{layer.path}.")]
    innermost = max(around, key=len, default=None)
    rows = {index for index, layer in enumerate(layers) if layer.path == innermost}
    return {index for index in rows if layers[index].verdict == "bad"} or rows

"""How large a difference is, and of what: a layer of the script, the repro, or the script's own message never share a name."""

from __future__ import annotations

from dataclasses import dataclass

from minimizer.report.culprit import Error, Layer, module_of
from minimizer.report.model import Report
from minimizer.vocabulary import Kind, counted


@dataclass(frozen=True)
class Figure:
    """``of`` is the measured object: a noun phrase; ``value`` is the largest absolute difference there."""

    of: str
    value: float
    error: Error | None = None

    @property
    def words(self) -> str:
        """The same in a line: the value, how many elements, and of what."""
        error = self.error
        if error is None or error.mismatched is None:
            return f"{self.value:.3g} in {self.of}"
        of_all = f" of {counted(error.elements, 'element')}" if error.elements is not None else ""
        return f"{self.value:.3g} in {self.of} ({error.mismatched:,}{of_all} wrong)"


def differences(report: Report) -> list[Figure]:
    """The largest measured differences between compiled and eager; the first is the one to quote.

    The layer's comes first if the table of layers has the culprit's: its inputs are the script's. The inputs of the
    repro are as small and round as the reduction could make them, and its difference depends on them.
    """
    if report.failure is None or not report.failure.kind.is_numeric or not report.culprits:
        return []
    culprit, found = report.culprits[0], list[Figure]()
    layer = _layer_of(report, culprit.module)
    if layer is not None and layer.local_error:
        name = module_of({"module": layer.path, "module_class": layer.cls})
        place = f"the script's layer {name}" if layer.path else "the script's operations outside of any module"
        found.append(Figure(f"{place}, compiled alone on eager's inputs", layer.local_error))
    if culprit.local_error is not None and culprit.local_error.max_abs:
        found.append(Figure("the repro", culprit.local_error.max_abs, culprit.local_error))
    return found


def _layer_of(report: Report, module: str) -> Layer | None:
    """The row of the culprit's own module, else of the innermost one around it that was measured, in the phase in which it fails."""
    is_backward = report.failure is not None and report.failure.kind is Kind.WRONG_GRADIENT
    phase = "backward" if is_backward else "forward"
    around = [layer for layer in report.layers if layer.phase == phase and f"{module}.".startswith(f"{layer.path}.")]
    return max(around, key=lambda layer: (len(layer.path), layer.local_error or 0.0), default=None)

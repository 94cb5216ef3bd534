"""A GPU that is lost to the process: after such an error every later call of CUDA fails, so the run ends there."""

from __future__ import annotations

from collections.abc import Callable

from ..failures import LOST, device_error
from ..messages import Lost
from .captured import CapturedGraph


class LostGpu:
    """Where the GPU was lost in a run, and the end of the run there, before what fails next is taken for a failure.

    ``end``: ends the run, with the script's own error, or None where a run of ours lost the GPU; does not return.
    """

    def __init__(self, end: Callable[[BaseException | None], None]) -> None:
        self._end = end
        self.is_lost = False
        self.where: Lost | None = None
        """The call whose compiled code lost it; None where it was elsewhere, or is not lost."""

    def end_if(
        self,
        error: BaseException,
        graph: CapturedGraph | None = None,
        call: int | None = None,
        phase: str = "",
        *,
        by_us: bool = False,
    ) -> None:
        """End the run if this error has lost the GPU. The values of the call cannot be read any more: another process holds it.

        ``graph``, ``call`` and ``phase`` name compiled code that is to blame; None where eager is. ``by_us``: it was a run of ours,
        and no fault of the script, which cannot go on here.
        """
        if is_lost(error):
            self.is_lost = True
            self.where = None if graph is None else Lost(graph.index, call, phase)
            self._end(None if by_us else error)


def is_lost(error: BaseException | None) -> bool:
    """Whether this error has left CUDA unusable."""
    return error is not None and device_error(error) == LOST

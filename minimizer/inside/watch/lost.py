"""Ends a run whose CUDA context is lost: after such an error every later CUDA call of the process fails."""

from __future__ import annotations

from collections.abc import Callable

from ..failures import LOST, device_error
from ..messages import Lost
from .captured import CapturedGraph


class LostGpu:
    """Records where the GPU was lost and ends the run there, before later CUDA errors are mistaken for failures.

    ``end``: ends the run with the script's own error, or with None if a run of ours lost the GPU; does not return.
    """

    def __init__(self, end: Callable[[BaseException | None], None]) -> None:
        self._end = end
        self.is_lost = False
        self.where: Lost | None = None
        """The call whose compiled code lost the GPU; None if other code did, or if it is not lost."""

    def end_if(
        self,
        error: BaseException,
        graph: CapturedGraph | None = None,
        call: int | None = None,
        phase: str = "",
        *,
        by_us: bool = False,
    ) -> None:
        """End the run if this error has lost the GPU. Values are no longer readable here, so another run has to hold
        the call.

        ``graph``, ``call`` and ``phase`` name the compiled code at fault; None for eager. ``by_us``: the error came
        from a run of ours and not from the script, which cannot continue either way.
        """
        if is_lost(error):
            self.is_lost = True
            self.where = None if graph is None else Lost(graph.index, call, phase)
            self._end(None if by_us else error)


def is_lost(error: BaseException | None) -> bool:
    """Whether this error has left CUDA unusable for the process."""
    return error is not None and device_error(error) == LOST

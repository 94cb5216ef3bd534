"""Redraws every rounding in the outermost calls and the backwards of an exact run without the compiler."""

from __future__ import annotations

from typing import Any

from ..referee.perturbation import Perturbation


class RedrawnInside(Perturbation):
    """A `Perturbation` that acts between `act` and `rest`.

    It is active for the whole script: the wrapper that ``torch.compile`` returns puts the thread's dispatch keys back as they were when
    the call began, so that a mode that is entered inside would leave its key behind.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._acts = False

    def act(self) -> None:
        """Redraw roundings from now on."""
        self._acts = True

    def rest(self) -> None:
        """Redraw none any more."""
        self._acts = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._acts:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

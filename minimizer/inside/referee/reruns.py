"""The referee's reruns of a call, made only when a rule needs them, each at most once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..values import launches
from ..values.boundary import places
from ..values.snapshot import clone
from . import fp64
from .call import Call, Side
from .casts import Casts, KeptCasts
from .distance import same_bits
from .jumps import SameJumps
from .perturbation import Perturbation
from .provenance import Calls, Mark, MarkedRun
from .undefined import CHOICES, Undefined

Places = Mapping[str, Tensor]
"""The tensors of one side of a call by place."""
_SEEDS = (1, 2)  # one rerun with redrawn roundings for each
_FURTHER = (3, 4, 5, 6)
_NARROW = (7, 8, 9, 10)


class _EagerRun(NamedTuple):
    """A second eager run: what it gives, and what was seen of it.

    ``histories``: for each place, the value's marks and the number of terms of the longest sum that contributed to it.
    ``why_undefined``: the operations whose results PyTorch leaves undefined.
    """

    marked: MarkedRun
    calls: Calls
    casts: Casts
    places: Places
    histories: Mapping[str, tuple[Mark, int]]
    why_undefined: str


class _Truth(NamedTuple):
    """The results in double precision; without ``places``, ``why_not`` says why the program means something else there."""

    places: Places | None = None
    outputs: Any = None
    why_not: str = ""


class Reruns:
    """Eager reruns of one call, with marks, in double precision or perturbed."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @cached_property
    def _eager_run(self) -> _EagerRun:
        marked, calls, casts, watched = MarkedRun(), Calls(), Casts(), Undefined()
        values = clone(list(self._call.inputs))
        with self._call.started(), watched, marked, calls, casts, launches.watched(marked.launched):
            side = self._eager(values)
        again, before = side.places(), places(None, self._call.inputs)
        histories = {where: (marked.marks(tensor), marked.terms_in(tensor)) for where, tensor in again.items()}
        for where in before.keys() & again.keys():
            # Some operators write to an operand without declaring it (running statistics): then its history is unknown.
            if histories[where][0] is Mark.EXACT and not same_bits(before[where], again[where]):
                histories[where] = Mark.ROUNDED, marked.terms
        return _EagerRun(marked, calls, casts, side.kept().places(), histories, " and ".join(watched.seen))

    @property
    def again(self) -> Places:
        """A second eager run."""
        return self._eager_run.places

    @property
    def histories(self) -> Mapping[str, tuple[Mark, int]]:
        """For each place, the value's marks and the number of terms of the longest sum that contributed to it."""
        return self._eager_run.histories

    @property
    def why_undefined(self) -> str:
        """The operations whose results PyTorch leaves undefined; empty if there are none."""
        return self._eager_run.why_undefined

    @cached_property
    def _truth(self) -> _Truth:
        try:
            side = self._in_double(None)
        except fp64.InvalidInFp64 as error:
            return _Truth(why_not=str(error))
        return _Truth(side.places(), side.result)

    @property
    def truth(self) -> Places | None:
        """The results in double precision; None if there is no such truth."""
        return self._truth.places

    @property
    def truth_outputs(self) -> Any:
        """The outputs among them, as the call returned them; None if there is no such truth."""
        return self._truth.outputs

    @property
    def why_no_truth(self) -> str:
        """Why the program means something else in double precision; empty if it does not."""
        return self._truth.why_not

    @cached_property
    def redrawn(self) -> list[Places]:
        """Eager runs with redrawn roundings. A run that raises is left out: a last bit may move an index out of range."""
        return self._redrawn(lambda: None)

    @cached_property
    def redrawn_further(self) -> list[Places]:
        """More of `redrawn`, for what large terms cancel to and for what hangs on subnormal numbers, which they flush to zero."""
        return self._all_under(Perturbation(seed, flushes=True) for seed in _FURTHER)

    @cached_property
    def redrawn_narrowly(self) -> list[Places]:
        """As `redrawn`, with one rounding for each sum: such a run hits a pole that the sum is next to, and a wider one misses it."""
        return self._all_under(Perturbation(seed, longest=1) for seed in _NARROW)

    @cached_property
    def truth_with_same_jumps(self) -> Places | None:
        """`truth` with every jump taken as eager took it; None if there is no such truth."""
        try:
            return self._in_double(self._eager_run.marked.jumps.again()).places()
        except fp64.InvalidInFp64:
            return None

    @cached_property
    def redrawn_with_same_jumps(self) -> list[Places]:
        """`redrawn` with every jump taken as eager took it."""
        return self._redrawn(self._eager_run.marked.jumps.again)

    def narrowest_cast(self, where: str) -> torch.dtype | None:
        """The narrowest dtype of an explicit cast that can matter at a place."""
        return self._eager_run.casts.narrowest(self._eager_run.places[where].dtype)

    @cached_property
    def truth_with_casts(self) -> Places | None:
        """`truth` with every explicit cast kept; None if there is no such truth."""
        casts = KeptCasts(self._eager_run.casts.dtypes)
        try:
            places = self._in_double(None, casts).places()
        except fp64.InvalidInFp64:
            return None
        return places if casts.agrees else None

    def _in_double(self, jumps: SameJumps | None, casts: KeptCasts | None = None) -> Side:
        run = self._eager_run
        with self._call.switches.applied():
            return fp64.run(self._eager, self._call.inputs, run.marked, run.calls, jumps, casts)

    def _redrawn(self, jumps: Callable[[], SameJumps | None]) -> list[Places]:
        return self._all_under(Perturbation(seed, jumps()) for seed in _SEEDS)

    def _all_under(self, modes: Iterable[AbstractContextManager[object]]) -> list[Places]:
        runs: list[Places] = []
        for mode in modes:
            self._run_under(mode, runs)
        return runs

    def _run_under(self, mode: AbstractContextManager[object], runs: list[Places]) -> None:
        """Add the results of an eager run under a mode to ``runs``, unless it raises."""
        values = clone(list(self._call.inputs))
        with contextlib.suppress(Exception):
            with self._call.started(), mode:
                side = self._eager(values)
            runs.append(side.kept().places())

    @cached_property
    def undefined(self) -> list[Places]:
        """Eager runs with other values for all undefined results; empty if there are no undefined results."""
        return self._all_under(map(Undefined, range(CHOICES if self.why_undefined else 0)))

    def _eager(self, values: list[Any]) -> Side:
        return self._call.on(self._call.function, values)

"""The referee's reruns of a call, made only when a rule needs them, each at most once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

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


class Reruns:
    """Eager reruns of one call, with marks, in double precision or perturbed.

    ``why_no_truth``: why the program means something else in double precision; set once `truth` was tried.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self.why_no_truth = ""
        self.truth_outputs: Any = None
        self._casts = Casts()

    @cached_property
    def _eager_run(self) -> tuple[MarkedRun, Calls, dict[str, Tensor], dict[str, tuple[Mark, int]], str]:
        marked, calls, watched = MarkedRun(), Calls(), Undefined()
        values = clone(list(self._call.inputs))
        with self._call.started(), watched, marked, calls, self._casts, launches.watched(marked.launched):
            side = self._eager(values)
        again, before = side.places(), places(None, self._call.inputs)
        histories = {where: (marked.marks(tensor), marked.terms_in(tensor)) for where, tensor in again.items()}
        for where in before.keys() & again.keys():
            # Some operators write to an operand without declaring it (running statistics): then its history is unknown.
            if histories[where][0] is Mark.EXACT and not same_bits(before[where], again[where]):
                histories[where] = Mark.ROUNDED, marked.terms
        return marked, calls, side.kept().places(), histories, " and ".join(watched.seen)

    @property
    def again(self) -> Places:
        """A second eager run."""
        return self._eager_run[2]

    @property
    def histories(self) -> Mapping[str, tuple[Mark, int]]:
        """For each place, the value's marks and the number of terms of the longest sum that contributed to it."""
        return self._eager_run[3]

    @property
    def why_undefined(self) -> str:
        """The operations whose results PyTorch leaves undefined; empty if there are none."""
        return self._eager_run[4]

    @cached_property
    def truth(self) -> Places | None:
        """The results in double precision; None, with ``why_no_truth`` set, if there is no such truth."""
        try:
            side = self._in_double(None)
        except fp64.InvalidInFp64 as error:
            self.why_no_truth = str(error)
            return None
        self.truth_outputs = side.result
        return side.places()

    @cached_property
    def redrawn(self) -> list[Places]:
        """Eager runs with redrawn roundings. A run that raises is left out: a last bit may move an index out of range."""
        return self._redrawn(lambda: None)

    @cached_property
    def redrawn_further(self) -> list[Places]:
        """More of `redrawn`, for what large terms cancel to."""
        return self._redrawn(lambda: None, _FURTHER)

    @cached_property
    def truth_with_same_jumps(self) -> Places | None:
        """`truth` with every jump taken as eager took it; None if there is no such truth."""
        try:
            return self._in_double(self._eager_run[0].jumps.again()).places()
        except fp64.InvalidInFp64:
            return None

    @cached_property
    def redrawn_with_same_jumps(self) -> list[Places]:
        """`redrawn` with every jump taken as eager took it."""
        return self._redrawn(self._eager_run[0].jumps.again)

    def narrowest_cast(self, where: str) -> torch.dtype | None:
        """The narrowest dtype of an explicit cast that can matter at a place."""
        return self._casts.narrowest(self._eager_run[2][where].dtype)

    @cached_property
    def truth_with_casts(self) -> Places | None:
        """`truth` with every explicit cast kept; None if there is no such truth."""
        assert self._eager_run  # which sees the casts
        kept = KeptCasts(self._casts.dtypes)
        try:
            places = self._in_double(None, kept).places()
        except fp64.InvalidInFp64:
            return None
        return places if kept.agrees else None

    def _in_double(self, jumps: SameJumps | None, kept: KeptCasts | None = None) -> Side:
        marked, calls, *_ = self._eager_run
        with self._call.switches.applied():
            return fp64.run(self._eager, self._call.inputs, marked, calls, jumps, kept)

    def _redrawn(self, jumps: Callable[[], SameJumps | None], seeds: Sequence[int] = _SEEDS) -> list[Places]:
        runs: list[Places] = []
        for seed in seeds:
            self._run_under(Perturbation(seed, jumps()), runs)
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
        runs: list[Places] = []
        for choice in range(CHOICES) if self.why_undefined else ():
            self._run_under(Undefined(choice), runs)
        return runs

    def _eager(self, values: list[Any]) -> Side:
        return self._call.on(self._call.function, values)

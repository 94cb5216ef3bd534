"""The referee's reruns of a call, made only when a rule needs them, each at most once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..values import launches
from ..values.boundary import places
from ..values.elements import plain
from ..values.snapshot import clone
from . import fp64
from .call import Call, Side
from .casts import Casts, KeptCasts
from .distance import same_bits, same_values
from .flushing import Flushing
from .jumps import SameJumps
from .perturbation import Perturbation
from .provenance import Calls, Mark, MarkedRun
from .undefined import CHOICES, Undefined

Places = Mapping[str, Tensor]
"""The tensors of one side of a call by place."""
_SEEDS = (1, 2)  # one rerun with redrawn roundings for each
_FURTHER = (3, 4, 5, 6)
_NARROW = range(7, 15)


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


class _Kept:
    """Runs that are made when they are asked for, and each once."""

    def __init__(self, runs: Iterator[Places]) -> None:
        self._left, self._made = runs, list[Places]()

    def __iter__(self) -> Iterator[Places]:
        at = 0
        while True:
            if at == len(self._made):
                self._made += itertools.islice(self._left, 1)
            if at == len(self._made):
                return
            yield self._made[at]
            at += 1


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
    def redrawn_further(self) -> Iterable[Places]:
        """More of `redrawn`, each made when it is asked for: for what large terms cancel to, and before a fault."""
        return _Kept(self._steady(_FURTHER))

    @cached_property
    def redrawn_narrowly(self) -> Iterable[Places]:
        """As `redrawn_further`, with one rounding for each sum: it hits a pole that the sum is next to, and a wider run misses it."""
        return _Kept(self._steady(_NARROW, longest=1))

    @cached_property
    def flushed(self) -> list[Places]:
        """An eager run with its subnormal numbers flushed to zero; empty if that raises."""
        return list(self._under([Flushing()]))

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
        return list(self._under(Perturbation(seed, jumps()) for seed in _SEEDS))

    def _steady(self, seeds: Iterable[int], **options: Any) -> Iterator[Places]:
        """Runs with redrawn roundings that give the same again: what an operator makes otherwise by itself is no rounding."""
        for seed in seeds:
            runs = list(self._under(Perturbation(seed, **options) for _ in range(2)))
            if len(runs) == 2 and _are_equal(*runs):
                yield runs[0]

    def _under(self, modes: Iterable[AbstractContextManager[object]]) -> Iterator[Places]:
        """The results of an eager run under each mode; a run that raises is left out."""
        for mode in modes:
            values, kept = clone(list(self._call.inputs)), None
            with contextlib.suppress(Exception):
                with self._call.started(), mode:
                    side = self._eager(values)
                kept = side.kept().places()
            if kept is not None:
                yield kept

    @cached_property
    def undefined(self) -> list[Places]:
        """Eager runs with other values for all undefined results; empty if there are no undefined results."""
        return list(self._under(map(Undefined, range(CHOICES if self.why_undefined else 0))))

    def _eager(self, values: list[Any]) -> Side:
        return self._call.on(self._call.function, values)


def _are_equal(one: Places, other: Places) -> bool:
    try:
        return one.keys() == other.keys() and all(
            tensor.shape == other[where].shape and bool(same_values(plain(tensor), plain(other[where])).all())
            for where, tensor in one.items()
        )
    except (RuntimeError, NotImplementedError):  # there are dtypes and layouts without a comparison
        return False

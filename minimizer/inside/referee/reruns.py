"""What the referee runs again, only as far as a decision needs it, and each rerun once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from ..values.boundary import places
from ..values.snapshot import clone, global_state, rng_state, set_rng_state
from . import fp64
from .distance import same_bits
from .jumps import SameJumps
from .perturbation import Perturbation
from .provenance import Calls, Mark, MarkedRun
from .steadiness import Program
from .undefined import CHOICES, Undefined

Side = Mapping[str, Tensor]
"""The tensors of one side of a call, by place."""
_SEEDS = (1, 2)  # repetitions with redrawn roundings


class Reruns:
    """Runs of one program on the same inputs, from the same random state and switches.

    ``why_no_truth`` says why double precision means another program, once that was found.
    """

    def __init__(self, program: Program, inputs: Sequence[Any], rng: Mapping[str, Any]) -> None:
        self._program, self._inputs, self._rng = program, inputs, rng
        self._switches = global_state()
        self.why_no_truth = ""
        self.truth_outputs: Any = None

    @cached_property
    def _eager_run(self) -> tuple[MarkedRun, Calls, dict[str, Tensor], dict[str, tuple[Mark, int]], str]:
        marked, calls, watched = MarkedRun(), Calls(), Undefined()
        values = clone(list(self._inputs))
        with self._same_start(), watched, marked, calls:
            result = self._program(values)
        again, before = places(*result), places(None, self._inputs)
        histories = {where: (marked.marks(tensor), marked.terms_in(tensor)) for where, tensor in again.items()}
        for where in before.keys() & again.keys():
            # Some operators write to an operand without saying so (running statistics): then its history is unknown.
            if histories[where][0] is Mark.EXACT and not same_bits(before[where], again[where]):
                histories[where] = Mark.ROUNDED, marked.terms
        return marked, calls, again, histories, " and ".join(watched.seen)

    @property
    def again(self) -> Side:
        """A second eager run."""
        return self._eager_run[2]

    @property
    def histories(self) -> Mapping[str, tuple[Mark, int]]:
        """By place, how a value came about: its marks, and the terms of the longest sum that flowed into it."""
        return self._eager_run[3]

    @property
    def why_undefined(self) -> str:
        """What leaves results open; empty where nothing does."""
        return self._eager_run[4]

    @cached_property
    def truth(self) -> Side | None:
        """The results in double precision; None, with ``why_no_truth``, where there is no such thing."""
        try:
            result = self._in_double(None)
        except fp64.InvalidInFp64 as error:
            self.why_no_truth = str(error)
            return None
        self.truth_outputs = result[0]
        return places(*result)

    @cached_property
    def redrawn(self) -> list[Side]:
        """Eager runs whose roundings were drawn anew, those that came to an end: a last bit may move an index out of range."""
        return self._redrawn(lambda: None)

    @cached_property
    def truth_with_same_jumps(self) -> Side | None:
        """`truth` with every jump taken as eager took it; None where there is no such thing."""
        try:
            return places(*self._in_double(self._eager_run[0].jumps.again()))
        except fp64.InvalidInFp64:
            return None

    @cached_property
    def redrawn_with_same_jumps(self) -> list[Side]:
        """`redrawn` with every jump taken as eager took it."""
        return self._redrawn(self._eager_run[0].jumps.again)

    def _in_double(self, jumps: SameJumps | None) -> Any:
        marked, calls, *_ = self._eager_run
        with self._switches.applied():
            return fp64.run(self._program, self._inputs, marked, calls, jumps)

    def _redrawn(self, jumps: Callable[[], SameJumps | None]) -> list[Side]:
        runs: list[Side] = []
        for seed in _SEEDS:
            values = clone(list(self._inputs))
            with self._same_start(), Perturbation(seed, jumps()), contextlib.suppress(Exception):
                runs.append(places(*self._program(values)))
        return runs

    @cached_property
    def undefined(self) -> list[Side]:
        """Eager runs with other results wherever PyTorch leaves them open; none where it never does."""
        runs: list[Side] = []
        for choice in range(CHOICES) if self.why_undefined else ():
            values = clone(list(self._inputs))
            with self._same_start(), Undefined(choice), contextlib.suppress(Exception):
                runs.append(places(*self._program(values)))
        return runs

    @contextlib.contextmanager
    def _same_start(self) -> Iterator[None]:
        """The random state and the switches of the call; a program may change them for what comes after it."""
        before = rng_state()
        set_rng_state(dict(self._rng))
        try:
            with self._switches.applied():
                yield
        finally:
            set_rng_state(before)

"""Records the results of an eager run's jumps, so that a rerun can take every jump the same way.

A jump (argmax, floor, round, a comparison, a cast to an integer ...) turns a last bit into a whole step, so that two correct runs may
diverge there. Values behind a jump cannot be judged against a run that went the other way, whose error can have any size.
With all jumps taken as in eager, reruns in double precision or with redrawn roundings differ from eager by rounding only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..values.rounding import is_inexact, jumps, name_by_effect, tensors


class JumpsDiffer(Exception):
    """A rerun reaches other jumps than eager, as a program does that branches on a dtype or on a value it reads."""


Jump = tuple[str, tuple[Tensor, ...]]
"""The name of an operator, and those of its results that are jumps."""


class Jumps:
    """The recorded jumps of one run, in order."""

    def __init__(self) -> None:
        self._taken: list[Jump] = []

    def note(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Record an operator's result, if it is a jump."""
        if found := _jumping(func, args, kwargs, result):
            name = name_by_effect(func, args, kwargs)
            self._taken.append((name, tuple(output.detach().clone() for output in found)))

    def again(self) -> SameJumps:
        """The same jumps, to be taken by one rerun."""
        return SameJumps(iter(self._taken))


class SameJumps:
    """The jumps that a rerun has not reached yet."""

    def __init__(self, taken: Iterator[Jump]) -> None:
        self._taken = taken

    def take(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Overwrite the results of an operator that jumps with the values of the first run.

        Raises:
            JumpsDiffer: the first run had another jump here.
        """
        found = _jumping(func, args, kwargs, result)
        if not found:
            return
        name, kept = next(self._taken, ("", ()))
        is_same = name == name_by_effect(func, args, kwargs) and [t.shape for t in kept] == [t.shape for t in found]
        if not is_same:
            raise JumpsDiffer(name)
        with torch.no_grad():
            for output, value in zip(found, kept, strict=True):
                output.copy_(value)


def _jumping(func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> Sequence[Tensor]:
    """The results that may change by a whole step if an operand changes by a last bit (whether one does is not checked)."""
    operands = tensors((args, kwargs))
    if not any(map(is_inexact, operands)):
        return ()
    outputs = tensors(result)
    if jumps(name_by_effect(func, args, kwargs), kwargs, operands):
        return outputs
    return [output for output in outputs if not is_inexact(output)]

"""What the jumps of an eager run gave, so that a rerun can take every jump the same way.

A jump (argmax, floor, round, a comparison, a cast to an integer ...) makes a whole step of a last bit, so that two correct runs may
part at it. What is computed behind it cannot be judged against a run that went the other way, whose error is of any size.
With all jumps as eager took them, reruns in double precision or with roundings redrawn differ from eager by rounding alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..values.rounding import is_inexact, jumps, name_by_effect, tensors


class JumpsDiffer(Exception):
    """A rerun does not come to the same jumps, as a program that branches on a dtype or on a value that is read."""


Jump = tuple[str, tuple[Tensor, ...]]
"""The name of an operator, and those of its results that jump."""


class Jumps:
    """The jumps of one run, in order."""

    def __init__(self) -> None:
        self._taken: list[Jump] = []

    def note(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Keep what an operator gave, if it jumps."""
        if found := _jumping(func, args, kwargs, result):
            name = name_by_effect(func, args, kwargs)
            self._taken.append((name, tuple(output.detach().clone() for output in found)))

    def again(self) -> SameJumps:
        """For one rerun."""
        return SameJumps(iter(self._taken))


class SameJumps:
    """The jumps that are still to come in a rerun."""

    def __init__(self, taken: Iterator[Jump]) -> None:
        self._taken = taken

    def take(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Give the results of an operator that jumps the values of the first run.

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
    """The results that may be off by a whole step, where an operand is off by a last bit; whether it is, is not asked."""
    operands = tensors((args, kwargs))
    if not any(map(is_inexact, operands)):
        return ()
    outputs = tensors(result)
    if jumps(name_by_effect(func, args, kwargs), kwargs, operands):
        return outputs
    return [output for output in outputs if not is_inexact(output)]

"""Whether the random numbers of compiled code come from the distribution that eager's come from.

Inductor's own random operators have a generator of their own, so that no value can be compared with eager's. What can is how values are
spread over many runs. Runs are independent, whatever the elements of one run have to do with each other, so Welch's t of a figure of each
run is a test that a dropout of whole channels does not mislead.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..values import snapshot
from ..values.rounding import tensors

RUNS = 48
"""Runs of each side in a round, each under a seed of its own."""
ROUNDS = (1, 1 + RUNS)
"""The first seed of each round; a figure must be apart in all of them, in the same direction."""
LARGEST_T, LEAST_EFFECT = 7.0, 0.02
"""How many standard errors, and how much of a figure's range of about one, both sides have to be apart."""
SECONDS = 10.0
"""Seconds after which no further run begins."""
MOST_ELEMENTS = 1 << 18
"""Elements of a result; of more, the runs would take longer than all that is compared of most scripts."""
DISTINCT = "distinct"
"""The figure of a round as a whole: the number of different results."""
Figures = dict[str, Tensor]
"""For each figure its value in every run, in float64."""


class Runs(NamedTuple):
    """Runs of one side: their figures, and the number of different results."""

    figures: Figures
    distinct: int


class Apart(NamedTuple):
    """A figure in which both sides are apart, with its mean over the runs of the first round."""

    figure: str
    eager: float
    compiled: float

    def __str__(self) -> str:
        if self.figure == DISTINCT:
            return "the same numbers in each run"
        return (
            f"from another distribution than eager ({self.figure}: {self.eager:.3g} in eager, {self.compiled:.3g} compiled, "
            f"in each of two rounds of {RUNS} runs)"
        )


def compared(eager: Callable[..., Any], compiled: Callable[..., Any], inputs: Sequence[Any]) -> Apart | None:
    """How the results of a function differ from those of its compiled version; None if they are not seen to, or are too large or empty.

    Args:
        inputs: what both are called with, on copies.

    Raises:
        TimeoutError: the runs take too long.
        Exception: whatever either function raises.
    """
    with torch.no_grad():
        if elements_of(eager(*snapshot.clone(list(inputs)))).numel() not in range(1, MOST_ELEMENTS):
            return None
    deadline = time.monotonic() + SECONDS
    rounds = [[_runs(side, inputs, first, deadline) for side in (eager, compiled)] for first in ROUNDS]
    return difference(*((one, other) for one, other in rounds))


def difference(*rounds: tuple[Runs, Runs]) -> Apart | None:
    """How the runs of eager and of compiled code differ in every round; None if they do not."""
    if all(one.distinct == RUNS and 2 * other.distinct <= RUNS for one, other in rounds):
        return Apart(DISTINCT, *(float(side.distinct) for side in rounds[0]))
    first, *others = (other_figures(one.figures, other.figures) for one, other in rounds)
    for name, (expected, actual) in first.items():
        if all(name in more and (more[name][0] < more[name][1]) == (expected < actual) for more in others):
            return Apart(name, expected, actual)
    return None


def figures_of(values: Tensor) -> dict[str, Tensor]:
    """Figures of how the elements of a run are spread: bounded ones, so that a heavy tail does not decide.

    Args:
        values: a vector of float64 with at least one element.
    """
    squashed = values.nan_to_num().atan()
    return {
        "zeros": (values == 0).double().mean(),
        "NaN": values.isnan().double().mean(),
        "mean": squashed.mean(),
        "square": squashed.square().mean(),
        "least": squashed.min(),
        "largest": squashed.max(),
        "neighbours": (squashed[1:] * squashed[:-1]).mean() if len(values) > 1 else squashed[0],
    }


def other_figures(expected: Figures, actual: Figures) -> dict[str, tuple[float, float]]:
    """The means of figures over the runs of both sides, where these are too far apart to be chance."""
    apart = {}
    for name, one in expected.items():
        other = actual[name]
        difference = (one.mean() - other.mean()).abs().item()
        error = ((one.var() + other.var()) / len(one)).sqrt().item()
        if difference >= LEAST_EFFECT and difference > LARGEST_T * error:
            apart[name] = (one.mean().item(), other.mean().item())
    return apart


def _runs(function: Callable[..., Any], inputs: Sequence[Any], first: int, deadline: float) -> Runs:
    """What a function returns from one seed after another.

    Raises:
        TimeoutError: the time is over.
    """
    found: dict[str, list[Tensor]] = {}
    seen = set[int]()
    for seed in range(first, first + RUNS):
        if time.monotonic() > deadline:
            raise TimeoutError
        torch.manual_seed(seed)
        with torch.no_grad():
            values = elements_of(function(*snapshot.clone(list(inputs))))
        seen.add(hash(ctypes.string_at(values.data_ptr(), values.nbytes)))
        for name, value in figures_of(values).items():
            found.setdefault(name, []).append(value)
    return Runs({name: torch.stack(each) for name, each in found.items()}, len(seen))


def elements_of(result: Any) -> Tensor:
    """All elements of a result, as a vector of float64 on the CPU.

    Raises:
        ValueError: a tensor has no plain storage.
    """
    if not all(map(snapshot.has_plain_storage, tensors(result))):
        raise ValueError("a result has no plain storage")
    values = [torch.view_as_real(one) if one.is_complex() else one for one in tensors(result)]
    return torch.cat([one.detach().double().cpu().flatten() for one in values])

"""Whether the results of compiled code are off to one side, where each of them is within rounding: what training adds up in every step.

The measure is the mean signed error of a result's elements against double precision, in roundings: units of its dtype's ``eps`` at the
size of its values. Rounding to nearest has a mean of zero, and cutting off what does not fit has one of about a third of a rounding towards zero,
in every call. Each call of a graph is one sample.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..values.elements import plain
from .distance import in_double

LEAST_CALLS = 8
STANDARD_ERRORS = 4.0
LEAST = 0.1
"""Roundings by which a mean must be off: a last bit of a few elements is nobody's loss."""
TIMES_EAGER = 3.0
"""How many times as far as eager's is in any call: inputs that hardly change from call to call leave the same mean in each, on both sides."""
MOST_SPREAD = 16.0
"""Roundings that eager's elements may be off in the root mean square: where large terms cancel, what is left of their roundings has any mean."""
ALONG, OUTWARDS = ("upwards", "downwards"), ("away from zero", "towards zero")


class Sample(NamedTuple):
    """The mean signed errors of a result's ``elements`` in one call, in roundings: along the axis of numbers, away from zero, and their root mean square."""

    along: float
    outwards: float
    spread: float
    elements: int


@dataclass(frozen=True)
class Bias:
    """A mean over calls that is off to a ``side``, with its standard error, and that of eager."""

    side: str
    calls: int
    mean: float
    error: float
    eager: float


def sample(value: Tensor, truth: Tensor) -> Sample | None:
    """The mean signed errors of a value against double precision; None where they say nothing: it holds no finite number but zero."""
    with torch.no_grad():
        x, t = in_double(plain(value)).reshape(-1), in_double(plain(truth)).reshape(-1)
        if x.is_complex() or x.shape != t.shape:
            return None
        finite = x.isfinite() & t.isfinite()
        x, t = x[finite], t[finite]
        size = float(t.square().mean().sqrt()) if t.numel() else 0.0
        if not size:
            return None
        errors = (x - t) / (size * torch.finfo(value.dtype).eps)
        return Sample(
            float(errors.mean()),
            float((errors * t.sign()).mean()),
            float(errors.square().mean().sqrt()),
            errors.numel(),
        )


def bias(eager: Sequence[Sample], compiled: Sequence[Sample]) -> Bias | None:
    """The bias of compiled results over calls, where eager's have none like it; ``eager``: those of the same calls."""
    calls = len(compiled)
    if calls < LEAST_CALLS or statistics.median(one.spread for one in eager) > MOST_SPREAD:
        return None
    for index, sides in enumerate((OUTWARDS, ALONG)):
        own, other = [one[1 - index] for one in eager], [one[1 - index] for one in compiled]
        mean = statistics.fmean(other)
        # Calls on equal inputs are one sample: then the elements alone have to show it.
        of_elements = statistics.fmean(one.spread / math.sqrt(one.elements) for one in compiled)
        error = max(max(statistics.stdev(other), statistics.stdev(own)) / math.sqrt(calls), of_elements)
        beyond = mean - statistics.fmean(own)
        least = max(LEAST, STANDARD_ERRORS * error, TIMES_EAGER * max(map(abs, own)))
        if math.isfinite(mean) and abs(mean) > least and abs(beyond) > STANDARD_ERRORS * error:
            return Bias(sides[mean < 0], calls, abs(mean), error, statistics.fmean(own) * math.copysign(1, mean))
    return None

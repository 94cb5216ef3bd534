"""Groups the elements of a result by order of magnitude; each group is judged as if it were the whole result.

An additive mask of -1e9 is rounded to 64. As a bound on the error of scores of about 1 next to it, that would excuse
anything. A continuous distribution of values, however wide, is one group, since its small values may result from
cancellation of large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import torch
from torch import Tensor

GAP = 10
"""Empty binary orders of magnitude that separate two groups."""
LEAST = 16
"""Fewest elements of a group below another.

Fewer are judged together with the next larger ones, whose errors are more representative.
"""


def magnitudes(reference: Tensor) -> Sequence[Tensor | EllipsisType]:
    """Masks of the groups, from the smallest values to the largest; an ellipsis for a single one. They partition the
    elements.

    Zeros and non-finite values are in the first.

    Args:
        reference: in double precision.
    """
    sizes = reference.abs()
    is_known = sizes.isfinite() & (sizes > 0)
    orders = sizes[is_known].log2().floor().to(torch.int64)
    if orders.numel() == 0:
        return [...]
    lowest = int(orders.min())
    counts = torch.bincount(orders - lowest).tolist()
    groups, first, elements, empty = [], lowest, 0, 0
    for order, count in enumerate(counts, lowest):
        if count and empty >= GAP and elements >= LEAST:
            groups.append(range(first, order))
            first, elements = order, 0
        elements += count
        empty = 0 if count else empty + 1
    groups.append(range(first, lowest + len(counts)))
    if len(groups) == 1:
        return [...]
    everywhere = torch.where(is_known, sizes, 0.0).log2()
    masks = [is_known & (everywhere >= group.start) & (everywhere < group.stop) for group in groups]
    masks[0] |= ~is_known
    return masks

"""Checks whether eager is deterministic, and whether it draws random numbers.

The compiler is not blamed for a failure that is flaky in eager too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..values.rounding import generator_states
from ..values.snapshot import global_state
from .call import Call, Side
from .compare import compare
from .verdict import Verdict

EAGER_RUNS, EAGER_SECONDS = 6, 10.0
"""Most eager runs, and seconds after which none begins, before the compiler is blamed for a difference that may be eager's flakiness."""


def steady(call: Call, verdict: Verdict) -> Verdict | None:
    """A fault without the places at which eager is not deterministic: there the compiler is not to blame.

    ``verdict`` itself if eager is steady, None if nothing is left of it. One without differences stands for an exception.
    """
    moved = _moving(call, {difference.where for difference in verdict.differences})
    if not moved:
        return None if moved is None else verdict
    left = [difference for difference in verdict.differences if difference.where not in moved]
    return replace(verdict, kind=left[0].kind, differences=left) if left else None


def _moving(call: Call, wrong: set[str]) -> set[str] | None:
    """Those of the ``wrong`` places at which eager differs from itself, given the same inputs and random state; None if its exception does.

    The referee's single eager rerun shows differences that always occur; rare ones need more runs, which only a fault justifies.
    At most `EAGER_RUNS`, none begun after `EAGER_SECONDS`.
    """
    stop = time.monotonic() + EAGER_SECONDS
    first: tuple[dict[str, Tensor], str] | None = None
    moved = set[str]()
    for _ in range(EAGER_RUNS):
        found = _run_once(call)
        first = first or found
        if found[1] != first[1]:
            return None
        both = (where for where in wrong if where in first[0] and where in found[0])
        moved |= {where for where in both if compare(Side(first[0][where]), Side(found[0][where]))}
        if (wrong and moved >= wrong) or time.monotonic() > stop:
            break
    return moved


def _run_once(call: Call) -> tuple[dict[str, Tensor], str]:
    """The results by place, or the name of the exception."""
    try:
        return call.run(call.function).places(), ""
    except Exception as error:
        return {}, type(error).__name__


class _RandomOperators(TorchDispatchMode):
    """Sees whether an operator that may draw random numbers is called, also where it refuses what it is given."""

    supports_higher_order_operators = True
    called = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called |= torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
        return func(*args, **(kwargs or {}))


def asks_for_draws(function: Callable[..., Any], inputs: Sequence[Any]) -> bool:
    """Whether a function that raises calls an operator that may draw random numbers before that, or is refused by one.

    Runs it once on these inputs, which it may change.
    """
    seen = _RandomOperators()
    with global_state().applied(), contextlib.suppress(Exception), seen:
        function(*inputs)
    return seen.called


def is_random(function: Callable[..., Any], inputs: Sequence[Any]) -> bool:
    """Whether the function draws random numbers; runs it once on these inputs, which it may change.

    Uses no dispatch mode, since ``torch.func`` transforms may fail under one even in eager.
    """
    before = generator_states()
    with global_state().applied():  # a graph may change the switches, and they must be restored
        function(*inputs)
    after = generator_states()
    return len(before) != len(after) or any(not torch.equal(one, two) for one, two in zip(before, after, strict=True))

"""A call of a graph that communicates, as one rank can make it again: in eager, and compiled for its backward."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..graph.severed import SeveredGraph, Unmatched
from ..referee.call import Call, Side
from ..values.capturing import runs_cuda_graphs
from ..values.communication import IN_CUDA_GRAPHS, Heard, Replay
from ..values.rounding import generator_states
from .captured import CapturedGraph

DRAWS = "it draws random numbers by Inductor's own generator; with torch._inductor.config.fallback_random = True in the script it is compared"
MOST_REPLAYED = 2 << 30
"""Bytes of what collectives returned that are kept for backward passes, most of them in files; the gradients of further calls are left out."""


@dataclass(frozen=True)
class OneRank:
    """Eager's side of a compiled call, without its collectives.

    ``call``: of the severed graph, which takes ``returned`` after the graph's own inputs. ``given``: what compiled code gave to its
    collectives, as results. ``expected``: eager's side.
    """

    call: Call
    returned: Sequence[Tensor]
    given: Sequence[Tensor]
    expected: Side


def run_without_collectives(graph: CapturedGraph, severed: SeveredGraph, call: Call, heard: Sequence[Heard]) -> OneRank:
    """Run a call in eager, with what compiled code heard in the place of its collectives.

    Raises:
        Unmatched: eager would not make the same call.
        Exception: of eager, on values that the compiler may have got wrong.
    """
    if runs_cuda_graphs():
        raise Unmatched(IN_CUDA_GRAPHS)
    with call.started():
        returned, given = severed.apart(call.inputs, heard)
    draws = False

    def run(*values: Any) -> Any:
        nonlocal draws
        before = generator_states()
        result = severed.module(*values)
        after = generator_states()
        draws = len(before) != len(after) or not all(map(torch.equal, before, after))
        return result

    call = replace(call, function=severed.module, inputs=[*call.inputs, *returned])
    expected = call.run(run)
    if draws and not graph.draws_eagers:
        raise Unmatched(DRAWS)
    return OneRank(replace(call, random=call.random or draws), returned, given, expected)


class Replays:
    """What the calls that wait for their backward have heard, within `MOST_REPLAYED`."""

    def __init__(self) -> None:
        self._kept = weakref.WeakSet[Replay]()

    def keep(self, heard: Sequence[Heard]) -> Replay | None:
        """What a call has heard, for as long as the caller keeps it; None if that is too much."""
        replay = Replay(heard)
        if sum(kept.nbytes for kept in self._kept) + replay.nbytes > MOST_REPLAYED:
            return None
        self._kept.add(replay)
        return replay

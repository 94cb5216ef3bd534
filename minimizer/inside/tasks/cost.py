"""Measures the cost of a program in eager and compiled: the trial of a job that reduces a finding which is a figure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch._inductor.config
from torch.multiprocessing.reductions import StorageWeakRef

from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import LEAST_TURNS, CostRequest
from ..values import snapshot
from ..values.rounding import tensors
from ..values.saved import saved_bytes
from ..watch.timed_turns import Turn, seconds_of, turn_of
from ..wire import Channel, Message
from .trial import Trial

Function = Callable[..., Any]
TURNS, TURNING_SECONDS = 20, 10.0
"""Most turns of calls, and the seconds after which no more than `LEAST_TURNS` are run.

The minimum time of each side counts, as in the repro: other load of the machine only adds to it.
"""


class Cost(NamedTuple):
    """The cost of a compiled program and its base for comparison, in seconds or bytes."""

    base: float
    compiled: float


def measure_cost(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `CostRequest` with an `Outcome` that has the cost, unless either side raises."""
    request = CostRequest.read(message)
    torch._inductor.config.compile_threads = request.threads or 1
    trial = Trial(request, channel)
    measure = COSTS[request.of]

    def costs(function: Function, inputs: list[Any]) -> Outcome:
        return Outcome(Ending.SAME, cost=measure(trial, function, inputs)._asdict())

    channel.send(measured(trial, channel, costs))


def measured(trial: Trial, channel: Channel, measure: Callable[[Function, list[Any]], Outcome]) -> Outcome:
    """What ``measure`` answers for a program and its inputs, unless it cannot be run in eager, or when compiled."""
    try:
        function, inputs = trial.load()
        call = trial.call_of(function, inputs)
    except Exception as error:
        return Outcome.of_error(Ending.SETUP_ERROR, error)
    with call.started():
        channel.send(Phase(phase="eager"))
        try:
            function(*snapshot.clone(inputs))
        except Exception as error:
            return Outcome.of_error(Ending.EAGER_ERROR, error)
        channel.send(Phase(phase="compiled"))
        try:
            return measure(function, inputs)
        except Exception as error:
            return Outcome.raised(error)


def _of_calls(trial: Trial, function: Function, inputs: list[Any]) -> Cost:
    """Seconds of the fastest call of each side."""
    compiled = trial.compile(function)
    compiled(*snapshot.clone(inputs))
    turns, until = list[Turn](), time.perf_counter() + TURNING_SECONDS
    while len(turns) < LEAST_TURNS or (len(turns) < TURNS and time.perf_counter() < until):
        turns.append(turn_of(function, compiled, inputs))
    return Cost(*map(min, zip(*turns, strict=True)))


def _of_memory(trial: Trial, function: Function, inputs: list[Any]) -> Cost:
    """Bytes of all storages that autograd saves in a call, except those of inputs, as counted by the repro."""
    return Cost(saved_by(function, inputs), saved_by(trial.compile(function), inputs))


def saved_by(function: Function, inputs: list[Any]) -> int:
    """Bytes of all storages that autograd saves in a call on copies of these inputs, without the copies themselves."""
    copies = snapshot.clone(inputs)
    given = {StorageWeakRef(one.untyped_storage()) for one in tensors(copies) if snapshot.has_plain_storage(one)}
    with saved_bytes() as saved:
        function(*copies)
    return sum(size for storage, size in saved.items() if storage not in given)


def _of_compiling(trial: Trial, function: Function, inputs: list[Any]) -> Cost:
    """Seconds of compiling, and those of a single operator; no cache is read, and the compiler is already warm."""
    torch._inductor.config.force_disable_caches = True
    small = [torch.ones(8, device=_device_of(inputs))]
    kwargs = trial.compile_kwargs(function)
    _seconds(torch.neg, small, kwargs)
    return Cost(_seconds(torch.neg, small, kwargs), _seconds(function, inputs, kwargs))


def _seconds(function: Function, inputs: list[Any], kwargs: dict[str, Any]) -> float:
    """Seconds by which a first compiled call takes longer than a second one."""
    torch._dynamo.reset()
    compiled = torch.compile(function, **kwargs)
    first, second = seconds_of(compiled, inputs), seconds_of(compiled, inputs)
    return max(0.0, first - second)


def _device_of(inputs: list[Any]) -> torch.device:
    return next((one.device for one in inputs if isinstance(one, torch.Tensor)), torch.device("cpu"))


COSTS: dict[str, Callable[[Trial, Function, list[Any]], Cost]] = {
    "slow": _of_calls,
    "memory": _of_memory,
    "compile_time": _of_compiling,
}

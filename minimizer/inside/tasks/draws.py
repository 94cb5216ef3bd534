"""Compares the random numbers of a program by their distribution: the trial of a job that reduces a difference there."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import config

from ..outcome import Ending, Outcome
from ..questions import DrawsRequest
from ..referee import distributions
from ..values import snapshot
from ..wire import Channel, Message
from .cost import Function, measured
from .trial import Trial


def measure_draws(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `DrawsRequest` with an `Outcome` that says how both sides are apart, unless either raises."""
    request = DrawsRequest.read(message)
    config.compile_threads = request.threads or 1
    trial = Trial(request, channel)

    def draws(function: Function, inputs: list[Any]) -> Outcome:
        with config.patch(fallback_random=request.fallback), torch.no_grad():
            compiled = trial.compile(function)
            compiled(*snapshot.clone(inputs))  # not within the time of the runs
            apart = distributions.compared(function, compiled, inputs)
        return Outcome(Ending.SAME, apart=apart._asdict() if apart is not None else None)

    channel.send(measured(trial, channel, draws))

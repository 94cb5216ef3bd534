"""A run of a script that notes its loss: compiled, in eager, or in eager with every rounding of its graphs redrawn."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._dynamo.config
import torch._inductor.config
from torch import fx
from torch._dynamo.repro import after_dynamo

from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import CurveRequest
from ..referee.perturbation import Perturbation
from ..watch.attempts import Attempts
from ..watch.line import end_with
from ..watch.losses import Losses
from ..wire import Channel, Message
from .random_start import RandomStart
from .script_run import what_ends


def loss_curve(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `CurveRequest` with one `Outcome`, whose ``curve`` holds the losses."""
    request, begun = CurveRequest.read(message), time.monotonic()
    # Both sides draw the same random numbers.
    torch._inductor.config.fallback_random = True
    torch._inductor.config.compile_threads = max(1, len(os.sched_getaffinity(0)))
    inside: AbstractContextManager[object] = nullcontext()
    if request.redrawn is not None:
        inside = Perturbation(request.redrawn)
        _run_graphs(inside)
    elif not request.compile:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    for name, value in request.config.items():
        setattr(torch._inductor.config, name, value)
    attempts, start = Attempts(lambda: None), RandomStart(0)

    def finish(error: BaseException | None = None) -> None:
        outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
        outcome.attempted, outcome.draws = attempts.any, start.is_left
        outcome.curve = {**losses.told(), "took": time.monotonic() - begun}
        channel.send(outcome)

    def end_late(seconds: float, steps: int) -> None:
        if seconds > request.seconds or steps >= request.steps:
            end_with(finish)

    # With compiled autograd a backward is a graph, and Dynamo compiles nothing while a mode of operators is on.
    around = nullcontext() if torch._dynamo.config.compiled_autograd else inside
    losses = Losses(lambda: around, end_late)
    channel.send(Phase(phase="loss"))
    finish(what_ends(request.script, request.args, request.text))


def _run_graphs(inside: AbstractContextManager[object]) -> None:
    """Let eager's kernels run all graphs of the rest of this process, in these surroundings."""

    def compile_graph(wrapper: Any, module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        def run(*args: Any) -> Any:
            with inside:
                return module(*args)

        return run

    after_dynamo.WrapBackendDebug.__call__ = compile_graph  # type: ignore[method-assign, assignment]

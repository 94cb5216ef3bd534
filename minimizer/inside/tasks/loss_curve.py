"""A run of a script that records its loss: compiled, in eager, or in eager with every rounding of its graphs redrawn."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._dynamo.config
import torch._inductor.config
from torch import fx

from ..compiler.backend_place import Compile, Compiled, take_place
from ..outcome import Ending, Outcome
from ..questions import CurveRequest
from ..referee.perturbation import Perturbation
from ..watch.attempts import Attempts
from ..wire import Channel, Message
from .training import Training


def loss_curve(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `CurveRequest` with one `Outcome`, whose ``curve`` holds the losses."""
    request, begun = CurveRequest.read(message), time.monotonic()
    inside: AbstractContextManager[object] = nullcontext()
    if request.redrawn is not None:
        inside = Perturbation(request.redrawn)
        _run_graphs(inside)
    elif not request.compile:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    for name, value in request.config.items():
        setattr(torch._inductor.config, name, value)
    attempts = Attempts(lambda: None)

    def finish(error: BaseException | None = None) -> None:
        outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
        outcome.attempted, outcome.draws = attempts.any, training.start.is_left
        outcome.curve = {**training.losses.told(), "took": time.monotonic() - begun}
        channel.send(outcome)

    # With compiled autograd a backward is a graph, and Dynamo compiles nothing under a dispatch mode.
    training = Training(request, finish, lambda: nullcontext() if torch._dynamo.config.compiled_autograd else inside)
    finish(training.run(channel))


def _run_graphs(inside: AbstractContextManager[object]) -> None:
    """Let eager's kernels run all graphs of the rest of this process, inside this context."""

    def compile_graph(backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Compiled:
        def run(*args: Any) -> Any:
            with inside:
                return module(*args)

        return run

    take_place(compile_graph)

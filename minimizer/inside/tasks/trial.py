"""One trial: does this program fail, and how? Runs in its own fork, and reports each phase before it begins.

The candidate is source text, as it would stand in ``repro.py``. It runs first in eager (a candidate that raises both there and
compiled is invalid), then through the public ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config

from ..compiler import subsystems
from ..compiler.operators import Operators
from ..failures import LOST, describe, device_error
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import TrialRequest
from ..referee import referee, steadiness
from ..referee.call import Call
from ..values import snapshot
from ..values.boundary import places
from ..values.device import settle
from ..wire import Channel, Message

MANY = 100
"""Most differentiable outputs that are reported; no repro is written for more."""


def judge(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `TrialRequest` with an `Outcome` for each compilation.

    Stops after a compilation that lost the GPU.
    """
    request = TrialRequest.read(message)
    torch._inductor.config.compile_threads = request.threads or 1
    subsystems.install(request.switches, channel)
    trial = Trial(request, channel)
    for outcome in trial.run():
        channel.send(replace(outcome, writes=trial.writes, differentiated=trial.differentiated))


def observe(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer with the aten operators (packet names, in order) that a candidate runs in eager, up to an error.

    The outcome has that error.
    """
    request = TrialRequest.read(message)
    function, inputs = Trial(request, channel).load()
    raised = None
    with Operators() as operators, torch.set_grad_enabled(request.grad):
        try:
            function(*inputs)
        except Exception as error:
            raised = describe(error)
    channel.send(Outcome(Ending.SAME, exception=raised, ops=operators.seen))


class Trial:
    """Loads, compiles and judges the program of a request."""

    def __init__(self, request: TrialRequest, channel: Channel) -> None:
        self._request, self._channel = request, channel
        self.writes: list[int] = []
        self.differentiated: dict[str, str] = {}

    def run(self) -> Iterator[Outcome]:
        """Yield the outcome of each compilation; after several, one more (``nondeterministic``) if eager itself is unsteady."""
        self._phase("setup")
        try:
            function, inputs = self.load()
        except Exception as error:
            yield Outcome.of_error(Ending.SETUP_ERROR, error)
            return
        call = self.call_of(function, inputs)
        wanted = self._request.compilations
        stop = float("inf")
        done = failed = 0
        wrong: set[str] = set()
        while done < wanted and failed < self._request.failures and time.monotonic() < stop:
            if done:
                torch._dynamo.reset()
            outcome = self._compare(call)
            yield outcome
            if outcome.exception is not None and outcome.exception.device == LOST:
                return
            if not done:
                stop = time.monotonic() + self._request.seconds
            done, failed = done + 1, failed + (outcome.ending is not Ending.SAME)
            if outcome.ending is Ending.DIFFERENT and outcome.verdict is not None:
                wrong.update(difference.where for difference in outcome.verdict.differences)
        if wanted > 1 and failed and not self._is_steady(call, wrong):
            yield Outcome(Ending.NONDETERMINISTIC)

    def call_of(self, function: Any, inputs: list[Any]) -> Call:
        """A call from the current random and global state, with the contexts, the grad mode and the tolerance of the request."""
        request, outside = self._request, snapshot.global_state()
        with contextlib.ExitStack() as stack:
            for context in request.around:
                stack.enter_context(eval(context, {"torch": torch}))
            switches = replace(snapshot.global_state(), grad=request.grad)
        return Call(
            function,
            inputs,
            snapshot.rng_state(),
            switches,
            random=shares_random_numbers(),
            tolerance=request.tolerance,
            backward=outside if request.around else None,
        )

    def _is_steady(self, call: Call, wrong: set[str]) -> bool:
        """Whether eager is deterministic; if not, a flaky failure is not the compiler's."""
        self._phase("eager")
        is_of_gradients = any(where.startswith("grad") for where in wrong)
        return steadiness.is_steady(call.behind(None) if is_of_gradients else call, wrong)

    def _compare(self, call: Call) -> Outcome:
        self._phase("eager")
        # Not by `Call.run`: the mutated inputs are needed even if the call raises.
        expected_inputs = snapshot.clone(call.inputs)
        eager_error: Exception | None = None
        try:
            with call.started():
                expected = call.on(call.function, expected_inputs)
                settle()
        except Exception as error:
            if device_error(error) == LOST:
                return Outcome.of_error(Ending.EAGER_ERROR, error)
            eager_error = error
        changed = zip(call.inputs, expected_inputs, strict=True)
        self.writes = [index for index, pair in enumerate(changed) if not _unchanged(*pair)]
        returned = places(expected.result).items() if call.switches.grad and eager_error is None else ()
        starts = {where: str(output.dtype) for where, output in returned if output.requires_grad}
        self.differentiated = starts if len(starts) <= MANY else {}
        self._phase("compiled")
        try:
            compiled = self.compile(call.function)
            actual = call.run(compiled)
        except Exception as error:
            if eager_error is not None:
                return Outcome.of_error(Ending.EAGER_ERROR, eager_error)
            return Outcome.raised(error)
        if eager_error is not None:
            return Outcome.of_error(Ending.MISSING_ERROR, eager_error)
        self._phase("compare")
        try:
            verdict = referee.judge(call, expected, actual)
        except Exception as error:
            return _unjudged(error)
        if (not verdict.fault or verdict.layout_only) and starts and self._request.backward:
            behind = self._backward(call, compiled)
            if isinstance(behind, Outcome):
                return behind
            # Right gradients do not clear a suspect output, or one with another memory layout.
            stays = (verdict.discrete or verdict.fault) and behind is not None and not behind.fault
            verdict = verdict if behind is None or stays else behind
        if verdict.nondeterministic:
            return Outcome(Ending.NONDETERMINISTIC, verdict=verdict)
        return Outcome(Ending.DIFFERENT if verdict.fault else Ending.SAME, verdict=verdict)

    def load(self) -> tuple[Any, list[Any]]:
        """Define the function from its text and make its inputs.

        Raises:
            Exception: whatever the text raises.
        """
        request = self._request
        text = f"{request.setup}\n{request.source}"
        path = os.path.join(os.getcwd(), f"candidate_{request.id}.py")
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        module = sys.modules["candidate"] = types.ModuleType("candidate")  # Dynamo's guards import it by name
        module.__file__, namespace = path, vars(module)
        exec(compile(text, path, "exec", dont_inherit=True), namespace)
        golden: dict[str, torch.Tensor] = {}
        for file in request.golden_files:
            golden.update(torch.load(file, weights_only=True))
        torch.manual_seed(0)
        inputs = []
        for spec in request.inputs:
            value = golden[spec.golden] if spec.golden else eval(spec.code or "", namespace)
            if isinstance(value, torch.Tensor) and value.requires_grad != spec.requires_grad:
                value = value.detach().requires_grad_(spec.requires_grad)
            for dim in spec.marks:
                torch._dynamo.mark_dynamic(value, dim)
            inputs.append(value)
        return namespace[request.name], inputs

    def compile(self, function: Any) -> Any:
        """``torch.compile`` a function with the request's arguments."""
        kwargs = eval(f"dict({self._request.compile_kwargs})", {"torch": torch, **function.__globals__})
        return torch.compile(function, **kwargs)

    def _backward(self, call: Call, compiled: Any) -> referee.Verdict | Outcome | None:
        """The verdict on the gradients of the sum of all outputs, or an outcome if there is no verdict.

        None if eager cannot compute them.
        """
        behind = call.behind(None)
        self._phase("eager")
        try:
            expected = behind.run(behind.function)
        except Exception as error:
            return Outcome.of_error(Ending.EAGER_ERROR, error) if device_error(error) == LOST else None
        self._phase("backward")
        try:
            actual = behind.run(compiled)
        except Exception as error:
            return Outcome.raised(error)
        try:
            return referee.judge(behind, expected, actual)
        except Exception as error:
            return _unjudged(error)

    def _phase(self, name: str) -> None:
        self._channel.send(Phase(phase=name))


def shares_random_numbers() -> bool:
    """Whether compiled code draws eager's random numbers, so that values that depend on them can be compared."""
    return bool(torch._inductor.config.fallback_random)


def _unjudged(error: Exception) -> Outcome:
    """The outcome if the referee raises, for instance since a program cannot run under one of our modes: neither pass nor fail."""
    return Outcome.of_error(Ending.SETUP_ERROR, error)


def _unchanged(before: Any, after: Any) -> bool:
    """Whether an input is unchanged, with NaN equal to NaN. Values are compared since a custom operator's schema may be wrong or missing;
    if they cannot be, True."""
    if not isinstance(before, torch.Tensor):
        return True
    with contextlib.suppress(RuntimeError, NotImplementedError):
        if torch.equal(before, after):
            return True
        nan = before.isnan()
        return torch.equal(nan, after.isnan()) and torch.equal(before.masked_fill(nan, 0), after.masked_fill(nan, 0))
    return True

"""One trial: does this program fail, and how? Runs in its own fork, and reports each phase before it begins.

The candidate is source text, as in ``repro.py``. It runs first in eager (a candidate that raises both there and
compiled is invalid), then through the public ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import functools
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
from ..referee import steadiness
from ..referee.call import Call, GradientCall, Side
from ..referee.comparison import ComparisonStep, Judged, Raised, Run, compare_with_gradients
from ..referee.verdict import Verdict
from ..values import snapshot
from ..values.boundary import Difference, places
from ..values.device import settle
from ..wire import Channel, Message
from . import frozen

MANY = 100
"""Most differentiable outputs in a report; no repro is written for more."""


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
    """Task of a forked child: answer with the aten operators (packet names, in order) that a candidate runs in eager.

    Up to an error, if it raises; the outcome then has it.
    """
    request = TrialRequest.read(message)
    function, loaded = Trial(request, channel).load()
    inputs, raised = snapshot.clone(loaded), None  # a value that is mapped from a file keeps its size
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
        differences: list[Difference] = []
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
                differences += outcome.verdict.differences
        if wanted > 1 and failed and not self._is_steady(call, differences):
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
            random=bool(torch._inductor.config.fallback_random),
            tolerance=request.tolerance,
            identity=request.identity,
            backward=outside if request.around else None,
        )

    def _is_steady(self, call: Call, differences: list[Difference]) -> bool:
        """Whether eager is deterministic; if not, a flaky failure is not the compiler's."""
        self._phase("eager")
        is_of_gradients = any(difference.where.startswith("grad") for difference in differences)
        failing = call.behind(None) if is_of_gradients else call
        return steadiness.steady(failing, Verdict(differences=differences)) is not None

    def _compare(self, call: Call) -> Outcome:
        self._phase("eager")
        # Not by `Call.run`: the mutated inputs are needed even if the call raises.
        inputs = snapshot.clone(list(call.inputs))
        expected: Side | Exception
        try:
            with call.started():
                expected = call.on(call.function, inputs)
                settle()
        except Exception as error:
            if device_error(error) == LOST:
                return Outcome.of_error(Ending.EAGER_ERROR, error)
            expected = error
        changed = zip(call.inputs, inputs, strict=True)
        self.writes = [index for index, pair in enumerate(changed) if not _unchanged(*pair)]
        returned = places(expected.result) if call.switches.grad and isinstance(expected, Side) else {}
        starts = {where: str(output.dtype) for where, output in returned.items() if output.requires_grad}
        self.differentiated = starts if len(starts) <= MANY else {}
        compiled = self.compiler()
        if isinstance(expected, Exception):
            self._phase("compiled")
            return outcome_behind(expected, call, compiled)
        behind = call.behind(None) if starts and self._request.backward else None
        compared = compare_with_gradients(call, compiled, expected, behind, begins=self._begin)
        outcome = outcome_of(compared.decisive)
        if outcome.verdict is not None and isinstance(compared.values, Judged):
            outcome.verdict.other_zeros = compared.values.has_other_zeros
        return outcome

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
            golden.update(torch.load(file, weights_only=True, mmap=True))
        torch.manual_seed(0)
        given: dict[str, Any] = {}
        for spec in sorted(request.inputs, key=lambda spec: spec.is_view):
            known = {**namespace, **given} if spec.is_view else namespace
            value = golden[spec.golden] if spec.golden else eval(spec.code or "", known)
            if isinstance(value, torch.Tensor) and value.requires_grad != spec.requires_grad:
                value = value.detach().requires_grad_(spec.requires_grad)
            for dim in spec.marks:
                torch._dynamo.mark_dynamic(value, dim)
            given[spec.name] = value
        return namespace[request.name], [given[spec.name] for spec in request.inputs]

    def compile(self, function: Any) -> Any:
        """``torch.compile`` a function with the request's arguments."""
        constants = [index for index, spec in enumerate(self._request.inputs) if spec.frozen]
        return frozen.compiled(function, constants, self.compile_kwargs(function))

    def compile_kwargs(self, function: Any) -> dict[str, Any]:
        """The request's arguments of ``torch.compile``, by the names that the candidate ``function`` sees."""
        options = eval(f"dict({self._request.compile_kwargs})", {"torch": torch, **function.__globals__})
        return dict(options)

    def compiler(self) -> Run:
        """The runner of a compiled call. Each function is compiled once, at its first call."""
        compiled = functools.cache(self.compile)
        return lambda call: call.run(compiled(call.function))

    def _begin(self, call: Call, step: ComparisonStep) -> None:
        is_backward = isinstance(call, GradientCall) and step is ComparisonStep.COMPILED
        self._phase("backward" if is_backward else step.value)

    def _phase(self, name: str) -> None:
        self._channel.send(Phase(phase=name))


def outcome_of(found: Judged | Raised) -> Outcome:
    """The outcome of a comparison. One that the referee cannot judge neither passes nor fails."""
    if isinstance(found, Judged):
        ending = Ending.DIFFERENT if found.verdict.fault else Ending.SAME
        ending = Ending.NONDETERMINISTIC if found.verdict.nondeterministic else ending
        return Outcome(ending, verdict=found.verdict)
    if found.step is ComparisonStep.COMPILED:
        return Outcome.raised(found.error)
    return Outcome.of_error(
        Ending.EAGER_ERROR if found.step is ComparisonStep.EAGER else Ending.SETUP_ERROR, found.error
    )


def outcome_behind(error: Exception, call: Call, compiled: Run) -> Outcome:
    """The outcome of a call that raises in eager: does compiled code raise too?"""
    try:
        compiled(call)
    except Exception:
        return Outcome.of_error(Ending.EAGER_ERROR, error)
    return Outcome.of_error(Ending.MISSING_ERROR, error)


def _unchanged(before: Any, after: Any) -> bool:
    """Whether an input is unchanged, with NaN equal to NaN; True if values cannot be compared.

    Values are compared since a custom operator's schema may be wrong or missing.
    """
    if not isinstance(before, torch.Tensor):
        return True
    with contextlib.suppress(RuntimeError, NotImplementedError):
        if torch.equal(before, after):
            return True
        nan = before.isnan()
        return torch.equal(nan, after.isnan()) and torch.equal(before.masked_fill(nan, 0), after.masked_fill(nan, 0))
    return True

"""One trial: does this program fail, and how? Runs in a fork of its own, and says what it is doing before it does it.

The candidate is source text, the same that ``repro.py`` would hold. It is run in eager first (a candidate that fails there
is no candidate), then through the public ``torch.compile``.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.config

from ..compiler import subsystems
from ..compiler.operators import Operators
from ..failures import LOST, describe, device_error, raised_while_compiling
from ..referee import referee, steadiness
from ..values import snapshot
from ..values.boundary import places
from ..values.device import settle
from ..wire import Channel, Message

MANY = 100
"""Outputs, that is: no repro is written for more."""


def judge(message: Message, channel: Channel) -> None:
    """Task of a forked child. Message fields:

    ``setup`` and ``source`` (text; ``source`` defines ``name``), ``inputs`` (list of ``{name, code | golden, requires_grad}``,
    and ``marks``: the dimensions to be marked dynamic, if any),
    ``golden_files`` (paths for ``torch.load(weights_only=True)``), ``compile_kwargs`` (text), ``grad`` (bool),
    ``tolerance`` (None: the fp64 rule; else the script's own ``{rtol, atol, equal_nan}``), ``threads`` (kernels built at once),
    ``backward`` (whether gradients are compared as well; they are if absent).
    ``switches`` (see `subsystems`; None: the compiler as it is).
    For a failure that does not always show: ``compilations`` (compile anew so often, in this process), ``failures`` (stop
    after so many that were not ``same``), ``seconds`` (begin none when the first has been over for so long).

    Each compilation is answered with an ``outcome``: ``same``, ``different``, ``compile_error``, ``runtime_error``,
    ``missing_error``, or for a candidate that cannot be judged ``setup_error``, ``eager_error``, ``nondeterministic``; ``writes``
    lists the inputs that eager's function changes, by position, and ``differentiated`` the tensors that a backward starts from, with
    their dtypes. A process that has lost its GPU by an error answers no more.
    """
    torch._inductor.config.compile_threads = message.get("threads", 1)
    subsystems.install(message, channel)
    trial = Trial(message, channel)
    for outcome in trial.run():
        channel.send({"type": "outcome", **outcome, "writes": trial.writes, "differentiated": trial.differentiated})


def observe(message: Message, channel: Channel) -> None:
    """Task of a forked child: the aten operators (packet names, in order) that a candidate runs in eager, up to one that raises."""
    trial = Trial(message, channel)
    function, inputs = trial.load()
    with contextlib.suppress(Exception), Operators() as operators, torch.set_grad_enabled(bool(message["grad"])):
        function(*inputs)
    channel.send({"type": "outcome", "outcome": "same", "ops": operators.seen})


class Trial:
    """A program as text, its inputs, and how it is compiled."""

    def __init__(self, message: Message, channel: Channel) -> None:
        self._message, self._channel = message, channel
        self.writes: list[int] = []
        self.differentiated: dict[str, str] = {}
        self._switches = snapshot.global_state()

    def run(self) -> Iterator[Message]:
        """The outcome of every compilation, and after several a last one where eager is found to change its mind."""
        self._phase("setup")
        try:
            function, inputs = self.load()
        except Exception as error:
            yield {"outcome": "setup_error", "exception": describe(error)}
            return
        rng, self._switches = snapshot.rng_state(), snapshot.global_state()
        wanted = self._message.get("compilations", 1)
        stop = float("inf")
        done = failed = 0
        wrong: set[str] = set()
        while done < wanted and failed < self._message.get("failures", 1) and time.monotonic() < stop:
            if done:
                torch._dynamo.reset()
                snapshot.set_rng_state(rng)
            outcome = self._compare(function, inputs, rng)
            yield outcome
            if outcome.get("exception", {}).get("device") == LOST:
                return
            if not done:
                stop = time.monotonic() + self._message.get("seconds", float("inf"))
            done, failed = done + 1, failed + (outcome["outcome"] != "same")
            wrong.update(
                d["where"]
                for d in outcome.get("verdict", {}).get("differences", ())
                if outcome["outcome"] == "different"
            )
        if wanted > 1 and failed and not self._is_steady(function, inputs, rng, wrong):
            yield {"outcome": "nondeterministic"}

    def _is_steady(self, function: Any, inputs: list[Any], rng: Any, wrong: set[str]) -> bool:
        """Whether eager does the same every time: else it is not the compiler that comes and goes."""
        self._phase("eager")

        def program(values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
            if any(where.startswith("grad") for where in wrong):
                return None, [], referee.gradients(function, values, None)
            with torch.set_grad_enabled(bool(self._message["grad"])):
                return function(*values), values, []

        return steadiness.is_steady(program, inputs, rng, wrong)

    def _compare(self, function: Any, inputs: list[Any], rng: Any) -> Message:
        grad = bool(self._message["grad"])
        self._phase("eager")
        expected_inputs = snapshot.clone(inputs)
        eager_error: Exception | None = None
        expected: Any = None
        try:
            with self._start(grad):
                expected = function(*expected_inputs)
                settle()
        except Exception as error:
            if device_error(error) == LOST:
                return {"outcome": "eager_error", "exception": describe(error)}
            eager_error = error
        self.writes = [i for i, pair in enumerate(zip(inputs, expected_inputs, strict=True)) if not _unchanged(*pair)]
        returned = places(expected).items() if grad else ()
        starts = {where: str(output.dtype) for where, output in returned if output.requires_grad}
        self.differentiated = starts if len(starts) <= MANY else {}
        snapshot.set_rng_state(rng)
        self._phase("compiled")
        actual_inputs = snapshot.clone(inputs)
        try:
            with self._start(grad):
                compiled = self.compile(function)
                actual = compiled(*actual_inputs)
                settle()
        except Exception as error:
            if eager_error is not None:
                return {"outcome": "eager_error", "exception": describe(eager_error)}
            return _raised(error)
        if eager_error is not None:
            return {"outcome": "missing_error", "exception": describe(eager_error)}
        self._phase("compare")
        try:
            verdict = referee.judge(
                function, inputs, rng, expected, expected_inputs, actual, actual_inputs,
                random=shares_random_numbers(), tolerance=self._message["tolerance"], grad=grad,
            )  # fmt: skip
        except Exception as error:
            return _unjudged(error)
        if not verdict.fault and starts and self._message.get("backward", True):
            behind = self._backward(function, compiled, inputs, rng)
            if isinstance(behind, dict):
                return behind
            # Right gradients say nothing of outputs that may be wrong.
            verdict = verdict if behind is None or (verdict.discrete and not behind.fault) else behind
        if verdict.nondeterministic:
            return {"outcome": "nondeterministic", "verdict": verdict.to_json()}
        return {"outcome": "different" if verdict.fault else "same", "verdict": verdict.to_json()}

    def load(self) -> tuple[Any, list[Any]]:
        """Define the function from its text and make its inputs.

        Raises:
            Exception: whatever the text raises.
        """
        message = self._message
        text = f"{message['setup']}\n{message['source']}"
        path = os.path.join(os.getcwd(), f"candidate_{message['id']}.py")
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        module = sys.modules["candidate"] = types.ModuleType("candidate")  # guards of Dynamo import it by its name
        module.__file__, namespace = path, vars(module)
        exec(compile(text, path, "exec"), namespace)
        golden: dict[str, torch.Tensor] = {}
        for file in message["golden_files"]:
            golden.update(torch.load(file, weights_only=True))
        torch.manual_seed(0)
        inputs = []
        for spec in message["inputs"]:
            value = golden[spec["golden"]] if spec.get("golden") else eval(spec["code"], namespace)
            if isinstance(value, torch.Tensor) and value.requires_grad != bool(spec["requires_grad"]):
                value = value.detach().requires_grad_(bool(spec["requires_grad"]))
            for dim in spec.get("marks", ()):
                torch._dynamo.mark_dynamic(value, dim)
            inputs.append(value)
        return namespace[message["name"]], inputs

    def compile(self, function: Any) -> Any:
        """``torch.compile`` of a function, as the message asks for it."""
        kwargs = eval(f"dict({self._message['compile_kwargs']})", {"torch": torch, **function.__globals__})
        return torch.compile(function, **kwargs)

    def _backward(self, function: Any, compiled: Any, inputs: list[Any], rng: Any) -> referee.Verdict | Message | None:
        """The verdict on the gradients of the sum of all outputs, or the outcome where there is none.

        None where eager cannot make them.
        """
        self._phase("eager")
        try:
            snapshot.set_rng_state(rng)
            with self._start(True):
                expected = referee.gradients(function, snapshot.clone(inputs), None)
                settle()
        except Exception as error:
            is_lost = device_error(error) == LOST
            return {"outcome": "eager_error", "exception": describe(error)} if is_lost else None
        self._phase("backward")
        try:
            snapshot.set_rng_state(rng)
            with self._start(True):
                actual = referee.gradients(compiled, snapshot.clone(inputs), None)
                settle()
        except Exception as error:
            return _raised(error)
        try:
            return referee.judge_gradients(
                function, inputs, rng, None, expected, actual,
                random=shares_random_numbers(), tolerance=self._message["tolerance"],
            )  # fmt: skip
        except Exception as error:
            return _unjudged(error)

    @contextlib.contextmanager
    def _start(self, grad: bool) -> Iterator[None]:
        """The switches as the text has set them, whatever an earlier run has left behind; they are so again afterwards."""
        with self._switches.applied(), torch.set_grad_enabled(grad):
            yield

    def _phase(self, name: str) -> None:
        self._channel.send({"type": "phase", "phase": name})


def shares_random_numbers() -> bool:
    """Whether compiled code draws eager's random numbers: then values that depend on them can be compared."""
    return bool(torch._inductor.config.fallback_random)


def _raised(error: Exception) -> Message:
    word = "compile_error" if raised_while_compiling(error) else "runtime_error"
    return {"outcome": word, "exception": describe(error)}


def _unjudged(error: Exception) -> Message:
    """Of the referee, as where a program cannot be run under a mode of ours: neither a failure nor none."""
    return {"outcome": "setup_error", "exception": describe(error)}


def _unchanged(before: Any, after: Any) -> bool:
    """As far as it can be told, NaN being NaN: no schema is trusted, and a custom operator may lack one."""
    if not isinstance(before, torch.Tensor):
        return True
    with contextlib.suppress(RuntimeError, NotImplementedError):
        if torch.equal(before, after):
            return True
        nan = before.isnan()
        return torch.equal(nan, after.isnan()) and torch.equal(before.masked_fill(nan, 0), after.masked_fill(nan, 0))
    return True

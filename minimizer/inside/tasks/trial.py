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
from dataclasses import replace
from typing import Any

import torch
import torch._inductor.config

from ..compiler import subsystems
from ..compiler.operators import Operators
from ..failures import LOST, describe, device_error, raised_while_compiling
from ..referee import referee, steadiness
from ..referee.call import Call
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

    def run(self) -> Iterator[Message]:
        """The outcome of every compilation, and after several a last one where eager is found to change its mind."""
        self._phase("setup")
        try:
            function, inputs = self.load()
        except Exception as error:
            yield {"outcome": "setup_error", "exception": describe(error)}
            return
        call = self.call_of(function, inputs)
        wanted = self._message.get("compilations", 1)
        stop = float("inf")
        done = failed = 0
        wrong: set[str] = set()
        while done < wanted and failed < self._message.get("failures", 1) and time.monotonic() < stop:
            if done:
                torch._dynamo.reset()
            outcome = self._compare(call)
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
        if wanted > 1 and failed and not self._is_steady(call, wrong):
            yield {"outcome": "nondeterministic"}

    def call_of(self, function: Any, inputs: list[Any]) -> Call:
        """A call that begins as things stand now, with the grad mode and the tolerance of the message."""
        switches = replace(snapshot.global_state(), grad=bool(self._message["grad"]))
        tolerance, random = self._message["tolerance"], shares_random_numbers()
        return Call(function, inputs, snapshot.rng_state(), switches, random=random, tolerance=tolerance)

    def _is_steady(self, call: Call, wrong: set[str]) -> bool:
        """Whether eager does the same every time: else it is not the compiler that comes and goes."""
        self._phase("eager")
        is_of_gradients = any(where.startswith("grad") for where in wrong)
        return steadiness.is_steady(call.behind(None) if is_of_gradients else call, wrong)

    def _compare(self, call: Call) -> Message:
        self._phase("eager")
        # Here and not by `Call.run`: what the call writes to is of interest where it raises as well.
        expected_inputs = snapshot.clone(call.inputs)
        eager_error: Exception | None = None
        try:
            with call.started():
                expected = call.on(call.function, expected_inputs)
                settle()
        except Exception as error:
            if device_error(error) == LOST:
                return {"outcome": "eager_error", "exception": describe(error)}
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
                return {"outcome": "eager_error", "exception": describe(eager_error)}
            return _raised(error)
        if eager_error is not None:
            return {"outcome": "missing_error", "exception": describe(eager_error)}
        self._phase("compare")
        try:
            verdict = referee.judge(call, expected, actual)
        except Exception as error:
            return _unjudged(error)
        if (not verdict.fault or verdict.layout_only) and starts and self._message.get("backward", True):
            behind = self._backward(call, compiled)
            if isinstance(behind, dict):
                return behind
            # Right gradients say nothing of outputs that may be wrong, or lie otherwise in memory.
            stays = (verdict.discrete or verdict.fault) and behind is not None and not behind.fault
            verdict = verdict if behind is None or stays else behind
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

    def _backward(self, call: Call, compiled: Any) -> referee.Verdict | Message | None:
        """The verdict on the gradients of the sum of all outputs, or the outcome where there is none.

        None where eager cannot make them.
        """
        behind = call.behind(None)
        self._phase("eager")
        try:
            expected = behind.run(behind.function)
        except Exception as error:
            is_lost = device_error(error) == LOST
            return {"outcome": "eager_error", "exception": describe(error)} if is_lost else None
        self._phase("backward")
        try:
            actual = behind.run(compiled)
        except Exception as error:
            return _raised(error)
        try:
            return referee.judge(behind, expected, actual)
        except Exception as error:
            return _unjudged(error)

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

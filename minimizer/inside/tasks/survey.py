"""Run the user's script, and compare every compiled graph with eager at every call.

The hook sits where Dynamo hands a graph to its backend, before the compiler touches it: a copy of the graph is eager's side.
Each call starts both sides from the same state, so that training never amplifies rounding into an alarm. At the first fault
the script is stopped, and the process stays as the holder of that call's graph and inputs (`HeldCall`), which the torch-free
side asks for golden values.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import types
from collections.abc import Collection
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch._dynamo.repro import after_dynamo
from torch.fx.experimental._backward_state import BackwardState

from ..compiler import subsystems
from ..failures import CONTROL_FLOW, LOST, describe, device_error, raised_while_compiling
from ..graph import state
from ..graph.collectives import WHY_ONCE
from ..graph.graphs import concrete
from ..graph.lifted import Unplayable
from ..referee import referee, steadiness
from ..values import snapshot
from ..values.device import settle
from ..watch.attempts import Attempts
from ..watch.calls import BackwardCall, Backwards, CapturedGraph, HeldCall
from ..watch.children import Children
from ..watch.coverage import Coverage
from ..watch.health import Health, trace_to
from ..watch.ranks import other_ranks
from ..watch.survey_log import Told, end_with
from ..wire import STOP, Channel, Message
from .script_run import let_nothing_check_itself, run_script

HOOKED = (
    "hands hooks to compiled autograd, which alone can run its backward: gradients are compared in the graphs of that"
)
COMPARED_CALLS = 8
"""Calls of one graph that are compared before it is trusted, unless the user says otherwise."""


def survey(message: Message, channel: Channel) -> None:
    """Task of a forked child: run the script once and report; see `Survey`."""
    subsystems.install(message, channel)
    Survey(message, channel).run()


class Survey:
    """The run of one script, with or without the compiler.

    Message fields: ``script`` (path), ``args``, ``nproc`` (ranks in all, this one included; 1 if absent), ``compile`` (bool),
    ``steps`` (int or None), ``hold`` (None, or graph and call of an earlier run at which to stop before the compiler gets there:
    how a crash is held), ``stance`` (without the compiler: by the stance ``force_eager``, not by the variable), ``tolerance`` (None, or
    the script's own, which then decides), ``values`` (whether calls are compared; else only exceptions and crashes count), ``measure`` (time both sides of every graph), ``trace`` (None, or a folder for what
    ``TORCH_TRACE`` writes), ``text`` (what to run in place of the script's own text, or None), ``switches`` (see `subsystems`).

    Between messages about a graph and call come phases (`_phase`): what the process does next. ``STOP`` ends the script at the
    next moment at which nothing is being compiled or compared.
    """

    def __init__(self, message: Message, channel: Channel) -> None:
        self._script, self._args, self._text = message["script"], message["args"], message.get("text")
        self._ranks = message.get("nproc", 1)
        self._compile, self._steps, self._hold = message["compile"], message["steps"], message["hold"]
        self._stance = message.get("stance", False)
        self._tolerance, self._values = message["tolerance"], message.get("values", True)
        self._channel = channel
        self._coverage = Coverage(self._trusted_after if self._values else 0, self._ranks)
        self._told, self._backward = Told(self._coverage), Backwards()
        self._attempts: Attempts | None = None
        self._children = Children()
        self._lost: Message | None = None
        """Where CUDA failed for good, in a graph that eager had run before; empty where it was elsewhere."""
        self._error: BaseException | None = None
        """What ended the script."""
        self._doing = "script"
        self._stops_asked = 0
        self._measure, self._trace = message.get("measure", False), message.get("trace")
        self._health = Health(self._script)
        self._turn = threading.RLock()
        """Who has it may speak. The thread that holds a call keeps it, so that no other ends the process or says more."""

    def run(self) -> None:
        """Run the script to its end, its exception, or its first fault."""
        state.remember_baseline()
        # Kernels of a whole model are built side by side; `state` knows that this setting is ours.
        torch._inductor.config.compile_threads = max(1, len(os.sched_getaffinity(0)))
        if self._compile:
            if self._trace is not None:
                trace_to(self._trace)
            self._install()
            # The signal may come inside of a compiled function, where Dynamo would trace what we do.
            signal.signal(STOP, torch._dynamo.disable(self._on_stop))
            self._attempts = Attempts(lambda: self._on_attempt(True))
            self._on_attempt(False)
        elif self._stance:
            torch.compiler.set_stance("force_eager")
        else:
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
        let_nothing_check_itself()
        try:
            watched = contextlib.nullcontext() if self._compile else self._told.raised
            with watched, other_ranks(self._ranks, self._script, self._args, self._text):
                run_script(self._script, self._args, self._text)
        except SystemExit as stop:
            self._error = stop if stop.code not in (None, 0) else None
        except BaseException as raised:
            self._error = raised
        self._finish()

    def _finish(self, *, stopped: bool = False) -> None:
        self._turn.acquire()
        if self._compile and self._lost is None and not self._is_lost(self._error):
            self._check_gradients()  # the script's own check may have failed after a backward
        health = self._health.to_json() if self._compile else None
        if self._children.count:
            self._coverage.also(
                f"processes that the script started, {self._children.count} of them: only its own is looked at"
            )
        seen: Message = {"attempted": self._attempts is None or self._attempts.any, "children": self._children.count}
        seen["lost"] = self._lost or None
        self._channel.send({**self._told.finished(self._error, health, stopped=stopped), **seen})

    # hooks -------------------------------------------------------------------------------------------------------

    def _install(self) -> None:
        original = after_dynamo.WrapBackendDebug.__call__
        survey = self

        def compile_graph(wrapper: Any, module: fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Any:
            backend = wrapper._torchdynamo_orig_backend
            return survey._on_compile(backend, module, inputs, lambda: original(wrapper, module, inputs, **kwargs))

        after_dynamo.WrapBackendDebug.__call__ = compile_graph  # type: ignore[method-assign, assignment]

    def _on_attempt(self, attempted: bool) -> None:
        """Say whether Dynamo has tried a frame, so that what ends the process before that is not laid at its door."""
        with self._turn:
            self._channel.send({"type": "phase", "doing": self._doing, "attempted": attempted})

    def _on_compile(self, backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Any) -> Any:
        graph = CapturedGraph(len(self._coverage.graphs), module, backend, inputs)
        self._coverage.add(graph, _frame())
        if graph.communicates:
            self._told.note(f"graph {graph.index} {WHY_ONCE}: it is not compared")
        rng = snapshot.rng_state()
        try:
            values = list(snapshot.clone(concrete(graph.module.graph, graph.lifted.inputs(inputs))))
        except Exception as error:  # ours, and must not reach the user's script
            self._told.cannot_compare(graph, error)
            compiled, why = compile_(), f"{type(error).__name__}: {error}"
            return lambda *args: self._on_call(graph, compiled, list(args), why)
        if self._hold == {"graph": graph.index, "call": None}:
            self._hold_call(graph, values, rng, {"phase": "compile"})
        self._phase("compare", graph, None)
        begun = time.monotonic()
        try:
            if not graph.communicates:  # else it would wait for ranks that do not run it again
                with torch._C.DisableTorchFunctionSubclass():  # as Dynamo runs it
                    graph.random = steadiness.is_random(graph.module, snapshot.clone(values))
                    settle()
        except Exception as error:
            self._end_if_lost(error)
            graph.eager_error = error
        if graph.random:
            # Inductor then draws eager's numbers, so that the graph can be compared at all. It stays so: a backward is compiled
            # when the script comes to it.
            torch._inductor.config.fallback_random = True
        graph.eager_seconds = time.monotonic() - begun
        self._health.ours(graph.eager_seconds)
        snapshot.set_rng_state(rng)
        self._phase("compile", graph, None)
        try:
            compiled = compile_()
        except BaseException as error:
            self._end_if_lost(error, graph, None, "compile")
            steering = bool(CONTROL_FLOW & {kind.__name__ for kind in type(error).__mro__})
            if not steering and isinstance(error, Exception) and graph.eager_error is None:
                failure = {"phase": "compile", "kind": "compile_error", "exception": describe(error)}
                self._hold_call(graph, values, rng, failure)
            raise
        finally:
            self._phase("script", graph, None)
        snapshot.set_rng_state(rng)
        why = f"it {WHY_ONCE}" if graph.communicates else ""
        return lambda *args: self._on_call(graph, compiled, list(args), why)

    def _on_call(self, graph: CapturedGraph, compiled: Any, args: list[Any], why_not: str) -> Any:
        """A call of a graph, compared if it is an early one; ``why_not`` says why none is, if so."""
        call, is_early = graph.calls, graph.calls < self._trusted_after
        self._coverage.called(graph, args, compared=is_early and not why_not)
        if is_early and why_not:
            self._coverage.left_out(graph, why_not)
        if not is_early or why_not:
            result = compiled(*args)
        else:
            self._doing = "compare"
            try:
                with self._coverage.timed():
                    result = self._compared_call(graph, call, compiled, args)
            finally:
                self._phase("script", graph, call)
        if graph.lifted.is_backward:
            self._backward.run_unseen()
        if self._stops_asked and self._may_stop():
            self._stop()
        return result

    def _compared_call(self, graph: CapturedGraph, call: int, compiled: Any, args: list[Any]) -> Any:
        self._check_gradients(graph)
        try:
            rng, switches = snapshot.rng_state(), snapshot.state_of_a_graph()
            unfaithful: list[str] = []
            inputs = graph.lifted.inputs(args)
            before, expected_inputs = snapshot.clone(inputs, notes=unfaithful), snapshot.clone(inputs)
            for line in unfaithful:
                self._told.note(f"graph {graph.index} is compared on copies: {line}")
                self._coverage.also(f"state of graph {graph.index} that cannot be copied: {line}")
        except Exception as error:  # ours, and must not reach the user's script
            self._told.cannot_compare(graph, error)
            self._coverage.left_out(graph, f"{type(error).__name__}: {error}")
            return compiled(*args)
        if self._hold == {"graph": graph.index, "call": call}:
            self._hold_call(graph, before, rng, {"phase": "run"})
        try:
            with switches.applied():  # a graph may change them for what comes after it
                expected = graph.module(*expected_inputs)
                settle()
        except Exception as error:
            self._end_if_lost(error)
            snapshot.set_rng_state(rng)
            actual = compiled(*args)
            self._told.missing.append({"graph": graph.index, "call": call, "exception": describe(error)})
            graph.obstacle = f"eager cannot run it on copies of its inputs: {type(error).__name__}: {error}"
            self._coverage.left_out(graph, f"eager cannot run it on copies of its inputs ({type(error).__name__})")
            return actual
        snapshot.set_rng_state(rng)
        self._phase("run", graph, call)
        try:
            actual = compiled(*args)
            settle()
        except Exception as error:
            self._end_if_lost(error, graph, call, "run")
            failure: Message = {"phase": "run", "kind": "runtime_error", "exception": describe(error)}
            with switches.applied():
                if self._is_steady(graph, _forward(graph.module), before, rng, ()):
                    self._hold_call(graph, before, rng, failure)
            raise
        self._phase("compare", graph, call)
        after = snapshot.rng_state()
        with switches.applied():
            if self._measure and call == 0:
                self._time(graph, compiled, before)
            if self._values:
                # Backends answer with lists.
                answer = type(expected)(actual) if isinstance(expected, (tuple, list)) else actual
                sides = (expected, expected_inputs), (answer, inputs)
                self._judge(graph, call, before, rng, *sides)
                if switches.grad:
                    self._keep_for_backward(graph, call, compiled, before, rng, actual)
        snapshot.set_rng_state(after)
        return actual

    def _time(self, graph: CapturedGraph, compiled: Any, before: list[Any]) -> None:
        try:
            with graph.lifted.standing_in(before) as values:
                self._health.measure(graph.index, graph.lifted.eager, compiled, graph.lifted.arguments(values))
        except Exception as error:  # must not reach the user's script
            self._told.note(f"graph {graph.index} could not be timed: {type(error).__name__}: {error}")

    def _judge(
        self,
        graph: CapturedGraph,
        call: int,
        before: list[Any],
        rng: Any,
        expected: tuple[Any, list[Any]],
        actual: tuple[Any, list[Any]],
    ) -> None:
        """Judge a call by what either side returned and what it made of its inputs; one that fails is held."""
        try:
            verdict = referee.judge(
                graph.module, before, rng, *expected, *actual, random=graph.random, tolerance=self._tolerance
            )
        except Exception as error:  # must not reach the user's script
            self._told.cannot_compare(graph, error)
            self._coverage.left_out(graph, f"{type(error).__name__}: {error}")
            if self._is_lost(error):  # by a run of ours: no fault of the script, which cannot go on here
                self._lost = {}
                end_with(lambda: self._finish(stopped=True))
            return
        self._coverage.compared += 1
        graph.compared += 1
        if verdict.nondeterministic:
            self._told.unsteady(graph)
        wrong = [difference.where for difference in verdict.differences]
        if verdict.fault and self._is_steady(graph, _forward(graph.module), before, rng, wrong):
            failure = {"phase": "run", "kind": verdict.kind, "verdict": verdict.to_json()}
            self._hold_call(graph, before, rng, failure)
        self._told.suspect(graph, call, verdict)
        if verdict.note:
            self._told.note(verdict.note)
        with contextlib.suppress(Exception):  # a figure for the reader, that no verdict hangs on
            self._coverage.largest.look(graph.module.graph, expected, actual, verdict)

    def _keep_for_backward(
        self, graph: CapturedGraph, call: int, compiled: Any, before: list[Any], rng: Any, actual: Any
    ) -> None:
        if graph.random and graph.recomputes:
            # What is drawn a second time in a replayed backward is not what the first one drew.
            self._told.note(
                f"graph {graph.index} computes random numbers once more in its backward: gradients are not compared"
            )
            self._coverage.also(f"gradients of graph {graph.index}: its backward draws its random numbers anew")
            return
        if any(isinstance(value, BackwardState) for value in before):
            self._told.note(f"graph {graph.index} {HOOKED}")
            return
        try:
            self._backward.keep(BackwardCall(graph, call, compiled, before, rng, actual))
        except Exception as error:  # must not reach the user's script
            self._told.cannot_compare(graph, error)
            self._coverage.also(f"gradients of graph {graph.index}: {type(error).__name__}: {error}")

    def _check_gradients(self, again: CapturedGraph | None = None) -> None:
        """Replay, on both sides, every backward that the script ran since the last look; see `Backwards.take`."""
        for backward in self._backward.take(again):
            with backward.state.applied():  # by now the script may have left its autocast
                self._check_gradient(backward)

    def _check_gradient(self, backward: BackwardCall) -> None:
        graph, rng = backward.graph, snapshot.rng_state()
        try:
            found = self._replayed(backward)
        except Exception as error:
            self._told.cannot_compare(graph, error)
            self._coverage.also(f"gradients of graph {graph.index}: {type(error).__name__}: {error}")
            found = None
        snapshot.set_rng_state(rng)
        if found is None:
            return
        wrong, failure = found
        if self._is_steady(graph, backward.gradients, backward.before, backward.rng, wrong):
            failure = {"phase": "backward", **failure}
            self._hold_call(graph, backward.before, backward.rng, failure, backward)

    def _replayed(self, backward: BackwardCall) -> tuple[list[str], Message] | None:
        """How the replay of a backward fails and where its gradients differ; None if it does not, or eager cannot replay it."""
        self._phase("compare", backward.graph, backward.graph.calls - 1)
        try:
            expected = backward.eager()
            settle()
        except Exception as error:
            self._end_if_lost(error)
            why = f"{type(error).__name__}: {error}"
            self._told.note(f"a backward that eager cannot replay was not compared: {why}")
            self._coverage.also(f"a backward of graph {backward.graph.index} that eager cannot replay: {why}")
            return None
        self._phase("backward", backward.graph, backward.graph.calls - 1)
        try:
            actual = backward.compiled()
            settle()
        except Unplayable:
            raise
        except Exception as error:
            self._end_if_lost(error, backward.graph, backward.call, "backward")
            if self._error is None:  # the script's own went through: the replay is at fault
                raise
            kind = "compile_error" if raised_while_compiling(error) else "runtime_error"
            return [], {"kind": kind, "exception": describe(error)}
        self._phase("compare", backward.graph, backward.graph.calls - 1)
        verdict = backward.judge(expected, actual, self._tolerance)
        self._told.suspect(backward.graph, backward.call, verdict)
        self._coverage.backwards += 1
        with contextlib.suppress(Exception):
            graph = backward.graph.module.graph
            self._coverage.largest.look_at_gradients(graph, backward.before, expected, actual, verdict)
        if not verdict.fault:
            return None
        wrong = [difference.where for difference in verdict.differences]
        return wrong, {"kind": "wrong_gradient", "verdict": verdict.to_json()}

    def _is_steady(
        self, graph: CapturedGraph, program: steadiness.Program, inputs: list[Any], rng: Any, wrong: Collection[str]
    ) -> bool:
        """Whether eager does the same every time: else the failure is no fault of the compiler, and that is told."""
        is_steady = steadiness.is_steady(program, inputs, rng, wrong)
        if not is_steady:
            self._told.unsteady(graph)
        return is_steady

    # holding -----------------------------------------------------------------------------------------------------

    def _phase(self, doing: str, graph: CapturedGraph, call: int | None) -> None:
        """Say what comes next, so that a crash or a hang can be attributed, and how much was seen until now.

        ``doing`` is ``compile``, ``run`` (compiled code), ``backward`` (its gradients), ``compare`` (our own work) or ``script``.
        """
        self._doing = doing
        phase = {
            "type": "phase", "doing": doing, "graph": graph.index, "call": call, "eager_seconds": graph.eager_seconds,
            **self._coverage.counts(),
            "trusted": all(graph.calls >= self._trusted_after for graph in self._coverage.graphs),
        }  # fmt: skip
        with self._turn:
            self._channel.send(phase)

    @property
    def _trusted_after(self) -> int:
        return self._steps or COMPARED_CALLS

    def _on_stop(self, number: int, frame: types.FrameType | None) -> None:
        """Handler of ``STOP``. Dynamo may be at work on a graph that it has not handed over yet: then that one comes first.

        So does a first backward, unless this is the second time of asking.
        """
        self._stops_asked += 1
        while frame is not None:
            if frame.f_code.co_filename.endswith(os.path.join("_dynamo", "convert_frame.py")):
                return
            frame = frame.f_back
        if self._doing == "script" and self._may_stop():
            self._stop()

    def _may_stop(self) -> bool:
        return self._stops_asked > 1 or not self._backward.is_awaited

    def _is_lost(self, error: BaseException | None) -> bool:
        return error is not None and device_error(error) == LOST

    def _end_if_lost(
        self, error: BaseException, graph: CapturedGraph | None = None, call: int | None = None, phase: str = ""
    ) -> None:
        """After an error that leaves CUDA unusable end here, before the script or we take what fails next for a failure.

        The values of the call cannot be read any more: it is held in another process. ``graph`` is None where eager is to blame.
        """
        if self._is_lost(error):
            self._error = error
            self._lost = {} if graph is None else {"graph": graph.index, "call": call, "phase": phase}
            end_with(self._finish)

    def _stop(self) -> None:
        """End the script here: what was seen of it is told as if it had come to its end."""
        self._stops_asked = 0
        end_with(lambda: self._finish(stopped=True))

    def _hold_call(
        self,
        graph: CapturedGraph,
        inputs: list[Any],
        rng: Any,
        failure: Message,
        backward: BackwardCall | None = None,
    ) -> None:
        """Stop the script here for good: answer questions about this call, or its ``backward``, until the other end hangs up."""
        self._turn.acquire()
        failure = {**failure, "graph": graph.index, "call": graph.calls - 1, "checks": self._told.checks}
        failure["checked"] = self._coverage.to_json()

        def serve() -> None:
            failure["health"] = self._health.to_json()
            with torch._C.DisableTorchFunctionSubclass():  # as Dynamo runs the graph
                HeldCall(graph, inputs, rng, self._script, backward).serve(failure, self._channel)

        end_with(serve)


def _frame() -> Any:
    """What tells the frame that is being compiled from others; its later compilations have the same."""
    compilation = torch._guards.CompileContext.current_compile_id()
    return compilation and (getattr(compilation, "compiled_autograd_id", None), compilation.frame_id)


def _forward(module: Any) -> steadiness.Program:
    return lambda values: (module(*values), values, [])

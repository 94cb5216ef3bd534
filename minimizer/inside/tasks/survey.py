"""The survey run: runs the user's script and compares calls of its compiled graphs with eager.

The hook sits where Dynamo hands a graph to its backend, before the compiler touches it: a copy of the graph is eager's side.
`Comparer` compares the calls, and `Holder` stops the script at the first one that fails; the process then answers the torch-free
side's questions about that call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import types
from typing import Any, NamedTuple

import torch
import torch._inductor.config
from torch import fx
from torch._dynamo.repro import after_dynamo

from ..compiler import caches, subsystems
from ..failures import CONTROL_FLOW, describe
from ..graph import state
from ..graph.collectives import WHY_ONCE
from ..graph.graphs import concrete
from ..messages import Failure, Finished
from ..questions import SurveyRequest
from ..referee import steadiness
from ..referee.call import Call, Function
from ..values import snapshot
from ..values.capturing import WHY_CAPTURED, is_capturing
from ..values.device import settle
from ..watch import own_random
from ..watch.attempts import Attempts
from ..watch.captured import CapturedGraph
from ..watch.children import Children
from ..watch.comparer import Comparer
from ..watch.compiled_modules import compiled_modules
from ..watch.coverage import Coverage
from ..watch.each_instance import EachInstance
from ..watch.health import Health, trace_to
from ..watch.holder import Holder
from ..watch.line import Line
from ..watch.lost import LostGpu, is_lost
from ..watch.ranks import other_ranks
from ..watch.survey_log import Told, end_with, last_line
from ..wire import STOP, Channel, Message
from .script_run import let_nothing_check_itself, what_ends

AFTERWARDS = "also afterwards: what it reads there is the later call's. Clone outputs that are kept where their memory is used again, as by CUDA graphs."
MOST = 20
"""Most notes, uncompared graphs and missing errors that one run reports, of each."""
MOST_SUSPECTS = 100
"""Most suspects that one run reports, since each one costs another run of the script."""


class WhyNot(NamedTuple):
    """Why a call cannot be compared: the rule that leaves it out, and the words for it; both empty where it can be."""

    rule: str = ""
    words: str = ""


def survey(message: Message, channel: Channel) -> None:
    """Task of a forked child: run the script once and report; see `Survey`."""
    request = SurveyRequest.read(message)
    subsystems.install(request.switches, channel)
    Survey(request, channel).run()


class Survey:
    """The run of one script, with or without the compiler.

    The process reports each phase that it enters (`Line.phase`). The signal ``STOP`` ends the script at the next point where nothing
    is being compiled or compared.
    """

    def __init__(self, request: SurveyRequest, channel: Channel) -> None:
        self._request, self._begun = request, time.monotonic()
        listed = None if request.calls is None else {int(graph): calls for graph, calls in request.calls.items()}
        self._coverage = Coverage(request.steps, listed, request.nproc, values=request.values)
        self._told, self._health = Told(self._coverage), Health()
        self._line = Line(channel, self._coverage)
        self._holder = Holder(self._line, self._told, self._health, request.hold)
        self._lost = LostGpu(self._end_lost)
        self._each = EachInstance(self._coverage) if request.each else None
        self._comparer = Comparer(request, self._line, self._told, self._holder, self._health, self._lost, self._each)
        self._replaces_random = False
        """Whether compiled code draws eager's random numbers only because it is compared."""
        self._attempts: Attempts | None = None
        self._children = Children()
        self._error: BaseException | None = None
        """The exception that ended the script."""
        self._stops_asked = 0

    def run(self) -> None:
        """Run the script until it ends, raises, or a call is held, and send the result."""
        request = self._request
        if request.caches:
            caches.turn_on(only_inductor=request.caches == "inductor")
        state.remember_baseline()
        # Build the many kernels of a whole model in parallel; `state.OURS` excludes this setting from the user's.
        torch._inductor.config.compile_threads = max(1, len(os.sched_getaffinity(0)))
        if request.compile:
            if request.trace is not None:
                trace_to(request.trace)
            self._install()
            # The signal may arrive inside a compiled function, where Dynamo would trace the handler.
            signal.signal(STOP, torch._dynamo.disable(self._on_stop))
            self._attempts = Attempts(lambda: self._line.attempted(True))
            self._line.attempted(False)
        elif request.stance:
            torch.compiler.set_stance("force_eager")
        else:
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
        let_nothing_check_itself()
        watched = contextlib.nullcontext() if request.compile else self._told.raised
        with watched, other_ranks(request.nproc, request.rank, request.script, request.args, request.text):
            self._error = what_ends(request.script, request.args, request.text)
        self._finish()

    def _finish(self, *, stopped: bool = False) -> None:
        self._line.take_last_word()
        if self._request.compile and not self._lost.is_lost and not is_lost(self._error):
            # The script's own check may have failed after a backward that was not compared yet.
            self._comparer.check_gradients(is_over=self._error is not None)
        if self._children.count:
            self._coverage.excuses.excuse("child_processes", times=self._children.count)
            self._coverage.also(
                f"child processes of the script ({self._children.count}): only its own process is observed"
            )
        if outlived := self._comparer.kept.outlived():
            self._told.note(f"{outlived}, {AFTERWARDS}")
        told, coverage = self._told, self._coverage
        self._line.channel.send(
            Finished(
                stopped=stopped,
                attempted=self._attempts is None or self._attempts.any,
                children=self._children.count,
                exception=describe(self._error) if self._error else None,
                seconds=time.monotonic() - self._begun,
                comparing_seconds=coverage.seconds,
                checked=coverage.checked(),
                calls=coverage.calls(),
                health=self._health.found() if self._request.compile else None,
                uncompared=told.uncompared()[:MOST],
                suspects=told.suspects[:MOST_SUSPECTS],
                layouts=told.layouts[:MOST_SUSPECTS],
                missing=told.missing[:MOST],
                raised=told.raised.seen,
                checks=told.checks,
                lost=self._lost.where,
                instances=self._each.rows() if self._each is not None else [],
                modules=compiled_modules(coverage) if self._request.measure else [],
                unsteady=told.unsteady,
                overwritten=self._comparer.kept.overwritten,
                notes=told.notes[:MOST],
                printed=last_line() if isinstance(self._error, SystemExit) else "",
            )
        )

    # the hook ----------------------------------------------------------------------------------------------------

    def _install(self) -> None:
        original = after_dynamo.WrapBackendDebug.__call__
        survey = self

        def compile_graph(wrapper: Any, module: fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Any:
            backend = wrapper._torchdynamo_orig_backend
            return survey._on_compile(backend, module, inputs, lambda: original(wrapper, module, inputs, **kwargs))

        after_dynamo.WrapBackendDebug.__call__ = compile_graph  # type: ignore[method-assign, assignment]

    def _on_compile(self, backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Any) -> Any:
        graph = CapturedGraph(len(self._coverage.graphs), module, backend, inputs)
        self._coverage.add(graph, _frame())
        if graph.communicates:
            self._told.note(f"graph {graph.index} {WHY_ONCE}: it is not compared")
        if is_capturing():
            compiled = compile_()
            why = WhyNot("captured", f"its compilation {WHY_CAPTURED}")
            return lambda *args: self._on_call(graph, compiled, list(args), why)
        rng = snapshot.rng_state()
        try:
            values = snapshot.clone(concrete(graph.module.graph, graph.lifted.inputs(inputs)))
            call = Call.now(graph.module, list(values))
        except Exception as error:  # an error of our code must not reach the user's script
            self._told.cannot_compare(graph, error)
            compiled, why = compile_(), WhyNot("error_of_ours", f"{type(error).__name__}: {error}")
            return lambda *args: self._on_call(graph, compiled, list(args), why)
        if self._holder.is_at(graph, None):
            self._holder.hold(graph, call, Failure("compile"))
        self._look_at(graph, call)
        snapshot.set_rng_state(rng)
        self._line.phase("compile", graph, None)
        try:
            with state.without_refusal(backend):
                compiled = compile_()
        except BaseException as error:
            self._lost.end_if(error, graph, None, "compile")
            steering = bool(CONTROL_FLOW & {kind.__name__ for kind in type(error).__mro__})
            if not steering and isinstance(error, Exception) and graph.eager_error is None:
                self._holder.hold(graph, call, Failure("compile", "compile_error", exception=describe(error)))
            raise
        finally:
            self._line.phase("script", graph, None)
        snapshot.set_rng_state(rng)
        why = WhyNot("communicates", f"it {WHY_ONCE}") if graph.communicates else WhyNot()
        return lambda *args: self._on_call(graph, compiled, list(args), why)

    def _look_at(self, graph: CapturedGraph, call: Call) -> None:
        """Run a new graph once in eager: how long that takes, whether it raises, whether it draws random numbers."""
        self._line.phase("compare", graph, None)
        begun = time.monotonic()
        try:
            if not graph.communicates:  # otherwise it would wait for ranks that do not rerun it
                with torch._C.DisableTorchFunctionSubclass():  # as when Dynamo runs the graph
                    graph.random = steadiness.is_random(graph.module, snapshot.clone(call.inputs))
                    settle()
        except Exception as error:
            self._lost.end_if(error)
            graph.eager_error = error
        if graph.random:
            # Makes inductor draw eager's random numbers, so that the graph can be compared. Never reset, since a backward is
            # compiled later, when the script gets there.
            self._replaces_random = self._replaces_random or not torch._inductor.config.fallback_random
            replaces = self._replaces_random or state.refuses_random(graph.backend)
            graph.draws_by_inductor = replaces and own_random.is_used_by(graph.backend)
            torch._inductor.config.fallback_random = True
            self._coverage.excuses.excuse("random_replaced", f"graph {graph.index}")
        graph.eager_seconds = time.monotonic() - begun
        self._health.ours(graph.eager_seconds)

    def _on_call(self, graph: CapturedGraph, compiled: Function, args: list[Any], why_not: WhyNot) -> Any:
        """Make a call of a graph, compared if the plan says so. ``why_not``: why no call of it can be compared."""
        if is_capturing():
            why_not = WhyNot("captured", f"it {WHY_CAPTURED}")
        elif graph.index in self._request.passed_by:
            why_not = WhyNot("passed_by", "it has failed before, and this run looks for another failure")
        number = graph.calls
        is_due = self._coverage.takes(graph, args) or self._holder.needs(graph, number)
        if is_due and why_not.rule:
            self._coverage.excuses.excuse(why_not.rule, f"graph {graph.index}")
            self._coverage.left_out(graph, why_not.words)
        if not self._holder.is_at(graph, number):
            self._holder.note_call(graph, args)
        if not is_due or why_not.rule:
            result = compiled(*args)
        else:
            self._line.doing = "compare"
            try:
                with self._coverage.timed():
                    result = self._comparer.compared(graph, number, compiled, args)
            finally:
                self._line.phase("script", graph, number)
        if graph.lifted.is_backward:
            self._comparer.backwards.run_unseen()
        if self._stops_asked and self._may_stop():
            self._stop()
        return result

    # stopping ----------------------------------------------------------------------------------------------------

    def _on_stop(self, number: int, frame: types.FrameType | None) -> None:
        """Handler of ``STOP``. Waits if Dynamo is capturing a graph, so that this graph is still looked at.

        Also waits for the first backward of a compared call, unless this is the second ``STOP``.
        """
        self._stops_asked += 1
        while frame is not None:
            if frame.f_code.co_filename.endswith(os.path.join("_dynamo", "convert_frame.py")):
                return
            frame = frame.f_back
        if self._line.doing == "script" and self._may_stop():
            self._stop()

    def _may_stop(self) -> bool:
        return self._stops_asked > 1 or not self._comparer.backwards.is_awaited

    def _end_lost(self, error: BaseException | None) -> None:
        """End a script whose GPU is lost, with its own error, or without one if a run of ours lost the GPU."""
        self._error = error or self._error
        end_with(lambda: self._finish(stopped=error is None))

    def _stop(self) -> None:
        """End the script here, and report as at its normal end."""
        self._stops_asked = 0
        end_with(lambda: self._finish(stopped=True))


def _frame() -> Any:
    """An id of the frame that is being compiled, equal for its recompilations."""
    compilation = torch._guards.CompileContext.current_compile_id()
    return compilation and (getattr(compilation, "compiled_autograd_id", None), compilation.frame_id)

"""The survey run: runs the user's script and compares calls of its compiled graphs with eager.

The hook is where Dynamo passes a graph to its backend, before the compiler touches it: a copy of the graph is eager's
side. `Comparer` compares the calls, and `Holder` stops the script at the first failing one; the process then answers
the torch-free side's questions about that call.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import time
import types
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch._inductor.config
from torch import fx
from torch._dynamo.utils import get_metrics_context
from torch._subclasses import FakeTensor

from .. import messages
from ..compiler import caches, subsystems
from ..compiler.backend_place import take_place
from ..failures import describe, is_among, is_control_flow
from ..graph import state
from ..graph.graphs import concrete
from ..messages import Failure, Finished
from ..questions import SurveyRequest
from ..referee import steadiness
from ..referee.call import Call, Function
from ..standard_output import StandardOutput
from ..values import communication, snapshot
from ..values.capturing import WHY_CAPTURED, is_capturing
from ..values.device import settle
from ..watch import own_random
from ..watch.attempts import Attempts
from ..watch.captured import CapturedGraph
from ..watch.children import Children
from ..watch.comparer import Comparer
from ..watch.compiled_modules import compiled_modules
from ..watch.health import trace_to
from ..watch.holder import Holder
from ..watch.line import Line, end_with
from ..watch.lost import LostGpu, is_lost
from ..watch.ranks import other_ranks
from ..watch.record import Record
from ..wire import STOP, Channel, Message
from .script_run import let_nothing_check_itself, what_ends

AFTERWARDS = "also afterwards: what it reads there is the later call's. Clone outputs that are kept where their memory is used again, as by CUDA graphs."
MOST = 20
"""Most notes, uncompared graphs and missing errors in one report, of each."""
MOST_SUSPECTS = 100
"""Most suspects in one report, since each costs another run of the script."""
MOST_OUTPUT = 200_000
"""Most bytes of a script's output in a report, from its beginning."""
MOST_PRINTED = 16 << 10
"""Bytes at the end of a script's output that are searched for its last line."""


class WhyNot(NamedTuple):
    """Why a call cannot be compared: the rule that skips it, and its words; both empty if it can."""

    rule: str = ""
    words: str = ""


def survey(message: Message, channel: Channel) -> None:
    """Task of a forked child: run the script once and report; see `Survey`."""
    request = SurveyRequest.read(message)
    subsystems.install(request.switches, channel)
    Survey(request, channel).run()


class Survey:
    """The run of one script, with or without the compiler.

    The process reports each phase that it enters (`Line.phase`). The signal ``STOP`` ends the script at the next point
    where nothing is being compiled or compared.
    """

    def __init__(self, request: SurveyRequest, channel: Channel) -> None:
        self._request, self._begun = request, time.monotonic()
        self._record = Record(request)
        self._coverage, self._health = self._record.coverage, self._record.health
        self._line = Line(channel, self._coverage)
        self._holder = Holder(self._line, self._record)
        self._lost = LostGpu(self._end_lost)
        self._comparer = Comparer(self._record, self._line, self._holder, self._lost)
        self._replaces_random = False
        """Whether compiled code uses eager's random numbers only for the sake of the comparison."""
        self._attempts: Attempts | None = None
        self._children = Children()
        self._is_communication_watched = False
        self._unwatched = ""
        """Why it could not be watched; empty if it could."""
        self._error: BaseException | None = None
        """The exception that ended the script."""
        self._stops_asked = 0
        self._printed = StandardOutput() if request.measure else None

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
            if request.nproc > 1 and torch.distributed.is_available():
                self._watch_communication()
            take_place(self._on_compile)
            if request.measure:
                self._health.count_calls()
            # The signal may arrive inside a compiled function, where Dynamo would trace the handler.
            signal.signal(STOP, torch._dynamo.disable(self._on_stop))
            self._attempts = Attempts(lambda: self._line.attempted(True))
            self._line.attempted(False)
        elif request.stance:
            torch.compiler.set_stance("force_eager")
        else:
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
        let_nothing_check_itself()
        watched = contextlib.nullcontext() if request.compile else self._record.raised
        with watched, self._other_ranks():
            self._error = what_ends(request.script, request.args, request.text)
        self._finish()

    def _other_ranks(self) -> contextlib.AbstractContextManager[None]:
        request = self._request
        return other_ranks(request.nproc, request.rank, request.script, request.args, request.text, request.stacks)

    def _watch_communication(self) -> None:
        if self._is_communication_watched or self._unwatched:
            return
        try:
            communication.watch()
            communication.before_leaving(self._before_leaving)
        except Exception as error:  # of ours: it must not reach the script
            self._unwatched = f"its collectives could not be watched: {type(error).__name__}: {error}"
        else:
            self._is_communication_watched = True

    def _watch_collectives_of(self, graph: CapturedGraph) -> None:
        """Watch what a graph may communicate, which it may do unseen once there are process groups; leave it open if that fails."""
        # A script may also begin its ranks itself, or be the only one.
        if graph.communicates or (torch.distributed.is_available() and torch.distributed.is_initialized()):
            self._watch_communication()
            if self._unwatched and not graph.why_not:
                graph.is_whole(self._unwatched)

    def _before_leaving(self) -> None:
        """Compare what the script's backward passes still leave to be compared, before it leaves its process groups."""
        if not self._coverage.graphs:
            return
        self._line.doing = "compare"
        try:
            # An error of ours must not reach the script.
            with self._coverage.comparing.timed(), contextlib.suppress(Exception):
                # In a ``finally`` the script may have failed already; in a handler it may have handled anything.
                self._comparer.check_gradients(functools.partial(is_among, raised=sys.exc_info()[1]))
        finally:
            self._line.phase("script", self._coverage.graphs[-1], None)

    def _finish(self, *, stopped: bool = False) -> None:
        self._line.take_last_word()
        if self._request.compile and not self._lost.is_lost and not is_lost(self._error):
            # The script's own check may have failed after a backward that was not compared yet.
            self._comparer.check_gradients(lambda error: self._error is not None)
        if self._children.count:
            fact = f"child processes of the script ({self._children.count}): only its own process is observed"
            self._record.excuse("child_processes", None, times=self._children.count, fact=fact)
        self._comparer.merged.look()
        if outlived := self._comparer.kept.outlived():
            self._record.note(f"{outlived}, {AFTERWARDS}")
            self._record.excuse("outputs_written_over", None, fact=outlived)
        record, coverage = self._record, self._coverage
        self._line.channel.send(
            Finished(
                stopped=stopped,
                attempted=self._attempts is None or self._attempts.any,
                children=self._children.count,
                exception=describe(self._error) if self._error else None,
                seconds=time.monotonic() - self._begun,
                comparing_seconds=coverage.comparing.seconds,
                checked=record.checked(),
                calls=coverage.calls(),
                health=self._found() if self._request.compile else None,
                uncompared=record.uncompared()[:MOST],
                suspects=list(record.suspects.values())[:MOST_SUSPECTS],
                layouts=list(record.layouts.values())[:MOST_SUSPECTS],
                merged=self._comparer.merged.changed,
                missing=record.missing[:MOST],
                raised=record.raised.seen,
                checks=record.checks[-5:],
                lost=self._lost.where,
                instances=record.each.rows() if record.each is not None else [],
                modules=compiled_modules(coverage) if self._request.measure else [],
                unsteady=record.unsteady,
                overwritten=self._comparer.kept.overwritten,
                written_over=self._comparer.kept.without_cuda_graphs,
                other_zeros=record.other_zeros,
                behind_change=record.behind_change,
                draws=self._other_draws(),
                notes=list(record.notes)[:MOST],
                printed=_last_line() if isinstance(self._error, SystemExit) else "",
                output=self._output(),
            )
        )

    def _other_draws(self) -> messages.OtherDraws | None:
        """The first operator that Inductor's own generator draws otherwise: asked behind the end of a script that has not raised."""
        is_asked = self._request.compile and self._request.values and self._request.hold is None
        return self._comparer.draws.differing() if is_asked and self._error is None else None

    def _output(self) -> str | None:
        """The script's output, which is still forwarded; None if it was not collected."""
        if self._printed is None:
            return None
        text = self._printed.text(MOST_OUTPUT)
        self._printed.give_back()
        return text

    def _found(self) -> messages.Health:
        """The health of the compiled code, and the duration of the run without the comparison."""
        seconds = time.monotonic() - self._begun - self._coverage.comparing.seconds
        return replace(self._health.found(self._coverage.graphs), seconds=seconds)

    # the hook ----------------------------------------------------------------------------------------------------

    def _on_compile(self, backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Any) -> Any:
        graph = CapturedGraph(len(self._coverage.graphs), module, backend, inputs)
        self._coverage.add(graph, _frame())
        graph.draws_eagers = torch._inductor.config.fallback_random or not own_random.is_used_by(backend)
        self._watch_collectives_of(graph)
        with contextlib.suppress(Exception):  # options may have any type, and no verdict depends on them
            self._health.settings.look(backend)
        if is_capturing():
            compiled = compile_()
            why = WhyNot("captured", f"its compilation {WHY_CAPTURED}")
            return lambda *args: self._on_call(graph, compiled, list(args), why)
        rng = snapshot.rng_state()
        try:
            values = snapshot.clone(
                concrete(graph.module.graph, graph.lifted.inputs(inputs)), is_kept=not graph.resizes
            )
            call = Call(graph.module, list(values), rng, snapshot.state_of_a_graph())
        except Exception as error:  # an error of our code must not reach the user's script
            self._record.cannot_compare(graph, error)
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
            if not is_control_flow(error) and isinstance(error, Exception) and graph.eager_error is None:
                self._holder.hold(graph, call, Failure("compile", "compile_error", exception=describe(error)))
            raise
        finally:
            self._line.phase("script", graph, None)
        snapshot.set_rng_state(rng)
        if graph.why_not:
            self._record.note(f"graph {graph.index}: {graph.why_not}, so it is not compared")
        return lambda *args: self._on_call(graph, compiled, list(args), WhyNot())

    def _look_at(self, graph: CapturedGraph, call: Call) -> None:
        """Run a new graph once in eager: how long does it take, does it raise, does it draw random numbers?"""
        self._line.phase("compare", graph, None)
        begun = time.monotonic()
        with communication.refusing_collectives(), communication.refusals() as refused:
            try:
                if not graph.communicates:  # else it is looked at when it is known what its collectives return
                    with call.switches.dispatching():
                        graph.random = steadiness.is_random(graph.module, snapshot.clone(call.inputs))
                        settle()
            except Exception as error:
                self._lost.end_if(error)
                graph.eager_error = error
                with call.switches.dispatching():
                    graph.random = steadiness.asks_for_draws(graph.module, snapshot.clone(call.inputs))
        if refused:
            graph.eager_error, graph.random = None, False
            graph.is_whole(refused[0])
        if graph.random:
            # Make inductor use eager's random numbers, so that the graph can be compared. Never reset: a backward is
            # compiled later, when the script gets there.
            if not torch._inductor.config.fallback_random:
                self._replaces_random = True
                self._health.settings.leave_out(f"torch._inductor.config.{state.FALLBACK_RANDOM}")
            replaces = self._replaces_random or state.refuses_random(graph.backend)
            graph.draws_by_inductor = replaces and own_random.is_used_by(graph.backend)
            torch._inductor.config.fallback_random = True
            self._record.excuse("random_replaced", graph)
        graph.eager_seconds = time.monotonic() - begun
        self._health.ours(graph.eager_seconds)

    def _on_call(self, graph: CapturedGraph, compiled: Function, args: list[Any], why_not: WhyNot) -> Any:
        """Make a call of a graph, compared if the plan says so. ``why_not``: why no call of it can be compared."""
        if communication.reruns() or any(isinstance(arg, FakeTensor) for arg in args):
            # No call of the script's: part of a rerun of ours, or of the compilation of a graph that DDP's optimizer has split.
            return compiled(*args)
        self._watch_collectives_of(graph)  # groups may have come since it was compiled
        if is_capturing():
            why_not = WhyNot("captured", f"it {WHY_CAPTURED}")
        elif graph.why_not:  # perhaps since an earlier call
            why_not = WhyNot("communicates", graph.why_not)
        elif graph.index in self._request.passed_by:
            why_not = WhyNot("passed_by", "it has failed before, and this run looks for another failure")
        number = graph.calls
        is_due = self._coverage.takes(graph, args) or self._holder.needs(graph, number)
        if is_due and why_not.rule:
            self._record.excuse(why_not.rule, graph, left_out=why_not.words)
        if not self._holder.is_at(graph, number):
            self._holder.note_call(graph, args)
        if not is_due or why_not.rule:
            result = compiled(*args)
        else:
            self._line.doing = "compare"
            try:
                with self._coverage.comparing.timed(), communication.refusing_collectives():
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
        """Handler of ``STOP``. Waits while something is being compiled.

        A graph that Dynamo is capturing is still compared, and a backward that is compiled at its first run could not
        be replayed from inside it. Also waits for the first backward of a compared call, unless this is the second
        ``STOP``.
        """
        self._stops_asked += 1
        if get_metrics_context().in_progress():
            return
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
    """An id of the frame being compiled, equal for its recompilations."""
    compilation = torch._guards.CompileContext.current_compile_id()
    return compilation and (getattr(compilation, "compiled_autograd_id", None), compilation.frame_id)


def _last_line() -> str:
    """The last printed line of this process with words in it; empty if the script has redirected its output."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        size = os.fstat(2).st_size
        end = os.pread(2, MOST_PRINTED, max(0, size - MOST_PRINTED)).decode("utf-8", "replace")
        return next((line.strip()[-300:] for line in reversed(end.splitlines()) if re.search(r"\w", line)), "")
    return ""

"""Compares compiled calls with eager, in the script's own process and on the script's own values.

Eager runs on a copy, compiled code on the values themselves, and the script goes on with the compiled results. Both sides start
from the same state at each call, so that training never amplifies rounding into an alarm. The gradients of a call are compared
once the script has run a backward through it. No exception of ours may reach the script: a call that cannot be compared is noted
and left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch.autograd.graph import GradientEdge
from torch.fx.experimental._backward_state import BackwardState

from ..failures import describe, is_control_flow, is_of_checkpoint, raised_while_compiling
from ..graph.severed import Unmatched, Unseverable
from ..messages import Failure
from ..referee.call import Call, Function, GradientCall, Side
from ..referee.comparison import ComparisonStep, Judged, Raised, Run, compare_call
from ..values import communication, snapshot
from ..values.device import settle, settle_stream
from ..values.rounding import tensors
from .backwards import BackwardCall, Backwards
from .captured import CapturedGraph
from .draws import Draws
from .holder import Holder
from .judge import Judge, module_of
from .kept_outputs import KeptOutputs
from .line import Line
from .lost import LostGpu
from .merged_outputs import MergedOutputs
from .one_rank import OneRank, Replays, run_without_collectives
from .own_gradients import edges_of
from .record import Record

HOOKED = "passes hooks to compiled autograd, which has to run its backward: gradients are compared in the graphs of compiled autograd"


class Comparer:
    """Compares calls and their gradients as a survey asks for, and holds or counts those that fail."""

    def __init__(self, record: Record, line: Line, holder: Holder, lost: LostGpu) -> None:
        self._record, self._asked, self._line, self._holder, self._lost = record, record.asked, line, holder, lost
        self.backwards, self.kept, self.merged = Backwards(), KeptOutputs(), MergedOutputs()
        self._judge = Judge(record, line, holder, lost, self.merged)
        self._replays = Replays()

    @property
    def draws(self) -> Draws:
        """The random operators of the script."""
        return self._judge.draws

    def compared(self, graph: CapturedGraph, number: int, compiled: Function, args: list[Any]) -> Any:
        """Run a call of the script compiled, compare it with eager, and return the compiled result.

        Raises:
            Exception: whatever compiled code raises.
        """
        self.check_gradients()
        self.merged.look()
        inputs = graph.lifted.inputs(args)
        if graph.is_severed:
            return self._compared_severed(graph, number, compiled, args, inputs)
        try:
            call = self._call(graph, inputs)
        except Exception as error:
            self._judge.cannot_compare(graph, error)
            return _made(compiled, args)
        if self._holder.is_at(graph, number):
            self._holder.hold(graph, call, Failure("run"))
        try:
            with communication.refusals() as refused:
                expected = call.run(call.function)
        except Exception as error:
            self._lost.end_if(error)
            if refused:
                return self._whole(graph, number, compiled, args, refused[0])
            self._line.phase("run", graph, number)  # compiled code may end the process where eager raises
            try:
                actual = _made(compiled, args)
            except Exception as raised:
                if graph.draws_by_inductor and type(raised) is type(error):
                    self._judge.judge_own_errors(graph, number, call, error)
                raise
            self._record.raises_on_copies(graph, number, error)
            return actual
        if refused:
            return self._whole(graph, number, compiled, args, refused[0])
        self._line.phase("run", graph, number)
        edges = edges_of(inputs) if call.switches.grad else []
        held, name = self.kept.before(inputs), f"call {number} of graph {graph.index}"
        try:
            actual = _made(compiled, args)
            settle()
        except Exception as error:
            if not self._is_control_flow(graph, error):
                self._fails_to_run(graph, number, call, expected, error)
            raise
        self._line.phase("compare", graph, number)
        self.kept.after(name, held)
        self.kept.keep(name, actual)
        after = snapshot.rng_state()
        if self._asked.measure and number == 0:
            self._time(graph, call, compiled)
        if self._asked.values:
            self._judge.judge(graph, number, call, expected, Side(actual, inputs).in_container_of(expected))
            if call.switches.grad:
                run = functools.partial(graph.lifted.run, compiled=compiled)
                self._keep_for_backward(graph, number, call, run, actual, edges, inputs)
        snapshot.set_rng_state(after)
        return actual

    def _is_control_flow(self, graph: CapturedGraph, error: Exception) -> bool:
        """Whether an exception of compiled code is PyTorch's own control flow; a call that a checkpoint ends is left open."""
        if is_of_checkpoint(error):
            self._record.excuse("ended_by_checkpoint", graph, left_out="a checkpoint ends it before it returns")
        return is_control_flow(error)

    def _fails_to_run(self, graph: CapturedGraph, number: int, call: Call, expected: Side, error: Exception) -> None:
        """Hold a call that raises only compiled."""
        self._lost.end_if(error, graph, number, "run")
        if graph.draws_by_inductor:
            # It may raise only with eager's random numbers, which the script does not ask for.
            self._judge.judge_own_random(graph, number, call, expected)
        failure = self._judge.steady(graph, call, Failure("run", "runtime_error", exception=describe(error)))
        if failure is not None:
            self._holder.hold(graph, call, failure)

    def _compared_severed(
        self, graph: CapturedGraph, number: int, compiled: Function, args: list[Any], whole: list[Any]
    ) -> Any:
        """`compared` for a graph that communicates: compiled code goes first, and eager is given what its collectives have returned.

        Where that is not certain, or anything of ours raises, the call is left uncompared: no exception here is laid to anyone else.
        """
        self._line.phase("compare", graph, number)
        try:
            severed, inputs = graph.severed(whole), graph.given(whole)
            call = self._call(graph, inputs)
            edges = edges_of(inputs) if call.switches.grad else []
        except Unseverable as error:
            return self._whole(graph, number, compiled, args, str(error))
        except Exception as error:
            self._judge.cannot_compare(graph, error)
            self._line.phase("script", graph, number)
            return _made(compiled, args)
        held, name = self.kept.before(inputs), f"call {number} of graph {graph.index}"
        self._line.phase("script", graph, number)  # it waits for the other ranks, which is no time of the compiler's
        try:
            with communication.recorded() as heard:
                actual = compiled(*args)
            if not any(
                one.unknown for one in heard
            ):  # else one may still be under way, and the others need not make it yet
                settle_stream()
        except Exception as error:
            self._lost.end_if(error)
            if not self._is_control_flow(graph, error):
                # Perhaps on one rank only, or another one's fault.
                why = f"compiled code raised {type(error).__name__}: {error}"
                self._record.excuse("communicates", graph, left_out=why)
            raise
        self._line.phase("compare", graph, number)
        self.kept.after(name, held)
        self.kept.keep(name, actual)
        after, why = snapshot.rng_state(), ""
        try:
            with communication.refusals() as refused:
                own = run_without_collectives(graph, severed, call, heard)
            side = Side((*graph.given(actual), *own.given), [*inputs, *own.returned]).in_container_of(own.expected)
        except (Unmatched, Unseverable) as error:
            why = str(error)
        except Exception as error:
            self._lost.end_if(error, by_us=True)
            if not refused:
                self._judge.cannot_compare(graph, error)
                return actual
        finally:
            snapshot.set_rng_state(after)
        if why or refused:
            self._communicates(graph, why or refused[0])
            return actual
        if own.call.random and not graph.random:
            graph.random = True
            self._record.excuse("random_replaced", graph)
        if self._holder.is_at(graph, number):
            self._holder.hold(graph, own.call, Failure("run"))
        if self._asked.values:
            self._judge.judge(graph, number, own.call, own.expected, side)
            if call.switches.grad:
                self._keep_severed(graph, number, own, compiled, actual, edges, side.inputs, heard)
        snapshot.set_rng_state(after)
        return actual

    def _keep_severed(
        self,
        graph: CapturedGraph,
        number: int,
        own: OneRank,
        compiled: Function,
        actual: Any,
        edges: Sequence[GradientEdge],
        inputs: Sequence[Any],
        heard: Sequence[communication.Heard],
    ) -> None:
        """Keep a call of a graph that communicates for its backward, if that can be run by this rank alone."""
        if not any(value.requires_grad for value in tensors(actual)):
            return
        if graph.is_local or any(value.requires_grad for value in own.returned):
            self._leave_gradients(graph, "its backward may communicate with other ranks")
            return
        replay = self._replays.keep(heard)
        if replay is None:
            self._leave_gradients(graph, "its collectives, and those of calls before it, return too much to keep")
            return

        def again(call: Call) -> Side:
            given = call.inputs[: len(call.inputs) - len(own.returned)]
            with replay.played():
                return graph.lifted.run(replace(call, inputs=given), compiled)

        self._keep_for_backward(graph, number, own.call, again, actual, edges, inputs, replay)

    def _whole(self, graph: CapturedGraph, number: int, compiled: Function, args: list[Any], why: str) -> Any:
        """Make a call of a graph that turns out to communicate in a way that cannot be compared."""
        self._communicates(graph, why)
        self._line.phase("script", graph, number)
        return _made(compiled, args)

    def _communicates(self, graph: CapturedGraph, why: str) -> None:
        graph.is_whole(why)
        self._record.note(f"graph {graph.index}: {graph.why_not}, so it is not compared")
        self._record.excuse("communicates", graph, left_out=graph.why_not)

    def _leave_gradients(self, graph: CapturedGraph, why: str) -> None:
        self._record.excuse("communicates", graph, fact=f"gradients of graph {graph.index}: {why}")

    def check_gradients(self, may_be_scripts: Callable[[Exception], bool] = lambda error: False) -> None:
        """Replay, on both sides, every backward that the script ran since the last check; see `Backwards.take`.

        ``may_be_scripts``: whether an exception in the replay may be the one that the script's own backward raised.
        """
        for backward in self.backwards.take():
            call = f"the backward of call {backward.number} of graph {backward.graph.index}"
            if backward.is_in_held:
                self.kept.writes_over(f"{call} writes over a gradient of an earlier one, which the script still holds")
            if backward.is_behind_change and not self._record.behind_change:
                self._record.behind_change = call
            with communication.refusing_collectives():
                self._check_gradient(backward, may_be_scripts)

    def _call(self, graph: CapturedGraph, inputs: list[Any]) -> Call:
        unfaithful: list[str] = []
        rng, switches = snapshot.rng_state(), graph.switches()
        before = snapshot.clone(inputs, notes=unfaithful, is_kept=not graph.resizes)
        for line in unfaithful:
            self._record.note(f"graph {graph.index} is compared on copies: {line}")
            fact = f"state of graph {graph.index} that cannot be copied: {line}"
            self._record.excuse("inputs_not_copied", graph, fact=fact)
        asked = self._asked
        return Call(
            graph.module, before, rng, switches, random=graph.random, tolerance=asked.tolerance, identity=asked.identity
        )

    def _time(self, graph: CapturedGraph, call: Call, compiled: Function) -> None:
        health = self._record.health
        for measure, what in ((health.measure, "timed"), (health.count_kept, "asked what it keeps for its backward")):
            try:
                with call.switches.applied(), graph.lifted.standing_in(list(call.inputs)) as values:
                    measure(graph.index, graph.lifted.eager, compiled, graph.lifted.arguments(values))
            except Exception as error:
                self._record.note(f"graph {graph.index} could not be {what}: {type(error).__name__}: {error}")

    def _keep_for_backward(
        self,
        graph: CapturedGraph,
        number: int,
        call: Call,
        compiled: Run,
        actual: Any,
        edges: Sequence[GradientEdge],
        inputs: Sequence[Any],
        replay: communication.Replay | None = None,
    ) -> None:
        if graph.random and graph.recomputes:
            # A replayed backward would draw other random numbers than the first one.
            self._record.note(
                f"graph {graph.index} recomputes random numbers in its backward: gradients are not compared"
            )
            fact = f"gradients of graph {graph.index}: its backward recomputes random numbers"
            self._record.excuse("gradients_drawn_twice", graph, fact=fact)
            return
        if any(isinstance(value, BackwardState) for value in call.inputs):
            self._record.excuse("gradients_with_hooks", graph)
            self._record.note(f"graph {graph.index} {HOOKED}")
            return
        try:
            self.backwards.keep(BackwardCall(graph, number, call, compiled, actual, edges, inputs, replay))
        except Exception as error:
            self._judge.cannot_compare_gradients(graph, error)

    def _check_gradient(self, backward: BackwardCall, may_be_scripts: Callable[[Exception], bool]) -> None:
        graph = backward.graph
        try:
            replay = backward.replay()
            if self._holder.is_at(graph, backward.number, "backward"):
                self._holder.hold(graph, replay, Failure("backward"), backward)
            failure = self._replayed(backward, replay, may_be_scripts)
        except Exception as error:
            self._judge.cannot_compare_gradients(graph, error)
            return
        if failure is not None:
            self._judge.fails(graph, backward.number, replay, failure, backward)

    def _replayed(
        self, backward: BackwardCall, replay: GradientCall, may_be_scripts: Callable[[Exception], bool]
    ) -> Failure | None:
        """The failure of a replay; None if it passes, or if it cannot be compared."""
        graph, number = backward.graph, backward.number
        if backward.heard is not None and not backward.heard.has_groups:
            self._leave_gradients(graph, "the script has left the process groups of its collectives")
            return None
        phases = self._judge.phases(graph, graph.calls - 1, "backward")
        with communication.refusals() as refused:
            found = compare_call(replay, backward.compiled, known=graph.known, begins=phases)
            if isinstance(found, Judged) and not found.verdict.fault:
                own, judged = backward.own(found.actual), found
                if own is not None:
                    found = compare_call(replay, lambda each: own, judged.expected, known=graph.known)
        if refused:
            self._leave_gradients(graph, refused[0])
            return None
        if isinstance(found, Raised):
            error = found.error
            if found.step is ComparisonStep.EAGER:
                self._lost.end_if(error)
                why = f"{type(error).__name__}: {error}"
                self._record.note(f"a backward that eager cannot replay was not compared: {why}")
                fact = f"a backward of graph {graph.index} that eager cannot replay: {why}"
                self._record.excuse("gradients_unreplayed", graph, fact=fact)
                return None
            if found.step is ComparisonStep.COMPILED:
                is_played = backward.heard is not None
                self._lost.end_if(error, None if is_played else graph, number, "backward", by_us=is_played)
            # Where the script's own backward succeeded the replay is at fault, and one with collectives of ours always may be.
            is_ours = backward.heard is not None or not may_be_scripts(error)
            if found.step is ComparisonStep.COMPARE or is_ours:
                self._judge.cannot_compare_gradients(graph, error)
                return None
            kind = "compile_error" if raised_while_compiling(error) else "runtime_error"
            return Failure("backward", kind, exception=describe(error))
        if backward.ran_unseen:
            self._record.excuse("cotangents_unseen", graph)
        verdict = found.verdict
        self._record.compared(graph, number, verdict, "backward")
        with contextlib.suppress(Exception):
            self._record.largest.look(module_of(replay).graph, found)
        return Failure("backward", "wrong_gradient", verdict=verdict) if verdict.fault else None


def _made(compiled: Function, args: list[Any]) -> Any:
    """The script's own call, which all ranks make."""
    with communication.together():
        return compiled(*args)

"""Compares compiled calls with eager, in the script's own process and on the script's own values.

Eager runs on a copy, compiled code on the values themselves, and the script goes on with the compiled results. Both sides start
from the same state at each call, so that training never amplifies rounding into an alarm. The gradients of a call are compared
once the script has run a backward through it. No exception of ours may reach the script: a call that cannot be compared is noted
and left out.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from torch.fx.experimental._backward_state import BackwardState

from ..failures import describe, raised_while_compiling
from ..graph.lifted import Unplayable
from ..messages import Failure, Missing
from ..questions import SurveyRequest
from ..referee import referee, steadiness
from ..referee.call import Call, Function, GradientCall, Side
from ..values import snapshot
from ..values.device import settle
from . import own_random
from .backwards import BackwardCall, Backwards
from .captured import CapturedGraph
from .each_instance import EachInstance
from .health import Health
from .holder import Holder
from .kept_outputs import KeptOutputs
from .line import Line
from .lost import LostGpu
from .survey_log import Told

HOOKED = "passes hooks to compiled autograd, which has to run its backward: gradients are compared in the graphs of compiled autograd"


class Comparer:
    """Compares calls and their gradients as a survey asks for, and holds the first call that fails.

    ``each``: counts failing calls while the script continues; if None, the first failing call is held.
    """

    def __init__(
        self,
        asked: SurveyRequest,
        line: Line,
        told: Told,
        holder: Holder,
        health: Health,
        lost: LostGpu,
        each: EachInstance | None,
    ) -> None:
        self._asked, self._line, self._told, self._holder = asked, line, told, holder
        self._health, self._lost, self._each = health, lost, each
        self._coverage = told.coverage
        self.backwards, self.kept = Backwards(), KeptOutputs()

    def compared(self, graph: CapturedGraph, number: int, compiled: Function, args: list[Any]) -> Any:
        """Run a call of the script compiled, compare it with eager, and return the compiled result.

        Raises:
            Exception: whatever compiled code raises.
        """
        self.check_gradients()
        inputs = graph.lifted.inputs(args)
        try:
            call = self._call(graph, inputs)
        except Exception as error:
            self._cannot_compare(graph, error)
            return compiled(*args)
        if self._holder.is_at(graph, number):
            self._holder.hold(graph, call, Failure("run"))
        try:
            expected = call.run(call.function)
        except Exception as error:
            self._lost.end_if(error)
            self._line.phase("run", graph, number)  # compiled code may end the process where eager raises
            actual = compiled(*args)
            self._told.missing.append(Missing(graph.index, number, describe(error)))
            graph.obstacle = f"eager cannot run it on copies of its inputs: {type(error).__name__}: {error}"
            why = f"eager cannot run it on copies of its inputs ({type(error).__name__})"
            self._excuse("eager_raises_on_copies", graph)
            self._coverage.left_out(graph, why)
            return actual
        self._line.phase("run", graph, number)
        held, name = self.kept.before(inputs), f"call {number} of graph {graph.index}"
        try:
            actual = compiled(*args)
            settle()
        except Exception as error:
            self._lost.end_if(error, graph, number, "run")
            failure = self._steady(graph, call, Failure("run", "runtime_error", exception=describe(error)))
            if failure is not None:
                self._holder.hold(graph, call, failure)
            raise
        self._line.phase("compare", graph, number)
        self.kept.after(name, held)
        self.kept.keep(name, actual)
        after = snapshot.rng_state()
        if self._asked.measure and number == 0:
            self._time(graph, call, compiled)
        if self._asked.values:
            # Backends return lists, whatever the graph's own container is.
            answer = type(expected.result)(actual) if isinstance(expected.result, (tuple, list)) else actual
            self._judge(graph, number, call, expected, Side(answer, inputs))
            if call.switches.grad:
                self._keep_for_backward(graph, number, call, compiled, actual)
        snapshot.set_rng_state(after)
        return actual

    def check_gradients(self, *, is_over: bool = False) -> None:
        """Replay, on both sides, every backward that the script ran since the last check; see `Backwards.take`.

        ``is_over``: the script has raised, so an exception in the replay may be the one that the script's own backward raised.
        """
        for backward in self.backwards.take():
            self._check_gradient(backward, is_over)

    def _call(self, graph: CapturedGraph, inputs: list[Any]) -> Call:
        unfaithful: list[str] = []
        rng, switches = snapshot.rng_state(), snapshot.state_of_a_graph()
        before = snapshot.clone(inputs, notes=unfaithful)
        for line in unfaithful:
            self._told.note(f"graph {graph.index} is compared on copies: {line}")
            self._excuse("inputs_not_copied", graph)
            self._coverage.also(f"state of graph {graph.index} that cannot be copied: {line}")
        return Call(graph.module, before, rng, switches, random=graph.random, tolerance=self._asked.tolerance)

    def _time(self, graph: CapturedGraph, call: Call, compiled: Function) -> None:
        try:
            with call.switches.applied(), graph.lifted.standing_in(list(call.inputs)) as values:
                self._health.measure(graph.index, graph.lifted.eager, compiled, graph.lifted.arguments(values))
        except Exception as error:
            self._told.note(f"graph {graph.index} could not be timed: {type(error).__name__}: {error}")

    def _judge(self, graph: CapturedGraph, number: int, call: Call, expected: Side, actual: Side) -> None:
        """Judge a call by both sides' results and inputs afterwards, and hold it if it fails."""
        try:
            verdict = referee.judge(call, expected, actual, graph.known)
        except Exception as error:
            self._cannot_compare(graph, error)
            self._lost.end_if(error, by_us=True)
            return
        graph.compared.append(number)
        self._count(graph, verdict)
        if verdict.nondeterministic:
            self._told.is_unsteady(graph)
        is_passed_by = verdict.layout_only and not self._asked.layout and self._told.knows_layout_of(graph)
        if verdict.fault and not is_passed_by:
            self._fails(graph, number, call, verdict)
        elif graph.draws_by_inductor and graph.compared == [number]:
            self._judge_own_random(graph, number, call, expected)
        self._told.suspect(graph, number, verdict)
        if verdict.note:
            self._told.note(verdict.note)
        with contextlib.suppress(Exception):  # only a figure in the report: no verdict depends on it
            self._coverage.largest.look(graph.module.graph, expected, actual, verdict)

    def _judge_own_random(self, graph: CapturedGraph, number: int, call: Call, expected: Side) -> None:
        """Judge what Inductor's own random operators return at the first call of a graph, and hold it if that is of another dtype or shape."""
        if not own_random.gives_otherwise(graph.module, call, expected):
            return
        # The script's tolerance would decide, and the values are of another stream.
        call = replace(call, random=False, tolerance=None)
        self._line.phase("run", graph, number)
        try:
            actual = own_random.compiled_side(graph.module, graph.backend, call, expected)
            settle()
            verdict = referee.judge(call, expected, actual)
        except Exception as error:
            self._lost.end_if(error, graph, number, "run")
            self._told.note(f"graph {graph.index}, with Inductor's own random numbers: {type(error).__name__}: {error}")
            return
        self._line.phase("compare", graph, number)
        if verdict.fault and not verdict.layout_only:
            with own_random.in_use():  # the state that the held call is described with
                self._fails(graph, number, call, verdict)

    def _fails(self, graph: CapturedGraph, number: int, call: Call, verdict: referee.Verdict) -> None:
        """Hold a call that fails, or count it."""
        failure = self._steady(graph, call, Failure("run", verdict.kind, verdict=verdict))
        if failure is None:
            return
        if failure.verdict.layout_only and not self._asked.layout:
            self._told.layout(graph, number, failure.verdict)
        elif self._each is not None:
            self._each.fails(graph.key, str(failure.kind))
        else:
            self._holder.hold(graph, call, failure)

    def _keep_for_backward(
        self, graph: CapturedGraph, number: int, call: Call, compiled: Function, actual: Any
    ) -> None:
        if graph.random and graph.recomputes:
            # A replayed backward would draw other random numbers than the first one.
            self._told.note(
                f"graph {graph.index} recomputes random numbers in its backward: gradients are not compared"
            )
            self._excuse("gradients_drawn_twice", graph)
            self._coverage.also(f"gradients of graph {graph.index}: its backward recomputes random numbers")
            return
        if any(isinstance(value, BackwardState) for value in call.inputs):
            self._excuse("gradients_with_hooks", graph)
            self._told.note(f"graph {graph.index} {HOOKED}")
            return
        try:
            self.backwards.keep(BackwardCall(graph, number, call, compiled, actual))
        except Exception as error:
            self._cannot_compare_gradients(graph, error)

    def _check_gradient(self, backward: BackwardCall, is_over: bool) -> None:
        graph = backward.graph
        try:
            replay = backward.replay()
            if self._holder.is_at(graph, backward.number, "backward"):
                self._holder.hold(graph, replay, Failure("backward"), backward)
            failure = self._replayed(backward, replay, is_over)
        except Exception as error:
            self._cannot_compare_gradients(graph, error)
            return
        failure = self._steady(graph, replay, failure) if failure is not None else None
        if failure is None:
            return
        if self._each is not None:
            self._each.fails(backward.key, str(failure.kind))
        else:
            self._holder.hold(graph, replay, failure, backward)

    def _replayed(self, backward: BackwardCall, replay: GradientCall, is_over: bool) -> Failure | None:
        """The failure of a replay; None if it passes, or if eager cannot replay it."""
        graph, last = backward.graph, backward.graph.calls - 1
        self._line.phase("compare", graph, last)
        try:
            expected = replay.run(replay.function)
        except Exception as error:
            self._lost.end_if(error)
            why = f"{type(error).__name__}: {error}"
            self._told.note(f"a backward that eager cannot replay was not compared: {why}")
            self._excuse("gradients_unreplayed", graph)
            self._coverage.also(f"a backward of graph {graph.index} that eager cannot replay: {why}")
            return None
        self._line.phase("backward", graph, last)
        try:
            actual = backward.compiled(replay)
        except Unplayable:
            raise
        except Exception as error:
            self._lost.end_if(error, graph, backward.number, "backward")
            if not is_over:  # the script's own backward succeeded: the replay is at fault
                raise
            kind = "compile_error" if raised_while_compiling(error) else "runtime_error"
            return Failure("backward", kind, exception=describe(error))
        self._line.phase("compare", graph, last)
        if backward.ran_unseen:
            self._excuse("cotangents_unseen", graph)
        verdict = referee.judge(replay, expected, actual, graph.known)
        self._count(graph, verdict)
        self._told.suspect(graph, backward.number, verdict, "backward")
        graph.backward.append(backward.number)
        with contextlib.suppress(Exception):
            gradients = expected.gradients, actual.gradients
            self._coverage.largest.look_at_gradients(graph.module.graph, replay.inputs, *gradients, verdict)
        return Failure("backward", "wrong_gradient", verdict=verdict) if verdict.fault else None

    def _steady(self, graph: CapturedGraph, call: Call, failure: Failure) -> Failure | None:
        """A failure without the places at which eager is not deterministic: there the compiler is not to blame, which is recorded.

        None if nothing is left of it.
        """
        differences = failure.verdict.differences if failure.verdict is not None else []
        moved = steadiness.moving(call, [difference.where for difference in differences])
        if moved == set():
            return failure
        self._excuse("eager_unsteady", graph)
        left = [difference for difference in differences if moved is not None and difference.where not in moved]
        if not left:
            self._told.is_unsteady(graph)
            return None
        kind = failure.kind if failure.phase == "backward" else left[0].kind
        return replace(failure, kind=kind, verdict=replace(failure.verdict, kind=left[0].kind, differences=left))

    def _excuse(self, rule: str, graph: CapturedGraph) -> None:
        self._coverage.excuses.excuse(rule, f"graph {graph.index}")

    def _count(self, graph: CapturedGraph, verdict: referee.Verdict) -> None:
        """Count what the referee excused in a call, or in its gradients."""
        for rule in verdict.excuses:
            self._excuse(rule, graph)

    def _cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        self._told.cannot_compare(graph, error)
        self._excuse("error_of_ours", graph)
        self._coverage.left_out(graph, f"{type(error).__name__}: {error}")

    def _cannot_compare_gradients(self, graph: CapturedGraph, error: Exception) -> None:
        self._told.cannot_compare(graph, error)
        self._excuse("gradients_unreplayed", graph)
        self._coverage.also(f"gradients of graph {graph.index}: {type(error).__name__}: {error}")

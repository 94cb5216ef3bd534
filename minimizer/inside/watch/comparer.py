"""Compares compiled calls with eager, in the script's own process and on the script's own values.

Eager runs on a copy, compiled code on the values themselves, and the script goes on with the compiled results. Both sides start
from the same state at each call, so that training never amplifies rounding into an alarm. The gradients of a call are compared
once the script has run a backward through it. No exception of ours may reach the script: a call that cannot be compared is noted
and left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.autograd.graph import GradientEdge
from torch.fx.experimental._backward_state import BackwardState

from ..failures import describe, device_error, is_control_flow, is_of_checkpoint, raised_while_compiling
from ..messages import Failure
from ..referee import steadiness
from ..referee.call import Call, Function, GradientCall, Side
from ..referee.comparison import Begins, ComparisonStep, Judged, Raised, compare_call
from ..referee.verdict import Verdict
from ..values import snapshot
from ..values.device import settle
from . import own_random
from .backwards import BackwardCall, Backwards
from .captured import CapturedGraph
from .draws import Draws, raises_on_draws
from .holder import Holder
from .kept_outputs import KeptOutputs
from .line import Line
from .lost import LostGpu
from .merged_outputs import MergedOutputs
from .own_gradients import edges_of
from .record import Record

HOOKED = "passes hooks to compiled autograd, which has to run its backward: gradients are compared in the graphs of compiled autograd"


class Comparer:
    """Compares calls and their gradients as a survey asks for, and holds or counts those that fail."""

    def __init__(self, record: Record, line: Line, holder: Holder, lost: LostGpu) -> None:
        self._record, self._asked, self._line, self._holder, self._lost = record, record.asked, line, holder, lost
        self.backwards, self.kept, self.merged = Backwards(), KeptOutputs(), MergedOutputs()
        self.draws = Draws()

    def compared(self, graph: CapturedGraph, number: int, compiled: Function, args: list[Any]) -> Any:
        """Run a call of the script compiled, compare it with eager, and return the compiled result.

        Raises:
            Exception: whatever compiled code raises.
        """
        self.check_gradients()
        self.merged.look()
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
            try:
                actual = compiled(*args)
            except Exception as raised:
                if graph.draws_by_inductor and type(raised) is type(error):
                    self._judge_own_errors(graph, number, call, error)
                raise
            self._record.raises_on_copies(graph, number, error)
            return actual
        self._line.phase("run", graph, number)
        edges = edges_of(inputs) if call.switches.grad else []
        held, name = self.kept.before(inputs), f"call {number} of graph {graph.index}"
        try:
            actual = compiled(*args)
            settle()
        except Exception as error:
            if is_of_checkpoint(error):
                self._record.excuse("ended_by_checkpoint", graph, left_out="a checkpoint ends it before it returns")
            elif not is_control_flow(error):
                self._fails_to_run(graph, number, call, expected, error)
            raise
        self._line.phase("compare", graph, number)
        self.kept.after(name, held)
        self.kept.keep(name, actual)
        after = snapshot.rng_state()
        if self._asked.measure and number == 0:
            self._time(graph, call, compiled)
        if self._asked.values:
            side = Side(actual, inputs).in_container_of(expected)
            if self.merged.keep(graph.index, number, expected.result, side.result):
                self._record.excuse("one_object", graph)
            self._judge(graph, number, call, expected, side)
            if call.switches.grad:
                self._keep_for_backward(graph, number, call, compiled, actual, edges, inputs)
        snapshot.set_rng_state(after)
        return actual

    def _fails_to_run(self, graph: CapturedGraph, number: int, call: Call, expected: Side, error: Exception) -> None:
        """Hold a call that raises only compiled."""
        self._lost.end_if(error, graph, number, "run")
        if graph.draws_by_inductor:
            # It may raise only with eager's random numbers, which the script does not ask for.
            self._judge_own_random(graph, number, call, expected)
        failure = self._steady(graph, call, Failure("run", "runtime_error", exception=describe(error)))
        if failure is not None:
            self._holder.hold(graph, call, failure)

    def check_gradients(self, *, is_over: bool = False) -> None:
        """Replay, on both sides, every backward that the script ran since the last check; see `Backwards.take`.

        ``is_over``: the script has raised, so an exception in the replay may be the one that the script's own backward raised.
        """
        for backward in self.backwards.take():
            call = f"the backward of call {backward.number} of graph {backward.graph.index}"
            if backward.is_in_held:
                self.kept.writes_over(f"{call} writes over a gradient of an earlier one, which the script still holds")
            if backward.is_behind_change and not self._record.behind_change:
                self._record.behind_change = call
            self._check_gradient(backward, is_over)

    def _call(self, graph: CapturedGraph, inputs: list[Any]) -> Call:
        unfaithful: list[str] = []
        rng, switches = snapshot.rng_state(), snapshot.state_of_a_graph()
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

    def _judge(self, graph: CapturedGraph, number: int, call: Call, expected: Side, actual: Side) -> None:
        """Judge a call by both sides' results and inputs afterwards, and hold it if it fails."""
        found = compare_call(call, lambda each: actual, expected, known=graph.known)
        if isinstance(found, Raised):
            self._cannot_compare(graph, found.error)
            self._lost.end_if(found.error, by_us=True)
            return
        verdict = found.verdict
        self._record.compared(graph, number, verdict)
        if verdict.nondeterministic:
            self._record.is_unsteady(graph)
        is_passed_by = verdict.layout_only and not self._asked.layout and graph.index in self._record.layouts
        if verdict.fault and not is_passed_by:
            self._fails(graph, number, call, Failure("run", verdict.kind, verdict=verdict))
        elif graph.draws_by_inductor and graph.compared == [number]:
            self._judge_own_random(graph, number, call, expected)
            with contextlib.suppress(Exception):  # a graph that cannot be interpreted
                self.draws.note(graph.index, graph.module, call)
        elif not self._record.other_zeros:
            with contextlib.suppress(Exception):  # a tensor subclass may refuse to say which sign its zeros have
                if found.has_other_zeros:
                    self._record.other_zeros = f"call {number} of graph {graph.index}"
        if verdict.note:
            self._record.note(verdict.note)
        with contextlib.suppress(Exception):  # only a figure in the report: no verdict depends on it
            self._record.largest.look(graph.module.graph, found)

    def _judge_own_random(self, graph: CapturedGraph, number: int, call: Call, expected: Side) -> None:
        """Judge what Inductor's own random operators return at the first call of a graph, and hold it if that is of another dtype or shape."""
        if not own_random.gives_otherwise(graph.module, call, expected):
            return
        # The script's tolerance would decide, and the values are of another stream.
        call = replace(call, random=False, tolerance=None)
        found = compare_call(
            call,
            lambda each: own_random.compiled_side(graph.module, graph.backend, each, expected),
            expected,
            begins=self._phases(graph, number, "run"),
        )
        if isinstance(found, Raised):
            error = found.error
            self._lost.end_if(error, graph, number, "run")
            self._record.note(
                f"graph {graph.index}, with Inductor's own random numbers: {type(error).__name__}: {error}"
            )
        elif found.verdict.is_wrong:
            with own_random.in_use():  # the state that the held call is described with
                self._fails(graph, number, call, Failure("run", found.verdict.kind, verdict=found.verdict))

    def _judge_own_errors(self, graph: CapturedGraph, number: int, call: Call, error: Exception) -> None:
        """Hold a call that raises with eager's random operators, and returns with Inductor's own, which the script asks for.

        Not where the error may depend on the numbers drawn, or the GPU is full. The first such call of a graph stands for the others: each
        costs a compilation.
        """
        if graph.asked_own_errors or device_error(error) or raises_on_draws(graph.module, call):
            return
        graph.asked_own_errors = True
        call = replace(call, random=False, tolerance=None)
        self._line.phase("run", graph, number)
        try:
            own_random.compiled_result(graph.module, graph.backend, call)
        except Exception as raised:
            self._lost.end_if(raised, graph, number, "run")
            return
        with own_random.in_use():  # the state that the held call is described with
            self._holder.hold(graph, call, Failure("run", "missing_error", exception=describe(error)))

    def _fails(
        self, graph: CapturedGraph, number: int, call: Call, failure: Failure, backward: BackwardCall | None = None
    ) -> None:
        """Hold a call that fails, or count it, unless eager is not deterministic there."""
        left = self._steady(graph, call, failure)
        if left is None:
            return
        if left.verdict is not None and left.verdict.layout_only and not self._asked.layout:
            self._record.layout(graph, number, left.verdict)
        elif self._record.each is not None:
            self._record.each.fails(graph.key if backward is None else backward.key, str(left.kind))
        else:
            self._holder.hold(graph, call, left, backward)

    def _keep_for_backward(
        self,
        graph: CapturedGraph,
        number: int,
        call: Call,
        compiled: Function,
        actual: Any,
        edges: Sequence[GradientEdge],
        inputs: Sequence[Any],
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
            self.backwards.keep(BackwardCall(graph, number, call, compiled, actual, edges, inputs))
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
        if failure is not None:
            self._fails(graph, backward.number, replay, failure, backward)

    def _replayed(self, backward: BackwardCall, replay: GradientCall, is_over: bool) -> Failure | None:
        """The failure of a replay; None if it passes, or if it cannot be compared."""
        graph, number = backward.graph, backward.number
        phases = self._phases(graph, graph.calls - 1, "backward")
        found = compare_call(replay, backward.compiled, known=graph.known, begins=phases)
        if isinstance(found, Judged) and not found.verdict.fault:
            own, judged = backward.own(found.actual), found
            if own is not None:
                found = compare_call(replay, lambda each: own, judged.expected, known=graph.known)
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
                self._lost.end_if(error, graph, number, "backward")
            # Where the script's own backward succeeded, the replay is at fault.
            if found.step is ComparisonStep.COMPARE or not is_over:
                self._cannot_compare_gradients(graph, error)
                return None
            kind = "compile_error" if raised_while_compiling(error) else "runtime_error"
            return Failure("backward", kind, exception=describe(error))
        if backward.ran_unseen:
            self._record.excuse("cotangents_unseen", graph)
        verdict = found.verdict
        self._record.compared(graph, number, verdict, "backward")
        with contextlib.suppress(Exception):
            self._record.largest.look(graph.module.graph, found)
        return Failure("backward", "wrong_gradient", verdict=verdict) if verdict.fault else None

    def _phases(self, graph: CapturedGraph, number: int, compiled: str) -> Begins:
        """Report the steps of a comparison as phases. ``compiled``: the phase in which compiled code runs."""
        return lambda call, step: self._line.phase(
            compiled if step is ComparisonStep.COMPILED else "compare", graph, number
        )

    def _steady(self, graph: CapturedGraph, call: Call, failure: Failure) -> Failure | None:
        """A failure without the places at which eager is not deterministic: there the compiler is not to blame, which is recorded.

        None if nothing is left of it.
        """
        verdict = failure.verdict or Verdict()
        left = steadiness.steady(call, verdict)
        if left is verdict:
            return failure
        self._record.excuse("eager_unsteady", graph)
        if left is None:
            self._record.is_unsteady(graph)
            return None
        return replace(failure, kind=failure.kind if failure.phase == "backward" else left.kind, verdict=left)

    def _cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        self._record.cannot_compare(graph, error)
        self._record.excuse("error_of_ours", graph, left_out=f"{type(error).__name__}: {error}")

    def _cannot_compare_gradients(self, graph: CapturedGraph, error: Exception) -> None:
        self._record.cannot_compare(graph, error)
        fact = f"gradients of graph {graph.index}: {type(error).__name__}: {error}"
        self._record.excuse("gradients_unreplayed", graph, fact=fact)

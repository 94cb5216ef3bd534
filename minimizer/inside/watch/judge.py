"""Judges calls that ran on both sides: holds or counts those that fail, and records the others."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from torch import fx

from ..failures import describe, device_error
from ..messages import Failure
from ..referee import steadiness
from ..referee.call import Call, Side
from ..referee.comparison import Begins, ComparisonStep, Raised, compare_call
from ..referee.verdict import Verdict
from . import own_random
from .backwards import BackwardCall
from .captured import CapturedGraph
from .draws import Draws, raises_on_draws
from .holder import Holder
from .line import Line
from .lost import LostGpu
from .merged_outputs import MergedOutputs
from .record import Record


class Judge:
    """What becomes of a call once both sides are known, or once they cannot be."""

    def __init__(self, record: Record, line: Line, holder: Holder, lost: LostGpu, merged: MergedOutputs) -> None:
        self._record, self._asked, self._line, self._holder, self._lost = record, record.asked, line, holder, lost
        self._merged, self.draws = merged, Draws()

    def judge(self, graph: CapturedGraph, number: int, call: Call, expected: Side, actual: Side) -> None:
        """Judge a call by both sides' results and inputs afterwards, and hold it if it fails."""
        if self._merged.keep(graph.index, number, expected.result, actual.result):
            self._record.excuse("one_object", graph)
        found = compare_call(call, lambda each: actual, expected, known=graph.known)
        if isinstance(found, Raised):
            self.cannot_compare(graph, found.error)
            self._lost.end_if(found.error, by_us=True)
            return
        verdict = found.verdict
        self._record.compared(graph, number, verdict)
        if verdict.nondeterministic:
            self._record.is_unsteady(graph)
        is_passed_by = verdict.layout_only and not self._asked.layout and graph.index in self._record.layouts
        if verdict.fault and not is_passed_by:
            self.fails(graph, number, call, Failure("run", verdict.kind, verdict=verdict))
        elif graph.draws_by_inductor and graph.compared == [number]:
            self.judge_own_random(graph, number, call, expected)
            with contextlib.suppress(Exception):  # a graph that cannot be interpreted
                self.draws.note(graph.index, graph.module, call)
        elif not self._record.other_zeros:
            with contextlib.suppress(Exception):  # a tensor subclass may refuse to say which sign its zeros have
                if found.has_other_zeros:
                    self._record.other_zeros = f"call {number} of graph {graph.index}"
        if verdict.note:
            self._record.note(verdict.note)
        with contextlib.suppress(Exception):  # only a figure in the report: no verdict depends on it
            self._record.largest.look(module_of(call).graph, found)

    def judge_own_random(self, graph: CapturedGraph, number: int, call: Call, expected: Side) -> None:
        """Judge what Inductor's own random operators return at the first call of a graph, and hold it if that is of another dtype or shape."""
        if not own_random.gives_otherwise(module_of(call), call, expected):
            return
        # The script's tolerance would decide, and the values are of another stream.
        call = replace(call, random=False, tolerance=None)
        found = compare_call(
            call,
            lambda each: own_random.compiled_side(module_of(call), graph.backend, each, expected),
            expected,
            begins=self.phases(graph, number, "run"),
        )
        if isinstance(found, Raised):
            error = found.error
            self._lost.end_if(error, graph, number, "run")
            self._record.note(
                f"graph {graph.index}, with Inductor's own random numbers: {type(error).__name__}: {error}"
            )
        elif found.verdict.is_wrong:
            with own_random.in_use():  # the state that the held call is described with
                self.fails(graph, number, call, Failure("run", found.verdict.kind, verdict=found.verdict))

    def judge_own_errors(self, graph: CapturedGraph, number: int, call: Call, error: Exception) -> None:
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

    def fails(
        self, graph: CapturedGraph, number: int, call: Call, failure: Failure, backward: BackwardCall | None = None
    ) -> None:
        """Hold a call that fails, or count it, unless eager is not deterministic there."""
        left = self.steady(graph, call, failure)
        if left is None:
            return
        if left.verdict is not None and left.verdict.layout_only and not self._asked.layout:
            self._record.layout(graph, number, left.verdict)
        elif self._record.each is not None:
            self._record.each.fails(graph.key if backward is None else backward.key, str(left.kind))
        else:
            self._holder.hold(graph, call, left, backward)

    def phases(self, graph: CapturedGraph, number: int, compiled: str) -> Begins:
        """Report the steps of a comparison as phases. ``compiled``: the phase in which compiled code runs."""
        return lambda call, step: self._line.phase(
            compiled if step is ComparisonStep.COMPILED else "compare", graph, number
        )

    def steady(self, graph: CapturedGraph, call: Call, failure: Failure) -> Failure | None:
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

    def cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        """Record that our comparison of a call raised."""
        self._record.cannot_compare(graph, error)
        self._record.excuse("error_of_ours", graph, left_out=f"{type(error).__name__}: {error}")

    def cannot_compare_gradients(self, graph: CapturedGraph, error: Exception) -> None:
        """Record that our comparison of a call's gradients raised."""
        self._record.cannot_compare(graph, error)
        fact = f"gradients of graph {graph.index}: {type(error).__name__}: {error}"
        self._record.excuse("gradients_unreplayed", graph, fact=fact)


def module_of(call: Call) -> fx.GraphModule:
    """The graph that a call runs: without its collectives where it communicates."""
    assert isinstance(call.function, fx.GraphModule)
    return call.function

"""`CheckedGraph`: a compiled graph whose first calls are checked against eager, in the user's own process.

On a checked call the program gets eager's results, computed from its own tensors; the compiled graph and its backward run on
copies. So a wrong value from a checked call never reaches the program, and a graph that fails once runs in eager from then on.
Differences are judged as in the survey (`watch.comparer`): by the referee, and the compiler is not blamed if eager is unsteady.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from ..failures import describe, is_control_flow
from ..graph.collectives import WHY_ONCE, communicates
from ..graph.graphs import concrete
from ..graph.lifted import LiftedGraph
from ..referee import steadiness
from ..referee.call import Call, GradientCall, Side
from ..referee.comparison import ComparisonStep, Judged, Raised, compare_with_gradients
from ..referee.verdict import Verdict
from ..time_spent import TimeSpent
from ..values import snapshot
from ..values.capturing import is_capturing

Compile = Callable[[], Callable[..., Any]]
COMMUNICATES = f"a graph {WHY_ONCE}: it is not checked"
LAYOUT = (
    "a graph's values are equal to eager's, and its memory layout differs ({}), which does not count as a fault here"
)
UNSTEADY = "eager differs from eager in a graph: nothing can be said about the compiler there"
RANDOM = "a graph draws random numbers, and compiled code draws others: values that depend on them are not checked, nor its gradients"


@dataclass(frozen=True)
class Bounds:
    """Limits of checking: ``calls`` of each graph, ``seconds`` in total, ``nbytes`` of inputs of one call.

    No check begins after ``seconds``. Three copies of a call's inputs exist at once.
    """

    calls: int = 4
    seconds: float = 60.0
    nbytes: int = 1 << 30


@dataclass
class Spent:
    """Cost of checking in this process so far, and notes on what was left unchecked."""

    checking: TimeSpent = field(default_factory=TimeSpent)
    frames: int = 0
    made: int = 0
    """Number of graph calls, of which ``calls`` were checked."""
    calls: int = 0
    backward: int = 0
    notes: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A failing call of a graph, or its backward, with all data needed to reproduce it."""

    module: fx.GraphModule
    call: Call
    number: int
    """The number of the call, from 0; -1 if the graph does not compile."""
    kind: str
    what: str
    """The difference or the exception, in one line."""
    error: Exception | None = None


class CheckedGraph:
    """The callable that Dynamo gets in place of the compiled graph.

    ``on_fault`` is called with the first fault, before the failing call returns; an exception from it reaches the user.
    """

    def __init__(self, module: fx.GraphModule, bounds: Bounds, spent: Spent, on_fault: Callable[[Fault], None]) -> None:
        self._lifted = LiftedGraph(module)
        self._module = self._lifted.module
        self._bounds, self._spent, self._on_fault = bounds, spent, on_fault
        self._compiled: Callable[..., Any] = self._lifted.eager
        self._left = bounds.calls
        self._is_broken = False
        self._is_random = False
        self._communicates = communicates(module)
        if self._communicates:
            self._left = 0
            spent.notes[COMMUNICATES] = None
        spent.frames += 1

    def compile(self, compile_: Compile, inputs: list[Any]) -> CheckedGraph:
        """Compile the graph; if the compiler fails and eager does not, the graph runs in eager.

        Raises:
            Exception: the compiler's, if eager raises too or the graph communicates; or one of PyTorch's control flow.
        """
        if is_capturing():
            self._compiled = compile_()
            return self
        rng = snapshot.rng_state()
        try:
            self._compiled = compile_()
        except Exception as error:
            if is_control_flow(error):
                raise
            values = self._when_eager_runs(inputs, rng)
            if values is None:
                raise
            call = Call(self._module, values, rng, snapshot.state_of_a_graph())
            self._fail(Fault(self._module, call, -1, "compile_error", _said(error), error))
        return self

    def __call__(self, *args: Any) -> Any:
        self._spent.made += 1
        if self._is_broken:
            return self._lifted.eager(*args)
        if self._left <= 0 or is_capturing() or not self._may_check(args):
            return self._compiled(*args)
        self._left -= 1
        return self._checked(list(args))

    def _may_check(self, args: tuple[Any, ...]) -> bool:
        if self._spent.checking.seconds >= self._bounds.seconds:
            note = f"{self._bounds.seconds:g} s were spent on checking; later calls are not checked"
        elif (size := _nbytes(self._lifted.inputs(args))) > self._bounds.nbytes:
            note = f"a graph with {size >> 20:,} MiB of inputs is not checked"
        else:
            return True
        self._left = 0
        self._spent.notes[note] = None
        return False

    def _checked(self, args: list[Any]) -> Any:
        inputs = self._lifted.inputs(args)
        with self._spent.checking.timed():
            try:
                call = Call(self._module, snapshot.clone(inputs), snapshot.rng_state(), snapshot.state_of_a_graph())
            except Exception as error:  # an error of our code must not reach the user
                self._cannot_check(error)
                return self._compiled(*args)
        with call.switches.dispatching():
            expected = self._module(*inputs)
        after = snapshot.rng_state()
        try:
            with self._spent.checking.timed():
                fault = self._compare(call, Side(expected, inputs))
        except Exception as error:
            self._cannot_check(error)
            fault = None
        finally:
            snapshot.set_rng_state(after)
        if fault is not None:
            self._fail(fault)
        return expected

    def _compare(self, call: Call, expected: Side) -> Fault | None:
        self._spent.calls += 1
        number = self._bounds.calls - self._left - 1
        if number == 0:
            with call.started():
                self._is_random = steadiness.is_random(self._module, snapshot.clone(call.inputs))
            if self._is_random:
                self._spent.notes[RANDOM] = None
        needs_grad = any(isinstance(value, torch.Tensor) and value.requires_grad for value in call.inputs)
        is_differentiated = needs_grad and not self._is_random and call.switches.grad
        seen = compare_with_gradients(
            call,
            lambda each: self._lifted.run(each, self._compiled).in_container_of(expected),
            expected,
            call.behind(None) if is_differentiated else None,
        )
        self._spent.backward += isinstance(seen.gradients, Judged)
        if isinstance(seen.values, Judged) and seen.values.verdict.layout_only:
            self._spent.notes[LAYOUT.format(seen.values.verdict.differences[0])] = None
        return self._fault(seen.decisive, number)

    def _fault(self, found: Judged | Raised, number: int) -> Fault | None:
        """The fault that a comparison shows; None without one, or if eager itself is nondeterministic."""
        if isinstance(found, Raised):
            if found.step is ComparisonStep.COMPARE:
                self._cannot_check(found.error)
            if found.step is not ComparisonStep.COMPILED:
                return None
        elif not found.verdict.is_wrong:
            return None
        verdict = steadiness.steady(found.call, found.verdict if isinstance(found, Judged) else Verdict())
        if verdict is None:
            self._spent.notes[UNSTEADY] = None
            return None
        if isinstance(found, Raised):
            kind = "compile_error" if isinstance(found.call, GradientCall) else "runtime_error"
            return Fault(self._module, found.call, number, kind, _said(found.error), found.error)
        first = verdict.differences[0]
        what = f"{first.where}: expected {first.expected}, got {first.actual}"
        return Fault(self._module, found.call, number, str(verdict.kind), what)

    def _when_eager_runs(self, inputs: list[Any], rng: dict[str, Any]) -> list[Any] | None:
        """The inputs as plain values if eager runs with them.

        None if it raises, or is not run because the graph communicates.
        """
        if self._communicates:
            return None
        try:
            with self._spent.checking.timed():
                values = list(snapshot.clone(concrete(self._module.graph, self._lifted.inputs(inputs))))
                self._module(*snapshot.clone(values))
        except Exception:
            return None
        finally:
            snapshot.set_rng_state(rng)
        return values

    def _fail(self, fault: Fault) -> None:
        self._is_broken = True
        self._compiled = self._lifted.eager
        self._on_fault(fault)

    def _cannot_check(self, error: Exception) -> None:
        self._left = 0
        self._spent.notes[f"a graph could not be checked: {_said(error)}"] = None


def _nbytes(values: list[Any]) -> int:
    """Bytes of all plain storages, counting shared ones once."""
    with torch._C.DisableTorchFunctionSubclass():
        storages = {
            value.untyped_storage()._cdata: value.untyped_storage().nbytes()
            for value in values
            if isinstance(value, torch.Tensor) and snapshot.has_plain_storage(value)
        }
    return sum(storages.values())


def _said(error: Exception) -> str:
    said = describe(error)
    return f"{said.root_type}: {said.root_message.strip().splitlines()[0] if said.root_message.strip() else ''}"[:300]

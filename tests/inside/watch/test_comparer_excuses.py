"""Rules by which a call, or its gradients, are not compared: what each does to a healthy program and to a faulty one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest
import torch
from healthy_verdict import is_sure, report_of_run, says_open
from torch import fx
from torch.fx.experimental._backward_state import BackwardState
from torch.utils.checkpoint import checkpoint

from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.inside.messages import Failure
from minimizer.inside.questions import SurveyRequest
from minimizer.inside.referee import referee
from minimizer.inside.watch import backwards
from minimizer.inside.watch.captured import CapturedGraph
from minimizer.inside.watch.comparer import Comparer
from minimizer.inside.watch.record import Record
from minimizer.report.model import Report

Function = Callable[..., Any]


class Held(Exception):
    """In the place of a script that stops at a failing call."""


class Anything:
    """Line and the watch for a lost GPU: nothing is asked of them here."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Holder:
    """Stops the script at the first failure, and keeps that."""

    failure: Failure | None = None

    def is_at(self, *_: object) -> bool:
        return False

    def hold(self, graph: CapturedGraph, call: object, failure: Failure, backward: object = None) -> NoReturn:
        self.failure = failure
        raise Held


class Script:
    """A script that calls one graph, compiled as ``compiled`` says, and runs a backward through it where it can."""

    def __init__(self, eager: Function, compiled: Function, inputs: list[Any], *, values: bool = True) -> None:
        self.record = Record(SurveyRequest(script="script.py", values=values))
        self.coverage = self.record.coverage
        self.holder, other = Holder(), cast(Any, Anything())
        self.comparer = Comparer(self.record, other, cast(Any, self.holder), other)
        module = eager if isinstance(eager, fx.GraphModule) else fx.symbolic_trace(eager)
        self.graph = CapturedGraph(0, module, None, inputs)
        self.coverage.add(self.graph, None)
        self._compiled = compiled

    def call(self, *args: Any) -> Any:
        """A call of the graph, if the plan says so compared."""
        number = self.graph.calls
        if not self.coverage.takes(self.graph, args):
            return self._compiled(*args)
        return self.comparer.compared(self.graph, number, self._compiled, list(args))

    def end(self) -> Report:
        """The report of a script that came to its end."""
        self.comparer.check_gradients()
        checked = parse(protocol.Checked, dataclasses.asdict(self.record.checked()))
        return report_of_run(checked)


def rules(report: Report) -> set[str]:
    return {one.rule for one in report.checked.excused}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A survey watches comparisons for the rest of its process."""
    monkeypatch.setattr("minimizer.inside.watch.tolerances.watch", list)


class Scaled(torch.autograd.Function):
    """The identity, with gradients that are twice what they should be."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


class Again:
    """`torch.exp`, but off in a checkpoint's second call of it, with which the script's backward computes."""

    def __init__(self, off: int) -> None:
        self._off, self._calls = off, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self._calls += torch._C._autograd._top_saved_tensors_default_hooks(True) is not None  # else it is a run of ours
        return (x + self._off * (self._calls == 2)).exp()


@pytest.mark.needs_excuse("ended_by_checkpoint")
@pytest.mark.fault_behind("ended_by_checkpoint")
@pytest.mark.parametrize("off", [0, 1], ids=["healthy", "faulty"])
def test_a_call_that_a_checkpoint_ends_is_left_open(off: int) -> None:
    x = leaf()
    script = Script(lambda x: x.exp(), Again(off), [x])
    checkpoint(script.call, x, use_reentrant=False).sum().backward()
    report = script.end()
    assert says_open(report, "ended_by_checkpoint")
    assert report.checked.not_compared == ["1 call of graph 0: a checkpoint ends it before it returns"]


def graph_of(function: Function, inputs: int = 1) -> fx.GraphModule:
    """A graph that calls one function, which is not traced."""
    graph = fx.Graph()
    function_ = function if hasattr(function, "__name__") else function.__call__
    taken = tuple(graph.placeholder(f"x{n}") for n in range(inputs))
    graph.output(graph.call_function(function_, taken))
    return fx.GraphModule(torch.nn.Module(), graph)


def sin(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def wrong(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, Scaled.apply(x.sin()))


COMPILED = pytest.mark.parametrize("compiled", [sin, wrong], ids=["healthy", "faulty"])
DIFFERENTIATED = pytest.mark.parametrize("compiled", [sin, wrong_gradient], ids=["healthy", "faulty"])


def leaf(length: int = 4) -> torch.Tensor:
    return torch.ones(length, requires_grad=True)


def test_without_a_rule_a_fault_is_held_and_a_healthy_script_is_sure() -> None:
    right = Script(sin, sin, [leaf()])
    right.call(leaf()).sum().backward()
    assert is_sure(right.end()) and len(right.graph.backward) == 1
    with pytest.raises(Held):
        Script(sin, wrong, [leaf()]).call(leaf())
    script = Script(sin, wrong_gradient, [leaf()])
    script.call(leaf()).sum().backward()
    with pytest.raises(Held):
        script.end()


@pytest.mark.needs_excuse("one_object")
@pytest.mark.fault_behind("one_object")
@pytest.mark.parametrize("is_faulty", [False, True], ids=["healthy", "faulty"])
def test_one_object_for_two_outputs_is_told_where_the_script_gives_it_another_shape(is_faulty: bool) -> None:
    def eager(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sine = x.sin()
        return sine, sine.view(-1)

    def compiled(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.sin()] * 2

    script = Script(eager, compiled, [torch.ones(4)])
    base, flat = script.call(torch.ones(4))
    base.mul_(2)
    if is_faulty:
        flat.resize_(8)
    script.call(torch.ones(4))
    report = script.end()
    assert rules(report) == {"one_object"} and is_sure(report)
    assert bool(script.comparer.merged.changed) is is_faulty


@pytest.mark.needs_excuse("error_of_ours")
@pytest.mark.fault_behind("error_of_ours")
@COMPILED
def test_a_call_over_which_we_fail_is_told_before_all_else(compiled: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> NoReturn:
        raise AttributeError("no such thing")

    script = Script(sin, lambda x: compiled(x) if len(x) == 3 else sin(x), [torch.ones(4)])
    script.call(torch.ones(4))
    monkeypatch.setattr(referee, "judge", broken)
    assert torch.equal(script.call(torch.ones(3)), compiled(torch.ones(3))), "nothing is raised into the script"
    report = script.end()
    assert (report.checked.calls, report.checked.calls_made) == (1, 2)
    assert rules(report) == {"error_of_ours"} and says_open(report, "error_of_ours")


POOL = torch.ones(3)


def pooled(x: torch.Tensor) -> torch.Tensor:
    """Knows one tensor of three elements only, as a kernel does that registers its memory."""
    if len(x) == len(POOL) and x is not POOL:
        raise RuntimeError("no tensor of the pool")
    return x.sin()


@pytest.mark.needs_excuse("eager_raises_on_copies")
@pytest.mark.fault_behind("eager_raises_on_copies")
@COMPILED
def test_what_eager_cannot_run_on_copies_is_told_before_all_else(compiled: Function) -> None:
    script = Script(graph_of(pooled), lambda x: compiled(x) if x is POOL else sin(x), [POOL])
    script.call(torch.ones(4))
    assert torch.equal(script.call(POOL), compiled(POOL))
    report = script.end()
    assert (report.checked.calls, report.checked.calls_made) == (1, 2)
    assert rules(report) == {"eager_raises_on_copies"} and says_open(report, "eager_raises_on_copies")
    assert [missing.call for missing in script.record.missing] == [1], "an error that the compiler loses is asked for"


class Rates:
    """An object that has no copy."""

    rate = 2.0


def scaled(rates: Rates, x: torch.Tensor) -> torch.Tensor:
    return x * rates.rate


@pytest.mark.needs_excuse("inputs_not_copied")
@pytest.mark.fault_behind("inputs_not_copied")
def test_beside_an_input_that_has_no_copy_values_are_compared() -> None:
    rates = Rates()
    right = Script(graph_of(scaled, 2), scaled, [rates, torch.ones(4)])
    right.call(rates, torch.ones(4))
    report = right.end()
    assert rules(report) == {"inputs_not_copied"} and is_sure(report)
    assert report.checked.not_compared == [
        "state of graph 0 that cannot be copied: Rates is kept by reference, not copied"
    ]
    with pytest.raises(Held):
        Script(graph_of(scaled, 2), lambda rates, x: x, [rates, torch.ones(4)]).call(rates, torch.ones(4))


@pytest.mark.needs_excuse("gradients_given_up")
@pytest.mark.fault_behind("gradients_given_up")
@DIFFERENTIATED
def test_gradients_that_are_given_up_are_told_and_the_later_ones_are_compared(
    compiled: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backwards, "MOST_BACKWARD", 2)

    def trained(of_call: int) -> Script:
        script = Script(sin, lambda x: compiled(x) if len(x) == of_call else sin(x), [leaf(1)])
        torch.stack([script.call(leaf(length)).sum() for length in (1, 2, 3)]).sum().backward()
        return script

    report = trained(1).end()
    assert report.checked.backward == 2
    assert rules(report) == {"gradients_given_up"} and says_open(report, "gradients_given_up")
    if compiled is wrong_gradient:
        with pytest.raises(Held):
            trained(3).end()


@pytest.mark.needs_excuse("gradients_drawn_twice")
@pytest.mark.fault_behind("gradients_drawn_twice")
@DIFFERENTIATED
def test_gradients_of_numbers_that_are_drawn_twice_are_told_and_values_are_compared(compiled: Function) -> None:
    def drawing(compiled: Function) -> Script:
        script = Script(sin, compiled, [leaf()])
        script.graph.random = script.graph.recomputes = True
        script.call(leaf()).sum().backward()
        return script

    report = drawing(compiled).end()
    assert (report.checked.calls, report.checked.backward) == (1, 0)
    assert rules(report) == {"gradients_drawn_twice"} and says_open(report, "gradients_drawn_twice")
    with pytest.raises(Held):
        drawing(wrong)


@pytest.mark.needs_excuse("gradients_with_hooks")
@pytest.mark.fault_behind("gradients_with_hooks")
def test_a_call_that_passes_hooks_is_compared_but_for_its_own_gradients() -> None:
    """Those are in the graphs of compiled autograd, which are calls like any other: see the tests of compiled autograd."""

    def hooked(compiled: Function) -> Script:
        state = BackwardState()
        script = Script(graph_of(lambda state, x: x.sin(), 2), lambda state, x: compiled(x), [state, leaf()])
        script.call(state, leaf()).sum().backward()
        return script

    report = hooked(sin).end()
    assert (report.checked.calls, report.checked.backward) == (1, 0)
    assert "gradients_with_hooks" in rules(report)
    with pytest.raises(Held):
        hooked(wrong)


class Once(torch.autograd.Function):
    """The identity; its backward runs on the script's own tensors, not on copies."""

    runs = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("not on a copy")


@pytest.mark.needs_excuse("gradients_unreplayed")
@pytest.mark.fault_behind("gradients_unreplayed")
@DIFFERENTIATED
def test_a_backward_that_cannot_be_replayed_is_told_before_all_else(compiled: Function) -> None:
    script = Script(graph_of(lambda x: Once.apply(x.sin())), compiled, [leaf()])
    script.call(leaf()).sum().backward()
    report = script.end()
    assert (report.checked.calls, report.checked.backward) == (1, 0)
    assert rules(report) == {"gradients_unreplayed"} and says_open(report, "gradients_unreplayed")


@pytest.mark.needs_excuse("cotangents_unseen")
@pytest.mark.fault_behind("cotangents_unseen")
def test_where_cotangents_are_not_known_gradients_are_compared_all_the_same() -> None:
    def unseen(compiled: Function) -> Script:
        script = Script(sin, compiled, [leaf()])
        kept = script.call(leaf())
        script.comparer.backwards.run_unseen()
        assert kept.requires_grad
        return script

    report = unseen(sin).end()
    assert report.checked.backward == 1
    assert rules(report) == {"cotangents_unseen"} and is_sure(report)
    with pytest.raises(Held):
        unseen(wrong_gradient).end()


class Seldom:
    """Two results, of which the first is another number in the sixth run, as a kernel that races gives one now and then."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.runs += 1
        return x + (self.runs == 6), x * 2


@pytest.mark.needs_excuse("eager_unsteady")
@pytest.mark.fault_behind("eager_unsteady")
def test_where_eager_is_not_steady_only_that_place_is_excused() -> None:
    ints = torch.arange(4)
    right = Script(graph_of(Seldom()), lambda x: (x + 1, x * 2), [ints])
    right.call(ints)
    assert rules(right.end()) == {"eager_unsteady"}
    assert right.record.unsteady == "compiled graph 0, call 0", "the script is not called healthy"
    faulty = Script(graph_of(Seldom()), lambda x: (x + 1, x * 3), [ints])
    with pytest.raises(Held):
        faulty.call(ints)
    failure = faulty.holder.failure
    assert failure is not None and [one.where for one in failure.verdict.differences] == ["output[1]"]


@pytest.mark.fault_behind("calls_sampled")
def test_a_fault_that_lasts_is_found_at_a_later_call_of_the_first_run() -> None:
    script = Script(sin, lambda x: wrong(x) if script.graph.calls > 20 else sin(x), [torch.ones(4)])
    with pytest.raises(Held):
        for _ in range(100):
            script.call(torch.ones(4))
    assert script.graph.calls == 32

"""A graph that is checked on its first calls: what it gives, what it reports, and how much it may cost.

The compiler is a function of the test's, so that each way of failing can be had without a kernel being built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from minimizer.inside.checked import RANDOM, Bounds, CheckedGraph, Fault, Spent


class Lab:
    """One checked graph, and what became of it."""

    def __init__(self, function: Callable[..., Any], compiled: Callable[..., Any], **bounds: Any) -> None:
        self.faults: list[Fault] = []
        self.spent = Spent()
        self.compiled_calls = 0

        def counted(*args: Any) -> Any:
            self.compiled_calls += 1
            return compiled(*args)

        graph = fx.symbolic_trace(function)
        self.graph = CheckedGraph(graph, Bounds(**bounds), self.spent, self.faults.append)
        self.graph.compile(lambda: counted, [])


def double(x: torch.Tensor) -> Any:
    return (x * 2,)


def triple(x: torch.Tensor) -> Any:
    return (x * 3,)


def test_a_healthy_graph_is_checked_on_its_first_calls_only() -> None:
    lab = Lab(double, double, calls=2)
    for _ in range(5):
        assert torch.equal(lab.graph(torch.ones(3))[0], torch.full((3,), 2.0))
    assert (lab.spent.frames, lab.spent.calls, lab.faults) == (1, 2, [])
    assert lab.compiled_calls == 5


def test_a_wrong_value_never_reaches_the_program() -> None:
    lab = Lab(double, triple)
    results = [lab.graph(torch.ones(3))[0] for _ in range(3)]
    assert all(torch.equal(result, torch.full((3,), 2.0)) for result in results)
    assert [(fault.kind, fault.call) for fault in lab.faults] == [("wrong_output", 0)]
    assert lab.compiled_calls == 1
    assert torch.equal(lab.faults[0].inputs[0], torch.ones(3))


def test_a_grad_mode_that_the_graph_leaves_behind_is_not_that_of_the_compiled_one() -> None:
    graph = fx.Graph()
    doubled = graph.call_function(torch.mul, (graph.placeholder("x"), 2))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((doubled,))
    faults: list[Fault] = []
    checked = CheckedGraph(fx.GraphModule({}, graph), Bounds(), Spent(), faults.append)

    def compiled(x: torch.Tensor) -> Any:
        doubled = x * 2
        torch.set_grad_enabled(False)
        return (doubled,)

    checked.compile(lambda: compiled, [])
    with torch.enable_grad():
        (result,) = checked(torch.ones(3, requires_grad=True))
        assert not torch.is_grad_enabled()
    assert result.requires_grad
    assert faults == []


def test_a_later_wrong_call_is_numbered() -> None:
    answers = iter((double, double, triple))
    lab = Lab(double, lambda x: next(answers)(x))
    for _ in range(3):
        lab.graph(torch.ones(3))
    assert [fault.call for fault in lab.faults] == [2]


def test_the_fault_holds_the_inputs_as_they_were_before_the_call() -> None:
    def add_to(x: torch.Tensor) -> Any:
        return (x.add_(1),)

    lab = Lab(add_to, lambda x: (x.add_(2),))
    x = torch.zeros(3)
    lab.graph(x)
    assert torch.equal(x, torch.ones(3)), "the program's own tensor is changed by eager, once"
    assert torch.equal(lab.faults[0].inputs[0], torch.zeros(3))


def test_an_exception_that_only_compiled_code_raises_is_a_fault() -> None:
    def fail(x: torch.Tensor) -> Any:
        raise RuntimeError("no such kernel")

    lab = Lab(double, fail)
    assert torch.equal(lab.graph(torch.ones(2))[0], torch.full((2,), 2.0))
    assert [(fault.kind, fault.what) for fault in lab.faults] == [("runtime_error", "RuntimeError: no such kernel")]


def test_an_exception_of_the_program_stays_its_own() -> None:
    def needs_three(x: torch.Tensor) -> Any:
        return (x + torch.ones(3),)

    lab = Lab(needs_three, needs_three)
    with pytest.raises(RuntimeError, match="must match"):
        lab.graph(torch.ones(2))
    assert lab.faults == []


def test_what_does_not_compile_goes_on_in_eager() -> None:
    faults: list[Fault] = []
    graph = CheckedGraph(fx.symbolic_trace(double), Bounds(), Spent(), faults.append)

    def fail() -> Any:
        raise ValueError("cannot lower")

    graph.compile(fail, [torch.ones(2)])
    assert [(fault.kind, fault.call) for fault in faults] == [("compile_error", -1)]
    assert torch.equal(graph(torch.ones(2))[0], torch.full((2,), 2.0))


def test_the_compiler_is_not_blamed_for_a_graph_that_eager_cannot_run() -> None:
    def needs_three(x: torch.Tensor) -> Any:
        return (x + torch.ones(3),)

    faults: list[Fault] = []

    def fail() -> Any:
        raise ValueError("cannot lower")

    with pytest.raises(ValueError, match="cannot lower"):
        CheckedGraph(fx.symbolic_trace(needs_three), Bounds(), Spent(), faults.append).compile(fail, [torch.ones(2)])
    assert faults == []


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 5


def test_gradients_are_compared() -> None:
    lab = Lab(double, lambda x: (_WrongGradient.apply(x),))
    x = torch.ones(3, requires_grad=True)
    lab.graph(x)[0].sum().backward()
    assert [(fault.kind, fault.backward) for fault in lab.faults] == [("wrong_gradient", True)]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 2.0)), "the program has eager's"
    assert not Lab(double, lambda x: (_WrongGradient.apply(x),)).graph(torch.ones(3))[0].requires_grad


def test_random_numbers_of_another_stream_are_no_fault_and_the_program_draws_as_it_would() -> None:
    def noisy(x: torch.Tensor) -> Any:
        return (torch.nn.functional.dropout(x, 0.5, True),)

    def other_stream(x: torch.Tensor) -> Any:
        torch.rand(7)
        return noisy(x)

    lab = Lab(noisy, other_stream)
    torch.manual_seed(1)
    checked = [lab.graph(torch.ones(100))[0] for _ in range(2)]
    torch.manual_seed(1)
    assert all(torch.equal(result, noisy(torch.ones(100))[0]) for result in checked)
    assert lab.faults == []
    assert list(lab.spent.notes) == [RANDOM], "what was not checked is said"


def test_no_blame_where_eager_changes_its_mind() -> None:
    faults: list[Fault] = []
    graph = fx.Graph()
    x = graph.placeholder("x")
    seen = iter(range(100))
    graph.output((graph.call_function(lambda value: value + next(seen), (x,)),))
    checked = CheckedGraph(fx.GraphModule({}, graph), Bounds(), Spent(), faults.append)
    checked.compile(lambda: triple, [])
    checked(torch.ones(3))
    assert faults == []


def test_nothing_is_checked_beyond_the_bounds_and_that_is_said() -> None:
    late = Lab(double, triple, seconds=0.0)
    late.graph(torch.ones(3))
    assert (late.faults, late.compiled_calls) == ([], 1)
    assert list(late.spent.notes) == ["0 s were spent on checking; later calls are not checked"]
    large = Lab(double, triple, nbytes=1 << 20)
    base = torch.ones(1 << 18)
    large.graph(base)
    assert len(large.faults) == 1, "1 MiB is within 1 MiB"
    larger = Lab(double, triple, nbytes=1 << 20)
    larger.graph(torch.ones(1 << 19))
    assert larger.faults == []
    assert list(larger.spent.notes) == ["a graph with 2 MiB of inputs is not checked"]


def test_what_our_own_comparison_cannot_take_never_reaches_the_program() -> None:
    lab = Lab(double, double)
    lab.graph.compile(lambda: double, [])
    unsized = torch.nn.parameter.UninitializedParameter()  # cannot be copied
    with pytest.raises(ValueError, match="uninitialized parameter"):  # nor can eager take it
        lab.graph(unsized)
    assert "could not be checked" in next(iter(lab.spent.notes))
    assert lab.faults == []


def test_what_the_handler_raises_reaches_the_program() -> None:
    def refuse(fault: Fault) -> None:
        raise RuntimeError(fault.kind)

    graph = CheckedGraph(fx.symbolic_trace(double), Bounds(), Spent(), refuse)
    graph.compile(lambda: triple, [])
    with pytest.raises(RuntimeError, match="wrong_output"):
        graph(torch.ones(3))
    assert torch.equal(graph(torch.ones(3))[0], torch.full((3,), 2.0)), "it stays usable, in eager"

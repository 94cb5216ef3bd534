"""A graph that is checked on its first calls: what it gives, what it reports, and how much it may cost.

The compiler is a function of the test's, so that each way of failing can be had without a kernel being built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from minimizer.inside.backend.checked import COMMUNICATES, RANDOM, UNSTEADY, Bounds, CheckedGraph, Fault, Spent
from minimizer.inside.graph.graphs import copy_graph
from minimizer.inside.referee.call import GradientCall


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
    assert [(fault.kind, fault.number) for fault in lab.faults] == [("wrong_output", 0)]
    assert lab.compiled_calls == 1
    assert torch.equal(lab.faults[0].call.inputs[0], torch.ones(3))


def test_another_memory_layout_is_told_and_no_fault() -> None:
    lab = Lab(lambda x: (x.t() * 2,), lambda x: ((x.t() * 2).contiguous(),))
    for _ in range(2):
        assert lab.graph(torch.ones(2, 3))[0].stride() == (1, 3)
    assert (lab.faults, lab.spent.calls) == ([], 2)
    assert ["memory layout differs" in note for note in lab.spent.notes] == [True]


def test_another_memory_layout_hides_no_wrong_gradient() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return (x.t() * 2).contiguous()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad.t() * 3

    lab = Lab(lambda x: (x.t() * 2,), lambda x: (Wrong.apply(x),))
    lab.graph(torch.ones(2, 3, requires_grad=True))
    assert [(fault.kind, isinstance(fault.call, GradientCall)) for fault in lab.faults] == [("wrong_gradient", True)]


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
    assert [fault.number for fault in lab.faults] == [2]


def test_the_fault_holds_the_inputs_as_they_were_before_the_call() -> None:
    def add_to(x: torch.Tensor) -> Any:
        return (x.add_(1),)

    lab = Lab(add_to, lambda x: (x.add_(2),))
    x = torch.zeros(3)
    lab.graph(x)
    assert torch.equal(x, torch.ones(3)), "the program's own tensor is changed by eager, once"
    assert torch.equal(lab.faults[0].call.inputs[0], torch.zeros(3))


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
    assert [(fault.kind, fault.number) for fault in faults] == [("compile_error", -1)]
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
    assert [(fault.kind, isinstance(fault.call, GradientCall)) for fault in lab.faults] == [("wrong_gradient", True)]
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


def checked_once(function: Callable[..., Any], compiled: Callable[..., Any], x: torch.Tensor) -> Lab:
    """One checked call of a graph that calls one function, which is not traced."""
    graph = fx.Graph()
    graph.output(graph.call_function(function, (graph.placeholder("x"),)))
    lab = Lab(double, double)
    lab.graph = CheckedGraph(fx.GraphModule({}, graph), Bounds(), lab.spent, lab.faults.append)
    lab.graph.compile(lambda: compiled, [])
    lab.graph(x)
    return lab


def test_a_fault_is_told_by_a_place_at_which_eager_is_steady() -> None:
    def checked(moves_from: float) -> tuple[list[str], int]:
        runs: list[None] = []

        def moves(x: torch.Tensor) -> Any:
            runs.append(None)
            return x + (len(runs) >= moves_from), x * 2

        lab = checked_once(moves, lambda x: (x + 5, x * 3), torch.ones(3))
        return [fault.what for fault in lab.faults], len(runs)

    told, runs = checked(float("inf"))
    assert told == ["output[0]: expected 1, got 6"]
    told, _ = checked(runs)  # the last run, which only looks whether eager is steady
    assert told == ["output[1]: expected 2, got 3"]


@pytest.mark.parametrize("is_steady", [True, False])
def test_a_backward_that_eager_can_run_only_sometimes_is_not_the_compilers(is_steady: bool) -> None:
    class Sometimes(torch.autograd.Function):
        runs = 0

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            Sometimes.runs += 1
            if not is_steady and Sometimes.runs > 2:
                raise RuntimeError("out of luck")
            return grad * 2

    class Never(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no such kernel")

    x = torch.ones(3, requires_grad=True)
    lab = checked_once(lambda x: (Sometimes.apply(x),), lambda x: (Never.apply(x),), x)
    assert [(fault.kind, isinstance(fault.call, GradientCall)) for fault in lab.faults] == [
        ("compile_error", True)
    ] * is_steady
    assert (UNSTEADY in lab.spent.notes) != is_steady


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


def holding(tensors: dict[str, torch.Tensor], function: Callable[..., Any]) -> fx.GraphModule:
    """A graph that holds tensors itself, as Dynamo makes one of a compiled step of an optimizer."""

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in tensors.items():
                if isinstance(tensor, torch.nn.Parameter):
                    self.register_parameter(name, tensor)
                else:
                    self.register_buffer(name, tensor)

        def forward(self, x: torch.Tensor) -> Any:
            return function(x, **{name: getattr(self, name) for name in tensors})

    return fx.symbolic_trace(Holder())


def add_to(x: torch.Tensor, p: torch.Tensor) -> Any:
    with torch.no_grad():
        return (p.add_(x).sum(),)


def checked_with(p: torch.Tensor, compiled: Callable[..., Any]) -> tuple[CheckedGraph, list[Fault], Spent]:
    faults: list[Fault] = []
    spent = Spent()
    graph = CheckedGraph(holding({"p": p}, add_to), Bounds(), spent, faults.append)
    return graph.compile(lambda: compiled, []), faults, spent


def test_a_tensor_of_the_graphs_own_is_changed_once_a_call() -> None:
    p = torch.zeros(3)
    graph, faults, spent = checked_with(p, lambda x: add_to(x, p))
    for call in range(1, 7):  # the last ones are not checked
        (total,) = graph(torch.ones(3))
        assert p.tolist() == [call] * 3
        assert total == 3 * call
    assert (faults, spent.calls, list(spent.notes)) == ([], 4, [])


def test_what_becomes_of_a_tensor_of_the_graphs_own_is_compared() -> None:
    p = torch.zeros(3)
    graph, faults, _ = checked_with(p, lambda x: (p.sub_(x).sum() + 6,))
    assert graph(torch.ones(3))[0] == 3
    assert [fault.kind for fault in faults] == ["wrong_output"]
    assert faults[0].what == "input[1]: expected 1, got -1"
    assert [value.tolist() for value in faults[0].call.inputs] == [[1, 1, 1], [0, 0, 0]]
    assert graph(torch.ones(3))[0] == 6
    assert p.tolist() == [2, 2, 2], "eager's, from here on"


def test_gradients_of_a_tensor_of_the_graphs_own_are_compared() -> None:
    p = torch.nn.Parameter(torch.full((3,), 2.0))

    def multiply(x: torch.Tensor, p: torch.Tensor) -> Any:
        return (x * p,)

    def run(compiled: Callable[..., Any]) -> list[tuple[str, bool]]:
        faults: list[Fault] = []
        graph = CheckedGraph(holding({"p": p}, multiply), Bounds(), Spent(), faults.append)
        graph.compile(lambda: compiled, [])(torch.ones(3))
        return [(fault.kind, isinstance(fault.call, GradientCall)) for fault in faults]

    assert run(lambda x: multiply(x, p)) == []
    assert run(lambda x: (_WrongGradient.apply(p * x) / 2,)) == [("wrong_gradient", True)]
    assert p.grad is None


def test_a_graph_whose_own_tensor_cannot_stand_in_for_its_copy_is_not_checked() -> None:
    p = torch.zeros(3)
    graph, faults, spent = checked_with(p, lambda x: (p.sub_(x).sum(),))
    assert graph(p.view(3))[0] == 0
    assert faults == []
    assert "shares its memory" in next(iter(spent.notes))


def adam(backend: Any) -> list[torch.Tensor]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.1)

    def step() -> None:
        optimizer.step()

    run = torch.compile(step, backend=backend) if backend else step
    for _ in range(6):
        optimizer.zero_grad()
        linear(torch.randn(3, 4)).square().mean().backward()
        run()
    return [parameter.detach().clone() for parameter in linear.parameters()]


@pytest.mark.filterwarnings("ignore")  # what Dynamo says about optimizers
@pytest.mark.parametrize("fault", [False, True])
def test_a_compiled_step_of_an_optimizer_trains_as_eager_does(fault: bool) -> None:
    faults: list[Fault] = []
    spent = Spent()

    def compile_(module: fx.GraphModule) -> Any:
        copy = fx.GraphModule(module, copy_graph(module.graph))
        for node in copy.graph.find_nodes(op="call_method", target="addcdiv_") if fault else ():
            node.kwargs = {"value": 1.5}
        copy.recompile()
        return copy

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        graph = CheckedGraph(module, Bounds(), spent, faults.append)
        return graph.compile(lambda: compile_(module), inputs)

    torch.testing.assert_close(adam(backend), adam(None), rtol=1e-4, atol=1e-5)
    assert [fault.kind for fault in faults] == ["wrong_output"] * fault
    assert (spent.calls, list(spent.notes)) == (1 if fault else 4, [])


def test_a_graph_that_talks_to_other_ranks_is_never_run_twice() -> None:
    runs: list[int] = []
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.ops._c10d_functional.wait_tensor, (x,)),))
    spent = Spent()

    def compiled(x: torch.Tensor) -> Any:
        runs.append(1)
        return (x,)

    module = fx.GraphModule({}, graph)
    checked = CheckedGraph(module, Bounds(), spent, lambda fault: None)
    checked._lifted.module.forward = lambda *args: pytest.fail("eager ran it too")
    checked.compile(lambda: compiled, [torch.ones(2)])(torch.ones(2))
    assert (len(runs), spent.calls, list(spent.notes)) == (1, 0, [COMMUNICATES])

    def fail() -> Any:
        raise ValueError("cannot lower")

    with pytest.raises(ValueError, match="cannot lower"):
        checked.compile(fail, [torch.ones(2)])


class Tag(torch.Tensor):
    pass


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3).as_subclass(Tag),
        lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged),
        lambda: torch.quantize_per_tensor(torch.ones(3, 4), 0.1, 0, torch.quint8)[:, ::2],
    ],
    ids=["class of the user's", "nested", "quantized"],
)
def test_no_difference_is_made_up_where_an_input_is_no_plain_tensor(make: Callable[[], torch.Tensor]) -> None:
    value = make()
    with torch._C.DisableTorchFunctionSubclass():  # as Dynamo runs a graph
        lab = Lab(lambda x: (x.clone(),), lambda x: (x.clone(),))
        lab.graph(value)
    assert (lab.faults, lab.spent.calls) == ([], 1)


def test_precisions_set_for_one_backend_do_not_reach_the_program() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]  # get_float32_matmul_precision() raises from now on
    try:
        lab = Lab(double, triple)
        assert torch.equal(lab.graph(torch.ones(3))[0], torch.full((3,), 2.0))
        assert len(lab.faults) == 1
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"  # type: ignore[attr-defined]


@pytest.mark.parametrize("compiled_in_it", [False, True])
def test_nothing_is_checked_while_the_program_captures_a_cuda_graph(
    monkeypatch: pytest.MonkeyPatch, compiled_in_it: bool
) -> None:
    """A stand-in for the capture: only the compiled graph may run in it."""
    capturing = compiled_in_it
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: capturing)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    lab = Lab(double, triple)
    capturing = True
    assert torch.equal(lab.graph(torch.ones(3))[0], torch.full((3,), 3.0))
    assert (lab.spent.calls, lab.compiled_calls, lab.faults) == (0, 1, [])
    capturing = False
    assert torch.equal(lab.graph(torch.ones(3))[0], torch.full((3,), 2.0)), "checked again as soon as it is over"
    assert [fault.kind for fault in lab.faults] == ["wrong_output"]

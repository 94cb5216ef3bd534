"""A trace is the script as one flat program: run by itself, in eager, it computes what the script has computed."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import torch
from flat import SAYS, event, program_of, run_in_eager, said, text_of, traced

from minimizer.engine.child.executor import Executor

GRAPH_BREAK = """
    @torch.compile(backend="eager")
    def f(x):
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y * x

    x = torch.arange(6.0).reshape(2, 3)
    result = f(x).t() - 2
"""
CACHE = """
    cache = torch.zeros(2, 8)

    @torch.compile(backend="eager")
    def step(token, position):
        cache[:, position : position + 1] = token
        return cache[:, : position + 1].sum()

    token = torch.ones(2, 1)
    for position in range(3):
        token = token * 2 + step(token, position)
    cache[:, 4] = 7
    result = cache
"""
TRAINING = """
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    average = torch.zeros(7, 5)
    for _ in range(2):
        batch = torch.randn(4, 5)
        for part in batch.chunk(2):
            (F.mse_loss(compiled(part), part[:, :1]) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        average.lerp_(model[0].weight.detach(), 0.5)
    result = average
"""
GRADIENTS = """
    torch.manual_seed(4)
    weight = torch.randn(3, 3, requires_grad=True)

    @torch.compile(backend="eager")
    def f(x):
        return (x @ weight).sigmoid()

    with torch.no_grad():
        start = f(torch.eye(3))
    loss = f(start).square().mean()
    (slope,) = torch.autograd.grad(loss, weight, retain_graph=True)
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * (weight.grad + slope)
    weight.data = weight.data.round(decimals=3)
    result = weight
"""
MODES = """
    @torch.compile(backend="eager")
    def f(x):
        return x @ x.t()

    x = torch.linspace(0, 1, 20).reshape(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = f(x)
        with torch.no_grad():
            half = half @ half
    torch.set_default_dtype(torch.float64)
    more = torch.ones(4, 4) * half
    with torch.inference_mode():
        result = (f(more) + 1).mul_(0.5)
"""
DRAWN = """
    @torch.compile(backend="eager")
    def f(x):
        return x + torch.rand(3)

    own = torch.Generator().manual_seed(9)
    first = f(torch.ones(3))
    torch.manual_seed(12)
    second = f(first) + torch.rand(3, generator=own)
    torch.rand(2)
    torch.manual_seed(12)
    result = torch.stack([first, second, F.dropout(second), torch.randn(3, generator=own)])
"""
RAISED = """
    @torch.compile(backend="eager")
    def f(x):
        return x * 2

    x = f(torch.ones(2, 3))
    try:
        torch.mm(x, x)
    except RuntimeError:
        x = x[..., 1:] @ x[:, ::2].T
    base = torch.arange(12.0)
    whole, left = torch.nn.Parameter(base), base[1:5]
    f(left)
    left += 1
    (f(whole).sum() + whole[2]).backward()
    result = torch.cat([whole.detach(), whole.grad, x.flatten()])
"""


@pytest.mark.parametrize("text", [GRAPH_BREAK, CACHE, TRAINING, GRADIENTS, MODES, DRAWN, RAISED])
@pytest.mark.examples(3)
def test_a_flat_program_computes_what_its_script_computes(
    text: str, child: Executor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing = traced(child, home, dedent(text) + SAYS)
    program = program_of(tracing)

    names = run_in_eager(text_of(tracing, tmp_path), monkeypatch)

    # The last value that is made, or changed, is the script's result.
    last = next(event for event in reversed(program.events) if event.values)
    found = names[last.values[0]]
    found = names["cache"] if text is CACHE else names["average"] if text is TRAINING else found
    assert torch.equal(found.double(), torch.tensor(said(tracing), dtype=torch.float64)), program.left_out
    assert program.calls >= 2
    assert (program.left_out, program.cut) == ([], "")


def test_events_name_the_scripts_values_and_lines_and_what_they_change(child: Executor, home: Path) -> None:
    program = program_of(traced(child, home, dedent(TRAINING)))

    backward, step = event(program, ".backward()"), event(program, "graph_0(")
    assert {"_0_weight", "_0_bias", "_2_weight", "_2_bias", "part"} <= step.reads
    assert set(backward.grads) == {"_0_weight", "_0_bias", "_2_weight", "_2_bias"}
    assert step.source is not None
    assert step.source[2].startswith("(F.mse_loss(compiled(part)")
    assert event(program, "average.lerp_").writes == ("average",)
    assert all("torch.no_grad()" in one.under for one in program.events if "addcdiv_" in one.code)
    assert program.inputs["_0_weight"].requires_grad


LEFT_OUT = """
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    @torch.compile(backend="eager")
    def f(x):
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    y = Double.apply(f(x))
    y.register_hook(lambda grad: grad * 3)
    f(y).sum().backward()
    torch.func.grad(lambda x: x.cos().sum())(torch.ones(2))
    class Own(torch.Tensor):
        pass
    torch.ones(2).as_subclass(Own) + 1
"""


def test_what_cannot_be_noted_is_told_with_its_line(child: Executor, home: Path) -> None:
    program = program_of(traced(child, home, dedent(LEFT_OUT)))

    told = {(left.what, left.code) for left in program.left_out}
    assert ("a hook (register_hook)", "y.register_hook(lambda grad: grad * 3)") in told
    assert any(what.startswith("how gradients flow through Double") for what, _ in told)
    assert any(what == "a call inside of a transform of torch.func" for what, _ in told)
    assert any(what == "a call with a tensor of type Own" for what, _ in told)


def test_an_endless_loop_is_cut_and_said(child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimizer.engine.outer.runs.MOST_EVENTS", 30)
    text = 'f = torch.compile(lambda x: x + 1, backend="eager")\nx = torch.ones(3)\nwhile True:\n    x = f(x) * 2\n'

    program = program_of(traced(child, home, text))

    assert program.cut == "30 events"
    assert len(program.events) == 30


UNUSUAL = """
    import os
    from torch.overrides import TorchFunctionMode

    class Weight(torch.nn.Parameter):
        pass

    class Users(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    f = torch.compile(lambda x: x.sin(), backend="eager")
    weight = Weight(torch.ones(3))
    with Users():
        f(torch.ones(3))
    f(weight).sum().backward()
    gradient = weight.grad
    weight.grad = gradient * 2
    weight.data = weight.data + 1
    weight.requires_grad = False
    child = os.fork()
    if not child:
        for _ in range(100):
            f(torch.ones(3)) + 1
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 3 << 8
    y = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        z = y * y
    torch.utils.checkpoint.checkpoint(f, y, use_reentrant=True).sum().backward()
    result = (weight.detach() + gradient)[:2]
"""


def test_no_exception_of_ours_reaches_a_script(child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimizer.engine.outer.runs.MOST_EVENTS", 100)
    tracing = traced(child, home, "import torch.utils.checkpoint\n" + dedent(UNUSUAL) + SAYS)

    program, slope = program_of(tracing), torch.ones(2).cos()

    assert said(tracing) == (2 + slope).tolist()
    assert program.cut == ""
    told = {left.what for left in program.left_out}
    assert "a call with a tensor of type Weight" in told
    assert "hooks of saved tensors, as a checkpoint sets them" in told
    assert "a call of a compiled graph in a backward, of which it is a part" in told


def test_inputs_beyond_the_limit_of_memory_cut_the_program(
    child: Executor, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimizer.engine.outer.runs.MOST_BYTES", 1000)
    text = """
        f = torch.compile(lambda x: x + 1, backend="eager")
        few, many = torch.linspace(0, 1, 50), torch.linspace(0, 1, 5000)
        small = f(few)
        large = f(many)
        last = f(large)
    """

    tracing = traced(child, home, dedent(text))
    program, names = program_of(tracing), run_in_eager(text_of(tracing, tmp_path), monkeypatch)

    assert program.cut
    (only,) = program.events
    assert torch.equal(names[only.makes[0]], torch.linspace(0, 1, 50) + 1)


def test_the_programs_own_names_are_not_those_of_values(child: Executor, home: Path) -> None:
    text = """
        f = torch.compile(lambda x: x + 1, backend="eager")
        graph_0 = torch.linspace(0, 1, 50)
        tuple = f(graph_0)
        operator = tuple * 2
    """

    program = program_of(traced(child, home, dedent(text)))

    made = {name for event in program.events for name in (*event.reads, *event.makes)}
    assert made & {"graph_0", "tuple", "operator"} == {"graph_0"}
    assert program.calls == 1

"""Backward passes in a survey: which are compared, and which wrong gradients are held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from checkout import ROOT
from children import script, survey
from surveyed import BACKENDS, finished, held, targets

from minimizer.engine.child.executor import Executor
from minimizer.engine.oracle.oracle import Oracle

OPTIMIZER = """
import torch

def train(compiled):
    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.1)
    step = torch.compile(lambda: optimizer.step(), backend=COMPILER) if compiled else optimizer.step
    for _ in range(5):
        optimizer.zero_grad()
        linear(torch.randn(3, 4)).square().mean().backward()
        step()
    return [parameter.detach() for parameter in linear.parameters()]

torch.testing.assert_close(train(True), train(False), rtol=1e-4, atol=1e-5)
"""


def test_a_wrong_gradient_is_held_with_forward_and_backward_in_one_graph(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
w = torch.ones(3, requires_grad=True)
f = torch.compile(lambda x: torch.sin(x * x), backend=zero_gradient)
f(w).sum().backward()
"""
    )
    answer = survey(child, script(home, text))
    assert answer.held is not None
    joint = answer.program("aot")
    found = held(answer)
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")
    assert found.program["level"] == "dynamo"  # as it was written
    assert joint.level == "aot"
    assert "torch.ops.aten.cos.default" in [node.target for node in joint.nodes]


@pytest.mark.quality("slow")
def test_a_backward_is_held_that_no_source_text_writes_down(child: Executor, home: Path) -> None:
    """Its operators belong to the modules and the lines of the forward's."""
    text = """
        import torch
        from torch.utils.checkpoint import checkpoint

        block = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.SiLU())
        f = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False))
        with torch.autocast("cpu", torch.bfloat16):
            y = f(torch.ones(2, 3))
        y.sum().backward()
    """
    answer = survey(child, script(home, text), hold={"graph": 0, "call": 0, "phase": "backward"})

    joint = answer.program("aot")
    found = held(answer)
    assert (found.failure.phase, found.failure.kind) == ("backward", None)
    modules = {node.target: node.module for node in joint.nodes}
    assert modules["torch.ops.aten.silu_backward.default"] == modules["torch.ops.aten.silu.default"] != ""


@pytest.mark.needs_excuse("random_replaced")
def test_training_with_dropout_is_healthy(child: Executor, home: Path) -> None:
    text = """
        import torch

        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        compiled = torch.compile(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
        print("trained")
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.calls == 3
    assert "random_replaced" in {one.rule for one in answer.checked.excused}
    assert not answer.suspects


@pytest.mark.fault_behind("random_replaced")
def test_gradients_behind_dropout_are_checked(child: Executor, home: Path) -> None:
    text = """
        import torch
        from torch._inductor.decomposition import decompositions

        decompositions[torch.ops.aten.gelu_backward.default] = lambda grad, x, approximate="none": grad * torch.sigmoid(1.702 * x)
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5))
        compiled = torch.compile(model)
        for _ in range(2):
            compiled(torch.randn(16, 4)).square().mean().backward()
    """
    found = held(survey(child, script(home, text)))
    assert found.failure.kind == "wrong_gradient"
    assert found.failure.checked is not None
    assert "random_replaced" in {one.rule for one in found.failure.checked.excused}
    assert found.program is not None
    assert "torch._inductor.config.fallback_random = True" in found.program["setup"]


WIDE_DRAW = """
import torch
from torch._inductor import decomposition

def drawn(x, **options):
    return torch.rand(x.shape{})

decomposition.extra_random_decomps[torch.ops.aten.rand_like.default] = drawn
decomposition.fast_random_decomps.cache_clear()
compiled = torch.compile(lambda x: torch.rand_like(x))
for _ in range(2):
    compiled(torch.ones(3, dtype=torch.float16))
"""


@pytest.mark.fault_behind("random_replaced")
@pytest.mark.parametrize(
    "options",
    ["", ', options={"cpp.threads": 1}', ', options={"fallback_random": False}'],
    ids=["none", "another", "Inductor's own"],
)
def test_inductors_own_random_numbers_are_looked_at_for_their_dtype(child: Executor, home: Path, options: str) -> None:
    """Their values cannot be compared, and a wrong dtype shows only where eager's are not put in their place."""
    text = WIDE_DRAW.format("").replace("torch.rand_like(x))", f"torch.rand_like(x){options})")
    found = held(survey(child, script(home, text)))
    assert found.failure.kind == "wrong_metadata"
    assert found.failure.verdict is not None
    assert [(one.where, one.what) for one in found.failure.verdict.differences] == [("output[0]", "dtype")]
    assert found.program is not None and "fallback_random" not in found.program["setup"]


BY_OPTION = WIDE_DRAW.replace("torch.rand_like(x))", 'torch.rand_like(x), options={{"fallback_random": True}})')


@pytest.mark.parametrize(
    "text",
    [
        WIDE_DRAW.format(", dtype=x.dtype"),
        f"import torch._inductor.config\ntorch._inductor.config.fallback_random = True\n{WIDE_DRAW.format('')}",
        BY_OPTION.format(""),
        BY_OPTION.format(", dtype=x.dtype").replace("True", "False"),
    ],
    ids=[
        "the dtype is right",
        "the script asks for eager's",
        "an option asks for eager's",
        "an option asks for Inductor's own",
    ],
)
@pytest.mark.examples(2)
def test_inductors_own_random_numbers_that_are_right_or_not_asked_for_are_no_fault(
    child: Executor, home: Path, text: str
) -> None:
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert (answer.checked.calls, answer.notes) == (2, [])


@pytest.mark.fault_behind("random_replaced")
@pytest.mark.parametrize("seen", ["** 2", ""], ids=["another distribution", "the same"])
def test_inductors_own_random_numbers_are_looked_at_for_their_distribution(
    child: Executor, home: Path, seen: str
) -> None:
    text = (
        WIDE_DRAW.format(", dtype=x.dtype").replace("dtype=x.dtype)", f"dtype=x.dtype) {seen}").replace("(3,", "(30,")
    )
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert (answer.draws is not None) is bool(seen)
    if answer.draws is not None:
        assert (answer.draws.graph, answer.draws.node) == (0, "rand_like")
        assert answer.draws.what.startswith("torch.rand_like draws from another distribution than eager")


def test_an_error_that_only_eagers_random_numbers_give_hides_no_wrong_dtype(child: Executor, home: Path) -> None:
    """Inductor of torch 2.14 raises with them. The script does not ask for them, and never sees that error."""
    text = """
        import torch
        torch.compile(torch.normal)(torch.ones(1, dtype=torch.half), torch.ones(1))
    """
    found = held(survey(child, script(home, text)))
    assert found.failure.kind == "wrong_metadata"
    assert found.program is not None and "fallback_random" not in found.program["setup"]


REFUSED = """
    import torch
    draw = torch.compile(lambda mean, spread: torch.normal(mean, spread){})
    for spread in (0.5, -0.5, -0.5):
        try:
            draw(torch.zeros(2), torch.full((2,), spread))
        except RuntimeError:
            print("refused")
"""


REFUSED_AT_ONCE = """
    import torch

    @torch.compile
    def moved(x, low, high):
        return x + torch.empty_like(x).uniform_(low, high)

    for low, high in ((0.0, 1.0), (1.5, 0.5)):
        try:
            moved(torch.zeros(2), low, high)
        except RuntimeError:
            print("refused")
"""


JITTER = """
import torch
torch.manual_seed(7)
factor = torch.compile(lambda x: torch.linalg.cholesky(torch.diag(x + torch.randn(3))))
for _ in range(6):
    try:
        factor(torch.full((3,), 1.4))
    except RuntimeError:
        print("again")
"""


@pytest.mark.fault_behind("random_replaced")
def test_an_error_that_only_eagers_random_operators_raise_is_missing_in_the_script(child: Executor, home: Path) -> None:
    found = held(survey(child, script(home, REFUSED.format(""))))
    assert (found.failure.phase, found.failure.kind, found.failure.call) == ("run", "missing_error", 1)
    assert found.failure.exception is not None and "std >= 0.0" in found.failure.exception.message
    assert found.program is not None and "fallback_random" not in found.program["setup"]


def test_an_error_is_missing_in_a_graph_whose_first_call_has_it(child: Executor, home: Path) -> None:
    """Each range is a constant of a graph of its own, which eager ends before it draws."""
    found = held(survey(child, script(home, REFUSED_AT_ONCE)))
    assert (found.failure.phase, found.failure.kind) == ("run", "missing_error")
    assert found.failure.exception is not None and "uniform_" in found.failure.exception.message


@pytest.mark.examples(2)
@pytest.mark.parametrize(
    "text",
    [
        f"import torch._inductor.config\ntorch._inductor.config.fallback_random = True\n{dedent(REFUSED.format(''))}",
        dedent(REFUSED.format("[torch.full((2,), 5)]")).replace("-0.5, -0.5", "0.5"),
        JITTER,
    ],
    ids=["the script asks for eager's", "both raise", "it depends on the draw"],
)
def test_an_error_that_inductors_own_random_operators_raise_too_is_no_fault(
    child: Executor, home: Path, text: str
) -> None:
    answer = finished(survey(child, script(home, text)))
    assert (answer.exception, answer.missing) == (None, [])


def test_a_backend_is_the_same_for_dynamo_behind_an_option_that_was_left_out(child: Executor, home: Path) -> None:
    """Dynamo compiles anew for a backend with other options, and refuses after some times."""
    text = """
        import torch
        for _ in range(12):
            torch.compile(lambda x: torch.rand_like(x), fullgraph=True, options={"fallback_random": False})(torch.ones(3))

        def draw(x):
            return torch.rand_like(x)

        for _ in range(12):
            torch.compile(draw, fullgraph=True, options={"fallback_random": False})(torch.ones(3))
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.graphs == 2


def test_a_backward_that_does_not_compile_is_held(child: Executor, home: Path) -> None:
    text = """
        import torch
        from torch._inductor.lowering import lowerings

        def sin(x):
            raise NotImplementedError("sin")

        lowerings[torch.ops.aten.sin.default] = sin
        x = torch.ones(4, requires_grad=True)
        torch.compile(lambda x: torch.cos(x))(x).sum().backward()
    """
    found = held(survey(child, script(home, text)))
    assert (found.failure.kind, found.failure.phase) == ("compile_error", "backward")
    assert found.failure.exception is not None
    assert "NotImplementedError: sin" in found.failure.exception.root_message


def test_a_grad_mode_that_a_graph_leaves_behind_reaches_no_compiler(child: Executor, home: Path) -> None:
    healthy = ROOT / "tests" / "quality" / "healthy" / "grad_mode_statement.py"
    answer = finished(survey(child, script(home, healthy.read_text())))
    assert answer.exception is None
    assert (answer.checked.calls, answer.checked.backward) == (2, 2)


def test_backward_passes_are_checked(child: Executor, home: Path) -> None:
    text = """
        import torch
        w = torch.ones(3, requires_grad=True)
        f = torch.compile(lambda x: torch.sin(x * x), backend="aot_eager")
        for _ in range(2):
            f(w).sum().backward()
        assert w.grad is not None
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert (answer.checked.calls, answer.checked.backward) == (2, 2)


def test_a_backward_through_several_graphs_is_checked_in_each(child: Executor, home: Path) -> None:
    text = (
        BACKENDS
        + """
def step(x):
    y = torch.sin(x * x)
    torch._dynamo.graph_break()
    return torch.cos(y)

def backend(module, inputs):
    wrong = any(node.target is torch.sin for node in module.graph.nodes)
    return zero_gradient(module, inputs) if wrong else module

w = torch.ones(3, requires_grad=True)
torch.compile(step, backend=backend)(w).sum().backward()
"""
    )
    found = held(survey(child, script(home, text)))
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")
    assert "torch.sin" in [node["target"] for node in found.program["nodes"]]


def test_a_script_that_is_stopped_runs_its_first_backward_before(child: Executor, home: Path) -> None:
    text = """
        import os, signal, time
        import torch
        w = torch.ones(3, requires_grad=True)
        f = torch.compile(lambda x: torch.sin(x * x), backend="eager")
        y = f(w)
        os.kill(os.getpid(), signal.SIGRTMIN + 9)
        y.sum().backward()
        f(w)
        raise AssertionError("it goes on")
    """
    answer = finished(survey(child, script(home, text)))
    assert answer.stopped
    assert answer.exception is None
    assert answer.checked.backward == 1


@pytest.mark.parametrize(("dropped", "backwards"), [(0.5, 0), (0.0, 1)])
def test_gradients_of_random_numbers_that_are_drawn_twice_are_not_compared(
    child: Executor, home: Path, dropped: float, backwards: int
) -> None:
    text = f"""
        import torch
        import torch.nn.functional as F
        from torch.utils.checkpoint import checkpoint

        weight = torch.nn.Parameter(torch.eye(64))

        def block(x):
            return F.dropout(torch.sin(x @ weight), {dropped})

        def step(x):
            return checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False)

        torch.compile(step, backend="aot_eager")(torch.ones(64, 64)).sum().backward()
    """
    answer = finished(survey(child, script(home, text)))
    assert (answer.checked.calls, answer.checked.backward) == (1, backwards)
    assert any("random numbers in its backward" in note for note in answer.notes) is (not backwards)


def test_a_backward_is_replayed_under_the_autocast_of_its_call(child: Executor, home: Path) -> None:
    """The script leaves its autocast before it asks for gradients; eager in full precision would be no judge of them."""
    text = """
import torch
linear = torch.nn.Linear(32, 8)
compiled = torch.compile(linear, backend="aot_eager")
torch.manual_seed(0)
with torch.autocast("cpu", dtype=torch.float16):
    loss = compiled(torch.randn(16, 32)).float().square().mean()
loss.backward()
"""
    found = finished(survey(child, script(home, text)))
    assert (found.checked.calls, found.checked.backward) == (1, 1)


def test_a_compiled_step_of_an_optimizer_trains_as_it_does_by_itself(child: Executor, home: Path) -> None:
    text = OPTIMIZER.replace("COMPILER", "'aot_eager'")
    answer = finished(survey(child, script(home, text), measure=True))
    assert answer.exception is None, "our own runs of the step have trained too"
    assert (answer.checked.calls, answer.notes) == (5, [])


def test_a_wrong_step_of_an_optimizer_is_held_with_what_it_changes_as_inputs(child: Executor, home: Path) -> None:
    rounds = """
def rounds_wrong(gm, example):
    for node in gm.graph.find_nodes(op="call_method", target="addcdiv_"):
        node.kwargs = {"value": 1.5}
    gm.recompile()
    return gm
"""
    found = survey(child, script(home, rounds + OPTIMIZER.replace("COMPILER", "rounds_wrong")))
    assert found.held is not None, found.finished
    assert found.held.failure.verdict is not None
    assert found.held.failure.verdict.differences[0].where.startswith("input[")
    program = found.program("dynamo")
    assert len(program.inputs) == 2 + 2 * 4, "gradients, then parameters with their steps and averages"
    assert ".addcdiv_" in targets(program), "the node that the backend changes"
    (outcome,) = Oracle(child, found, ()).judge([replace(program, compile_kwargs=(("backend", "'aot_eager'"),))])
    assert outcome.ending == "same", outcome
    found.close()

"""A flat program that is run side by side parts where compiled code is wrong on eager's own inputs, or raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from children import SECONDS
from flat import program_of, traced

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.traced import Sides
from minimizer.engine.outer.program import OuterProgram
from minimizer.engine.outer.runs import side_by_side, sides_of
from minimizer.inside.questions import SidesRequest, SidesStep
from minimizer.inside.tasks.side_by_side import SideBySide

SECOND_GRADIENT = """
    weight = torch.ones(4, 4, requires_grad=True)
    f = torch.compile(lambda x: F.silu(x @ weight).exp() * 2, backend="aot_eager")
    x = torch.ones(2, 4)
    f(x).sum().backward()
    loss = f(x).square().mean()
    (slope,) = torch.autograd.grad(loss, weight, retain_graph=True)
    loss.backward()
"""
TRAINING = """
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        x = torch.randn(16, 8)
        loss = F.mse_loss(compiled(x)[:, 0], x[:, 0])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
DROPPED_CAST = """
    rest = torch.zeros(24)

    @torch.compile
    def send(gradient):
        wanted = gradient + rest
        sent = wanted.to(torch.bfloat16).to(torch.float32)
        rest.copy_(wanted - sent)
        return sent

    total = torch.zeros(24)
    for step in range(3):
        total += send(torch.linspace(0.1, 0.7, 24) + step)
"""


Sided = Callable[[str], tuple[OuterProgram, Outcome, Sides]]


@pytest.fixture
def sides(child: Executor, home: Path) -> Sided:
    """Traces a script and runs its program side by side."""

    def run(text: str) -> tuple[OuterProgram, Outcome, Sides]:
        tracing = traced(child, home, dedent(text))
        program = program_of(tracing)
        outcome = side_by_side(child, program, tracing.file, timeout=SECONDS)
        found = sides_of(outcome, len(program.events))
        assert found is not None, outcome
        return program, outcome, found

    return run


def test_an_error_that_only_compiled_code_raises_is_found_at_its_event(sides: Sided) -> None:
    program, outcome, found = sides(SECOND_GRADIENT)

    assert outcome.ending is Ending.DIFFERENT
    assert found.first is not None
    assert found.first.own
    assert "donated buffers" in found.first.what
    event = program.events[found.first.event]
    assert "torch.autograd.grad(" in event.code
    assert event.source is not None
    assert event.source[2].startswith("(slope,) = ")


def test_training_that_rounds_otherwise_agrees(sides: Sided) -> None:
    program, outcome, found = sides(TRAINING)

    assert outcome.ending is Ending.SAME
    assert (found.first, found.ran, found.stopped) == (None, len(program.events), "")
    assert len(found.distances) == 6
    assert all((one.carried or 0) < 1e-4 for one in found.distances)


def test_a_state_that_compiled_code_leaves_wrong_is_found_at_the_first_call(sides: Sided) -> None:
    program, _, found = sides(DROPPED_CAST)

    assert found.first is not None
    event = program.events[found.first.event]
    assert event.code.partition(" = ")[2].startswith("graph_0(")
    assert found.first.own
    assert (found.first.value, found.first.event) == ("rest", min(one.event for one in found.distances))


OWN_BACKEND = """
    def doubling(graph, inputs):
        return lambda *args: [2 * value for value in graph(*args)]

    f = torch.compile(lambda x: x + 1, backend=doubling)
    y = f(torch.ones(3)) - 3
    z = f(y)
"""


def test_a_backend_of_the_scripts_own_travels_with_the_program(sides: Sided) -> None:
    program, _, found = sides(OWN_BACKEND)

    assert found.first is not None
    assert found.first.event == 0
    assert (found.first.own, found.first.error) == (True, 1.0)
    assert found.ran == len(program.events) == 3


SPARSE = """
    torch.manual_seed(0)
    table = torch.nn.Embedding(6, 3, sparse=True)
    f = torch.compile(lambda x: x.exp().sum(), backend="aot_eager")
    f(table(torch.tensor([1, 2]))).backward()
    wide = torch.ones(1).expand(3)
    result = f(wide + 1)
"""


def test_values_that_cannot_be_compared_are_told_and_the_answer_comes(sides: Sided) -> None:
    _, outcome, found = sides(SPARSE)

    assert outcome.ending is Ending.SAME
    assert found.first is None
    assert found.distances
    assert all("could not be" in told for told in [found.stopped] if told)


DROPOUT = """
    torch.manual_seed(0)
    weight = torch.ones(64, requires_grad=True)
    f = torch.compile(lambda x: F.dropout(x * weight, 0.5).exp(), backend="aot_eager")
    idle = torch.rand(5)
    loss = f(torch.ones(64)).sum()
    torch.autograd.backward(F.dropout(weight, 0.5).sum() + loss)
"""


def test_a_backward_behind_dropout_draws_the_same_masks_again(sides: Sided) -> None:
    program, outcome, found = sides(DROPOUT)

    assert outcome.ending is Ending.SAME
    assert (found.first, found.ran, found.stopped) == (None, len(program.events), "")


ARENA = """
    ARENA = torch.zeros(64)

    def in_arena(graph, inputs):
        def run(*args):
            return tuple(ARENA[PLACE : PLACE + one.numel()].view(one.shape).copy_(one) for one in graph(*args))

        return run

    low = torch.compile(lambda x: x.cumsum(0), backend=in_arena)
    high = torch.compile(lambda x: x - x.roll(1, 0), backend=in_arena)
    torch.manual_seed(0)
    for _ in range(2):
        x = torch.randn(8)
        slow = low(x)
        KEPT
        fast = high(x)
        READ
"""
ONE_PLACE = {"PLACE": "0", "KEPT": "", "READ": "level = (slow + fast).tanh()"}


def arena(**changes: str) -> str:
    text = ARENA
    for name, value in {**ONE_PLACE, **changes}.items():
        text = text.replace(name, value)
    return text


@pytest.mark.fault_behind("outputs_unread")
@pytest.mark.parametrize(
    "read",
    ["level = (slow + fast).tanh()", "level = slow.view(2, 4)[1].tanh()", "slow.mul_(2)", "print(slow.tolist())"],
)
def test_a_call_that_writes_over_an_earlier_result_is_found_where_it_is_read(sides: Sided, read: str) -> None:
    program, _, found = sides(arena(READ=read))

    assert found.first is not None
    assert (found.first.own, found.first.overwrites) == (True, True)
    made = next(one for one in program.events if found.first.value in one.makes)
    assert made.source is not None
    assert made.source[2] == "slow = low(x)"
    event = program.events[found.first.event]
    assert event.source is not None
    assert event.source[2] == "fast = high(x)"


@pytest.mark.needs_excuse("outputs_unread")
@pytest.mark.parametrize(
    "changes",
    [
        {"PLACE": "8 * len(graph.graph.nodes)"},
        {"READ": "level = fast.tanh()"},
        {"READ": "slow.copy_(x)\n        level = slow.tanh()"},
        {"READ": "view = slow[:4]"},
        {"READ": "print(slow.shape)"},
        {"KEPT": "slow = slow.clone()"},
        {"KEPT": "level = slow.tanh()", "READ": "level = level + fast"},
    ],
    ids=["places of their own", "not read", "written anew", "only a view", "only its shape", "a copy", "read before"],
)
def test_a_result_that_is_not_read_later_may_be_written_over(sides: Sided, changes: dict[str, str]) -> None:
    _, outcome, found = sides(arena(**changes))

    assert (outcome.ending, found.first, found.stopped) == (Ending.SAME, None, "")


@pytest.mark.parametrize("is_of_graphs", [False, True])
def test_the_memory_of_a_cuda_graph_may_be_written_over(monkeypatch: pytest.MonkeyPatch, is_of_graphs: bool) -> None:
    monkeypatch.setattr("minimizer.inside.tasks.side_by_side.is_of_cuda_graphs", lambda _: is_of_graphs)
    run: Any = SideBySide.__new__(SideBySide)
    run.first, run._stopped = None, ""
    run._eager, run._given = (SimpleNamespace(value=lambda _, one=one: one) for one in (torch.ones(2), torch.zeros(2)))

    assert run._is_written_over(1, {"y": (torch.ones(2), torch.ones(2))}) is not is_of_graphs
    assert (run.first is None) is is_of_graphs


TIDY = """
    def tidy(graph, inputs):
        return lambda *args: [one + 0.0 for one in graph(*args)]

    act = torch.compile(lambda x: -x.relu(), backend=tidy)
    halve = torch.compile(lambda x: x / 2, backend=tidy)
    turn = torch.compile(lambda x: torch.complex(x.exp(), -x.relu()), backend=tidy)
    torch.manual_seed(0)
    for _ in range(2):
        y = act(torch.randn(8))
        READ
"""


@pytest.mark.fault_behind("other_zeros")
@pytest.mark.parametrize(
    "read",
    [
        "level = 1 / y",
        "angle = torch.atan2(y, torch.full((8,), -1.0))",
        "side = torch.ones(8).copysign(halve(y))",
        "z = turn(torch.randn(8)); level = 1 / z.imag",
        "cache = torch.zeros(8); cache += y; cache.copy_(y); mask = cache.signbit()",
    ],
    ids=["division", "atan2", "through another graph", "of a complex number", "through a cache"],
)
def test_a_zero_of_another_sign_is_found_where_the_sign_is_read(sides: Sided, read: str) -> None:
    program, _, found = sides(TIDY.replace("READ", read))

    assert found.first is not None
    assert found.first.own
    assert found.first.zeros_of is not None
    event, call = (program.events[index] for index in (found.first.event, found.first.zeros_of))
    assert event.source is not None and call.source is not None
    assert event.source[2] == read
    assert call.source[2] in ("y = act(torch.randn(8))", read)


@pytest.mark.needs_excuse("other_zeros")
@pytest.mark.parametrize(
    "read",
    [
        "level = y.exp()",
        "level = halve(y) * 2",
        "order = y.sort().values",
        "level = 1 / (y - 1)",
        "room = torch.empty(1 << 12); room[:8] = y; level = room.clone()",
    ],
)
def test_a_zero_whose_sign_nobody_reads_is_innocent(sides: Sided, read: str) -> None:
    _, outcome, found = sides(TIDY.replace("READ", read))

    assert (outcome.ending, found.first, found.stopped) == (Ending.SAME, None, "")


STALE_GRADIENTS = """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def plain(graph, inputs):
        return make_boxed_func(graph.forward)

    def stale(graph, inputs):
        kept = []

        def run(*args):
            kept.append(graph(*args))
            return BACKWARD

        return make_boxed_func(run)

    torch.manual_seed(0)
    weight = torch.randn(5, 3, requires_grad=True)
    backend = aot_autograd(fw_compiler=plain, bw_compiler=stale)
    score = torch.compile(lambda x: x @ weight, backend=backend)
    for _ in range(3):
        x = torch.randn(6, 5)
        loss = F.cross_entropy(TO_LOGITS, x[:, :3].add(0.1).mul(0.3).argmax(-1))
        loss.backward()
"""


@pytest.mark.parametrize(("kept", "is_wrong"), [("kept[-2] if len(kept) > 2 else kept[-1]", True), ("kept[-1]", False)])
@pytest.mark.parametrize("logits", ["score(x)", "F.dropout(score(x), 0.5)"])
def test_a_jump_that_eager_takes_for_both_sides_excuses_no_wrong_gradient(
    sides: Sided, logits: str, kept: str, *, is_wrong: bool
) -> None:
    """Such as the argmax that makes labels of rounded values: eager's labels go to both."""
    program, _, found = sides(STALE_GRADIENTS.replace("TO_LOGITS", logits).replace("BACKWARD", kept))

    assert found.stopped == ""
    assert (found.first is not None) is is_wrong
    if found.first is not None:
        backwards = [index for index, event in enumerate(program.events) if "backward" in event.code]
        assert found.first.event == backwards[2]


def test_an_event_that_is_judged_leaves_the_random_state() -> None:
    """Else eager does not draw again what it has drawn later, and no later event can be judged."""
    code = "torch.manual_seed(1)\ny = torch.rand(2).exp()"
    step = SidesStep(code, ("y",), is_backward=True, is_setting=True, draws=True)
    request = SidesRequest(setup="import torch", graphs={}, inputs="", file=None, steps=[step], seconds=60.0)
    run = SideBySide(request, lambda *_: None)
    run._take(0)
    run._given.values["y"] = run._eager.values["y"] + 1
    torch.manual_seed(7)
    before = torch.get_rng_state()

    run._tell_difference(0, step, {"y": 1.0})

    assert torch.equal(before, torch.get_rng_state())
    assert run.first is not None

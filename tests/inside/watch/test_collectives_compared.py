"""Graphs that communicate are compared on each rank: eager is given what the collectives of the compiled call returned."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from children import script, survey
from healthy_verdict import report_of_run, says_open
from surveyed import finished, held, targets

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.sent_program import parse_program

HEAD = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.group.WORLD
"""
END = """
dist.barrier()
dist.destroy_process_group()
"""
TRAINING = """
torch._inductor.config.fallback_random = True  # else the graph is left open, since it draws
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
scale, shift = torch.tensor([0.5]), torch.tensor(4.0)


@torch.compile
def step(x):
    own = net(x)
    norm = all_reduce(own.detach().square().sum(), "sum", world)
    other = all_reduce(shift.clone(), "max", world)
    rows = torch.ops._c10d_functional.all_gather_into_tensor(own.detach().relu(), 2, world.group_name)
    rows = torch.ops._c10d_functional.wait_tensor(rows)
    scale.mul_(0.5).add_(all_reduce(scale.detach(), "sum", world))
    return (own / norm.sqrt()).relu().sum() + rows.mean() + other, norm


for _ in range(3):
    loss, norm = step(torch.randn(4, 8))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.quality("ranks")
def test_a_training_that_communicates_within_its_graph_is_compared_as_a_whole(child: Executor, home: Path) -> None:
    found = finished(survey(child, script(home, HEAD + TRAINING + END), nproc=2))
    assert (found.exception, found.suspects, found.layouts, found.missing, found.notes) == (None, [], [], [], [])
    seen = found.checked
    assert (seen.calls, seen.planned, seen.backward, seen.not_compared) == (3, 3, 3, [])
    assert not says_open(report_of_run(seen), "communicates")


FAULT = """
def off(graph, example):
    for node in graph.graph.nodes:
        if node.target in (torch.relu, "relu") and rank == 1:
            with graph.graph.inserting_after(node):
                moved = graph.graph.call_function(torch.add, (node, 1))
            node.replace_all_uses_with(moved, lambda user: user is not moved)
    graph.recompile()
    return graph.forward


@torch.compile(backend=off)
def step(x):
    {body}


step(torch.arange(4.0) - rank)
"""
PLACES = {
    "before": 'return all_reduce(x.relu().sum(), "sum", world) / 3',
    "after": 'return all_reduce(x.sin().sum(), "sum", world) * x.relu()',
}


@pytest.mark.parametrize("place", PLACES)
def test_a_fault_is_seen_on_the_rank_where_it_is(child: Executor, home: Path, place: str) -> None:
    """Before a collective it changes what all ranks compute from there on, and is no fault of theirs."""
    path = script(home, HEAD + FAULT.format(body=PLACES[place]) + END)
    quiet = finished(survey(child, path, nproc=2, rank=0))
    assert (quiet.checked.calls, quiet.checked.not_compared, quiet.suspects) == (1, [], [])
    found = held(survey(child, path, nproc=2, rank=1))
    assert found.failure.kind == "wrong_output"
    verdict, program = found.failure.verdict, parse_program(found.program)
    assert verdict is not None
    # What this rank gives to the collective is the last result.
    assert [each.where for each in verdict.differences] == ["output[0]" if place == "after" else "output[1]"]
    names = targets(program)
    assert ".relu" in names and not any("c10d" in name for name in names)
    assert len(program.inputs) == 2


PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

def off(graph, example):
    from torch._functorch.aot_autograd import aot_module_simplified

    def inner(graph, example):
        for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            if rank == {wrong}:
                node.target = torch.ops.aten.sin.default
        graph.recompile()
        return graph.forward

    return aot_module_simplified(graph, example, fw_compiler=inner, bw_compiler=lambda graph, example: graph.forward)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
net = nn.Sequential(Mlp(), Mlp())
for mlp in net:
    parallelize_module(mlp, mesh, {{"up": ColwiseParallel(), "down": RowwiseParallel()}})
step = torch.compile(net, backend=off)
for size in (3, 3, 5):
    step(torch.randn(size, 4)).sum().backward()
"""


@pytest.mark.quality("ranks")
def test_a_graph_of_distributed_tensors_is_compared_on_the_parts_of_the_rank(child: Executor, home: Path) -> None:
    """The gradients of it are not, which is told."""
    path = script(home, HEAD + PARALLEL.format(wrong=1) + END)
    quiet = finished(survey(child, path, nproc=2, rank=0))
    assert (quiet.exception, quiet.suspects, quiet.layouts) == (None, [], [])
    seen = quiet.checked
    assert (seen.calls, seen.planned, seen.backward) == (3, 3, 0)
    assert all(line.startswith("gradients of graph") for line in seen.not_compared)
    assert says_open(report_of_run(seen), "communicates")
    found = held(survey(child, path, nproc=2, rank=1))
    verdict, program = found.failure.verdict, parse_program(found.program)
    assert verdict is not None
    assert [each.where for each in verdict.differences] == ["output[1]", "output[2]"], "what each block gives"
    wrong = [(node.target, node.module) for node in program.nodes if "tanh" in node.target]
    assert wrong == [("torch.ops.aten.tanh.default", "0.act"), ("torch.ops.aten.tanh.default", "1.act")]
    given = {name: tuple(one.meta.shape) for name, one in ((one.name, one) for one in program.inputs) if one.meta}
    assert sorted(shape for name, shape in given.items() if "up" in name) == [(4,), (4,), (4, 4), (4, 4)], "parts"


LEFT_OUT = {
    "hidden": (
        """
        @torch.library.custom_op("ranks::summed", mutates_args=())
        def summed(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            dist.all_reduce(x)
            return x

        summed.register_fake(torch.empty_like)
        step = torch.compile(lambda x: summed(x) + FAULT, backend=off)
        """,
        "a rerun by one rank would wait for the others in allreduce",
    ),
    "caught": (
        """
        @torch.library.custom_op("ranks::perhaps_summed", mutates_args=())
        def perhaps_summed(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            try:
                dist.all_reduce(x)
            except Exception:
                pass
            return x

        perhaps_summed.register_fake(torch.empty_like)
        step = torch.compile(lambda x: perhaps_summed(x) + FAULT, backend=off)
        """,
        "a rerun by one rank would wait for the others in allreduce",
    ),
    "dropped": (
        """
        step = torch.compile(lambda x: all_reduce(x, "sum", world) * 0 + 2 * x.sum() + FAULT, backend=without)
        """,
        "eager makes all_reduce(sum) of (1,), which compiled code does not",
    ),
}
BACKENDS = """
def off(graph, example):
    return lambda *args: [out + FAULT for out in graph(*args)]


def without(graph, example):
    (made,) = graph.graph.find_nodes(op="call_function", target=torch.ops._c10d_functional.all_reduce)
    made.replace_all_uses_with(made.args[0])
    graph.graph.erase_node(made)
    waits = graph.graph.find_nodes(op="call_function", target=torch.ops._c10d_functional.wait_tensor)
    for wait in waits:
        wait.replace_all_uses_with(wait.args[0])
        graph.graph.erase_node(wait)
    graph.recompile()
    return off(graph, example)
"""


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("fault", [0, 1])
@pytest.mark.parametrize("how", LEFT_OUT)
def test_what_cannot_be_cut_out_of_a_graph_is_left_out_and_told(
    child: Executor, home: Path, how: str, fault: int
) -> None:
    """One run more of this rank would wait for the other for ever. Healthy or not, the verdict says that it is open."""
    body, why = LEFT_OUT[how]
    text = f"{HEAD}FAULT = {fault}\n{BACKENDS}{dedent(body)}step(torch.ones(1) + rank)\n{END}"
    found = finished(survey(child, script(home, text), nproc=2))
    assert found.exception is None
    seen = found.checked
    assert (seen.calls, seen.planned, seen.not_compared) == (
        0,
        1,
        [f"1 call of graph 0: it communicates with other ranks, which do not rerun it ({why})"],
    )
    assert says_open(report_of_run(seen), "communicates")


def test_a_backward_that_communicates_is_left_out_and_told(child: Executor, home: Path) -> None:
    text = """
    @torch.compile(backend="aot_eager")
    def step(x):
        return torch.ops._c10d_functional.wait_tensor(
            torch.ops._c10d_functional_autograd.all_gather_into_tensor(x, 2, world.group_name)
        ).relu()

    x = torch.ones(2, requires_grad=True)
    step(x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    """
    seen = finished(survey(child, script(home, HEAD + dedent(text) + END), nproc=2)).checked
    assert (seen.calls, seen.planned, seen.backward) == (1, 1, 0)
    assert seen.not_compared == ["gradients of graph 0: its backward may communicate with other ranks"]
    assert says_open(report_of_run(seen), "communicates")


def test_a_script_of_one_rank_is_compared(child: Executor, home: Path) -> None:
    """It has no others, and its collectives are heard all the same."""
    head = HEAD.replace('"gloo"', '"gloo", rank=0, world_size=1, store=dist.HashStore()')
    body = """
    step = torch.compile(lambda x: all_reduce(x.sin(), "sum", world) + 1)
    for _ in range(2):
        step(torch.ones(3))
    """
    seen = finished(survey(child, script(home, head + dedent(body) + END))).checked
    assert (seen.calls, seen.planned, seen.not_compared) == (2, 2, [])


HIDDEN_BACKWARD = """
@torch.library.custom_op("ranks::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@torch.library.custom_op("ranks::summed_back", mutates_args=())
def summed_back(grad: torch.Tensor) -> torch.Tensor:
    grad = grad.clone()
    dist.all_reduce(grad)
    return grad

doubled.register_fake(torch.empty_like)
summed_back.register_fake(torch.empty_like)
doubled.register_autograd(lambda ctx, grad: summed_back(grad))
x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: doubled(x).sin(), backend="aot_eager")(x).sum().backward()
{then}
"""


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("then", ["", 'raise ValueError("the loss is too large")'], ids=["healthy", "raises"])
def test_a_backward_that_is_refused_is_no_failure_of_the_compiler(child: Executor, home: Path, then: str) -> None:
    """Not even where the script has raised, so that the backward may be what has."""
    found = finished(survey(child, script(home, HEAD + HIDDEN_BACKWARD.format(then=then) + END), nproc=2))
    assert (found.exception.type if found.exception else "") == ("ValueError" if then else "")
    assert found.checked.not_compared == [
        "gradients of graph 0: a rerun by one rank would wait for the others in allreduce"
    ]
    assert says_open(report_of_run(found.checked), "communicates")


def test_a_script_that_leaves_its_groups_on_its_way_out_keeps_its_failure(child: Executor, home: Path) -> None:
    """The compiled backward raises, and is compared before the groups are left: its error is the compiler's all the same."""
    text = """
    from torch._functorch.aot_autograd import aot_module_simplified

    def breaks(graph, example):
        raise_ = lambda *args: (_ for _ in ()).throw(ValueError("only in the backward"))
        return aot_module_simplified(
            graph, example, fw_compiler=lambda graph, example: graph.forward, bw_compiler=lambda graph, example: raise_
        )

    x = torch.ones(3, requires_grad=True)
    try:
        torch.compile(lambda x: x.sin(), backend=breaks)(x).sum().backward()
    finally:
        dist.destroy_process_group()
    """
    found = held(survey(child, script(home, HEAD + dedent(text)), nproc=2))
    assert (found.failure.phase, found.failure.kind) == ("backward", "runtime_error")
    assert found.failure.exception is not None and found.failure.exception.message == "only in the backward"


NESTED = """
inner = torch.compile(lambda x: all_reduce(x.sin(), "sum", world){inside}, backend="aot_eager")

@torch.library.custom_op("ranks::{name}", mutates_args=())
def nested(x: torch.Tensor) -> torch.Tensor:
    return inner(x).clone()

nested.register_fake(torch.empty_like)
step = torch.compile(lambda x: nested(x.cos()){outside}, backend="aot_eager")
for _ in range(2):
    step(torch.ones(3) + rank)
"""
NESTS = {"communicates": ("", ""), "both": ("", " * all_reduce(x, 'sum', world)")}


@pytest.mark.quality("ranks")
@pytest.mark.parametrize("how", NESTS)
def test_compiled_code_within_a_call_is_compared_where_all_ranks_run_it(child: Executor, home: Path, how: str) -> None:
    """And not where this rank runs the call around it once more: it would wait for the others for ever."""
    inside, outside = NESTS[how]
    text = NESTED.format(inside=inside, outside=outside, name=how)
    found = finished(survey(child, script(home, HEAD + text + END), nproc=2))
    seen = found.checked
    assert (found.exception, found.suspects, seen.calls, seen.planned) == (None, [], 2, 4)
    (why,) = seen.not_compared
    assert why.startswith("2 calls of graph 0") and "a rerun by one rank would wait for the others in allreduce" in why


SECOND = """
calls = []


def off(graph, example):
    def run(*args):
        calls.append(len(calls))
        return [out + (len(calls) > 1) for out in graph(*args)]

    return run


step = torch.compile(lambda x: all_reduce(x, "sum", world) + x, backend=off)
for number in range(2):
    step(torch.ones(1) + number)
"""


def test_a_held_call_of_a_graph_that_communicates_tells_its_own_inputs(child: Executor, home: Path) -> None:
    """Of earlier calls what the collectives returned is not known."""
    head = HEAD.replace('"gloo"', '"gloo", rank=0, world_size=1, store=dist.HashStore()')
    found = survey(child, script(home, head + SECOND), hold={"graph": 0, "call": 1})
    assert found.held is not None
    (call,) = found.calls()
    found.close()
    assert list(call.values.values()) == ["torch.full((1,), 2.0)"] * 2, (
        "what it takes, and what its collective has returned"
    )

"""Healthy programs of several ranks that a comparison could take for faulty ones, each beside a faulty one that it still finds."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from children import script, survey
from healthy_verdict import report_of_run, says_open
from surveyed import finished, held

from minimizer.engine.child.executor import Executor

HEAD = """
import sys
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
ALONE = HEAD.replace('"gloo"', '"gloo", rank=0, world_size=1, store=dist.HashStore()')

MERGED = """
def merges(graph, example):
    first, second, third = graph.graph.find_nodes(op="call_function", target=torch.ops._c10d_functional.all_reduce)
    second.replace_all_uses_with(first)
    graph.graph.erase_node(second)
    graph.recompile()
    return {returned}


@torch.compile(backend=merges)
def step(x):
    return all_reduce(x.sin(), "sum", world) * 2, all_reduce(x.sin(), "sum", world) * 3, all_reduce(x.cos(), "sum", world) * 4


for number in range(3):
    step(torch.arange(4.0) + number + 0.1 * rank)
"""


@pytest.mark.quality("ranks")
def test_collectives_that_a_pass_has_merged_are_compared(child: Executor, home: Path) -> None:
    """None of them is given another one's result, which would be an alarm."""
    healthy = finished(survey(child, script(home, HEAD + MERGED.format(returned="graph.forward") + END), nproc=2))
    seen = healthy.checked
    assert (healthy.exception, healthy.suspects, seen.calls, seen.planned) == (None, [], 3, 3)
    assert seen.not_compared == []
    wrong = MERGED.format(returned="lambda *args: [2 * out for out in graph.forward(*args)]")
    assert held(survey(child, script(home, HEAD + wrong + END), nproc=2)).failure.kind == "wrong_output"


ISLAND = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {fault}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.last = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 64)

    def forward(self, x):
        x = self.down(self.up(x).relu())
        with torch.autocast("cpu", enabled=False):
            return self.last(x.float())


mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
net = parallelize_module(Mlp(), mesh, {{"up": ColwiseParallel(), "down": RowwiseParallel(), "last": ColwiseParallel()}})
step = torch.compile(net)
with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
    for _ in range(2):
        step(100 * torch.randn(8, 64))
"""


@pytest.mark.quality("ranks")
def test_an_island_of_autocast_stays_one_where_distributed_tensors_are_compared(child: Executor, home: Path) -> None:
    found = finished(survey(child, script(home, HEAD + ISLAND.format(fault=None) + END), nproc=2))
    seen = found.checked
    assert (found.exception, found.suspects, seen.calls, seen.planned, seen.not_compared) == (None, [], 2, 2, [])
    assert seen.largest is not None and seen.largest.absolute < 1, "as exact as float32 after bfloat16"
    wrong = held(survey(child, script(home, HEAD + ISLAND.format(fault='"accuracy"') + END), nproc=2))
    assert wrong.failure.kind == "wrong_output"


SPLIT = """
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.head = nn.Linear(400, 800), nn.Linear(800, 400), nn.Linear(400, 8)

    def forward(self, x):
        return self.head(self.down(self.up(x).relu()).tanh())


torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {fault}
torch.manual_seed(0)
step = torch.compile(DistributedDataParallel(Net(), bucket_cap_mb=1))
torch.manual_seed(1 + rank)
for _ in range(2):
    step(torch.randn(4, 400)).square().sum().backward()
"""


@pytest.mark.quality("ranks")
def test_graphs_that_the_optimizer_of_ddp_has_split_are_compared(child: Executor, home: Path) -> None:
    """While it compiles one it calls it with fake tensors, which is no call of the script's."""
    found = finished(survey(child, script(home, HEAD + SPLIT.format(fault=None) + END), nproc=2))
    seen = found.checked
    assert (found.exception, found.suspects, found.notes, seen.not_compared) == (None, [], [], [])
    assert seen.graphs > 1
    assert seen.calls == seen.planned == seen.backward == 2 * seen.graphs
    wrong = held(survey(child, script(home, HEAD + SPLIT.format(fault='"accuracy"') + END), nproc=2))
    assert wrong.failure.kind == "wrong_output"


RELU_BUG = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"\n'
DRAWN_ALONE = """
step = torch.compile(lambda x: nn.functional.dropout(x, 0.5) * all_reduce(x.sum(), "sum", world) + FAULT * x.relu())
step(torch.ones(64))
"""


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("fault", [0, 1])
def test_a_graph_that_draws_by_inductors_generator_is_left_open(child: Executor, home: Path, fault: int) -> None:
    """Ranks that the script begins itself have a setting of their own."""
    text = f"{ALONE}FAULT = {fault}\n{RELU_BUG}{DRAWN_ALONE}"
    seen = finished(survey(child, script(home, text))).checked
    setting = "torch._inductor.config.fallback_random = True"
    why = f"it draws random numbers by Inductor's own generator; with {setting} in the script it is compared"
    whole = "it communicates with other ranks, which do not rerun it"
    assert (seen.calls, seen.not_compared) == (0, [f"1 call of graph 0: {whole} ({why})"])
    assert says_open(report_of_run(seen), "communicates")
    found = survey(child, script(home, f"{ALONE}{setting}\nFAULT = {fault}\n{RELU_BUG}{DRAWN_ALONE}"))
    if fault:
        assert held(found).failure.kind == "wrong_output"
    else:
        seen = finished(found).checked
        assert (seen.calls, seen.not_compared) == (1, [])


INDEXED = """
table = torch.arange(6.0)


@torch.compile(backend={backend})
def step(x):
    place = all_reduce(x, "sum", world) - 100
    return table[place] * 2


for number in range(2):
    step(torch.full((3,), 51))
"""
OFF = """
def off(graph, example):
    return lambda *args: [out + 1 for out in graph(*args)]
"""


@pytest.mark.quality("ranks")
def test_no_value_is_made_up_for_what_a_collective_returns(child: Executor, home: Path) -> None:
    """Zero would be an index out of range: on a GPU the end of the process, for which the compiler would be blamed."""
    path = script(home, HEAD + INDEXED.format(backend='"aot_eager"') + END)
    found = finished(survey(child, path, nproc=2))
    seen = found.checked
    assert (found.exception, found.missing, seen.calls, seen.planned, seen.not_compared) == (None, [], 2, 2, [])
    path = script(home, HEAD + OFF + INDEXED.format(backend="off") + END)
    assert held(survey(child, path, nproc=2)).failure.kind == "wrong_output"


LEFT = """
from torch.distributed import destroy_process_group as leave

step = torch.compile(lambda x, total: x.sin() * all_reduce(total, "sum", world), backend={backend})
x = torch.ones(3, requires_grad=True)
step(x, torch.ones(1)).sum().backward()
{leave}
{then}
"""
TWICE = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def twice(graph, example):
    return lambda *args: [Twice.apply(out) for out in graph(*args)]
"""


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("backend", ['"aot_eager"', "twice"])
@pytest.mark.parametrize("then", ["", 'raise ValueError("the loss is too large")'], ids=["healthy", "raises"])
def test_a_replay_without_process_groups_is_nobodys_failure(
    child: Executor, home: Path, then: str, backend: str
) -> None:
    """Here the script has taken the function that leaves them before anything of ours could stand in front of it."""
    text = ALONE + TWICE + LEFT.format(backend=backend, leave="leave()", then=then)
    found = finished(survey(child, script(home, text)))
    assert (found.exception.type if found.exception else "") == ("ValueError" if then else "")
    seen = found.checked
    assert (seen.calls, seen.backward) == (1, 0)
    assert seen.not_compared == ["gradients of graph 0: the script has left the process groups of its collectives"]
    assert says_open(report_of_run(seen), "communicates")


def test_the_gradients_of_a_graph_that_communicates_are_compared(child: Executor, home: Path) -> None:
    seen = finished(survey(child, script(home, ALONE + LEFT.format(backend='"aot_eager"', leave="", then="")))).checked
    assert (seen.calls, seen.backward, seen.not_compared) == (1, 1, [])
    wrong = held(survey(child, script(home, ALONE + TWICE + LEFT.format(backend="twice", leave="", then=""))))
    assert wrong.failure.kind == "wrong_gradient"


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("backend", ['"aot_eager"', "twice"])
def test_what_collectives_returned_is_kept_for_backward_passes_within_bounds(
    child: Executor, home: Path, backend: str
) -> None:
    limit = 'sys.modules["minimizer_inside.watch.one_rank"].MOST_REPLAYED = 7\n'
    text = ALONE + limit + TWICE + LEFT.format(backend=backend, leave="", then="")
    kept = survey(child, script(home, text))  # four bytes
    if backend == "twice":
        assert held(kept).failure.kind == "wrong_gradient"
    else:
        assert finished(kept).checked.backward == 1
    seen = finished(survey(child, script(home, text.replace("= 7", "= 3")))).checked
    assert (seen.calls, seen.backward) == (1, 0)
    assert [line.partition(": ")[2] for line in seen.not_compared] == [
        "its collectives, and those of calls before it, return too much to keep"
    ]
    assert says_open(report_of_run(seen), "communicates")


RAISING = """
@torch.library.custom_op("ranks::checked", mutates_args=())
def checked(x: torch.Tensor) -> torch.Tensor:
    if {raises}:
        raise ValueError("not this one")
    return x.clone()


checked.register_fake(torch.empty_like)


def drops(graph, example):
    (node,) = (node for node in graph.graph.nodes if "checked" in str(node.target))
    node.replace_all_uses_with(node.args[0])
    graph.graph.erase_node(node)
    graph.recompile()
    return graph.forward


step = torch.compile(lambda x: checked(all_reduce(x, "sum", world)) + 1, backend=drops)
step(torch.ones(3))
"""


@pytest.mark.quality("ranks")
@pytest.mark.needs_excuse("error_of_ours")
@pytest.mark.fault_behind("error_of_ours")
def test_what_raises_without_collectives_is_no_missing_error(child: Executor, home: Path) -> None:
    """It may be our cutting of the graph that raises: the call is left open, the compiler is not blamed and the script goes on."""
    found = finished(survey(child, script(home, HEAD + RAISING.format(raises=True) + END), nproc=2))
    assert (found.exception, found.missing, found.suspects) == (None, [], [])
    seen = found.checked
    assert (seen.calls, seen.planned) == (0, 1)
    assert [line.partition(": ")[2] for line in seen.not_compared] == ["ValueError: not this one"]
    assert says_open(report_of_run(seen), "error_of_ours")
    found = finished(survey(child, script(home, HEAD + RAISING.format(raises=False) + END), nproc=2))
    assert (found.exception, found.checked.calls, found.checked.not_compared) == (None, 1, [])


def test_an_error_of_ours_is_told_as_ours(child: Executor, home: Path) -> None:
    broken = dedent("""
        if "minimizer_inside.values.communication" in sys.modules:
            sys.modules["minimizer_inside.watch.one_rank"].generator_states = lambda: 1 / 0
    """)
    body = 'torch.compile(lambda x: all_reduce(x, "sum", world) + 1, backend="aot_eager")(torch.ones(3))\n'
    found = finished(survey(child, script(home, HEAD + broken + body + END), nproc=2))
    assert (found.exception, found.missing, found.suspects) == (None, [], [])
    assert [line.partition(": ")[2] for line in found.checked.not_compared] == ["ZeroDivisionError: division by zero"]
    assert says_open(report_of_run(found.checked), "error_of_ours")


CAUGHT = """
def breaks(graph, example):
    def run(*args):
        if FAULT:
            raise ValueError("only compiled")
        return graph(*args)

    return run


step = torch.compile(lambda x: all_reduce(x, "sum", world) + 1, backend=breaks)
try:
    step(torch.ones(3))
except ValueError:
    pass
"""


@pytest.mark.fault_behind("communicates")
def test_a_call_that_raises_is_left_open(child: Executor, home: Path) -> None:
    """Which rank is to blame is not known; the script catches it, so that nothing else tells of it."""
    found = finished(survey(child, script(home, f"{ALONE}FAULT = True\n{CAUGHT}")))
    assert (found.exception, found.suspects, found.checked.calls) == (None, [], 0)
    assert found.checked.not_compared == ["1 call of graph 0: compiled code raised ValueError: only compiled"]
    assert says_open(report_of_run(found.checked), "communicates")
    seen = finished(survey(child, script(home, f"{ALONE}FAULT = False\n{CAUGHT}"))).checked
    assert (seen.calls, seen.not_compared) == (1, [])


SETTLED = """
comparer = sys.modules["minimizer_inside.watch.comparer"]
settled = []
comparer.settle, comparer.settle_stream = (lambda: settled.append("all")), (lambda: settled.append("stream"))


def waits(graph, example):
    return graph.forward


def hands_on(graph, example):
    (wait,) = graph.graph.find_nodes(op="call_function", target=torch.ops._c10d_functional.wait_tensor)
    wait.replace_all_uses_with(wait.args[0])
    graph.graph.erase_node(wait)
    graph.recompile()
    return graph.forward


for backend, expected in ((waits, ["stream"]), (hands_on, [])):
    torch._dynamo.reset()
    settled.clear()
    torch.compile(lambda x: all_reduce(x, "sum", world).view(-1), backend=backend)(torch.ones(3))
    assert settled == expected, settled
"""


def test_nothing_waits_for_a_collective_for_which_the_script_does_not(child: Executor, home: Path) -> None:
    """To wait for all of a GPU's streams could be to wait for ever."""
    found = finished(survey(child, script(home, ALONE + SETTLED)))
    assert found.exception is None, found.exception
    assert found.checked.calls == 1


BREAKS_AGAIN = """
from torch._functorch.aot_autograd import aot_module_simplified

runs = []


def breaks(graph, example):
    def backward(graph, example):
        def run(*args):
            runs.append(len(runs))
            if len(runs) > 1:
                raise KeyError("not again")
            return graph(*args)

        return run

    return aot_module_simplified(graph, example, fw_compiler=lambda graph, example: graph.forward, bw_compiler=backward)


torch.compile(lambda x: x.sin(), backend=breaks)(torch.ones(3, requires_grad=True)).sum().backward()
try:
    raise {raised}
except (KeyError, ValueError):
    dist.destroy_process_group()
"""


@pytest.mark.fault_behind("gradients_unreplayed")
@pytest.mark.parametrize("raised", ['ValueError("not again")', 'KeyError("another")'])
def test_an_exception_that_the_script_handles_is_not_its_backwards(child: Executor, home: Path, raised: str) -> None:
    """While it is handled the replay of a backward raises, which the script's own did not."""
    found = finished(survey(child, script(home, ALONE + BREAKS_AGAIN.format(raised=raised))))
    assert (found.exception, found.suspects, found.checked.calls, found.checked.backward) == (None, [], 1, 0)
    assert found.checked.not_compared == ["gradients of graph 0: KeyError: 'not again'"]
    assert says_open(report_of_run(found.checked), "gradients_unreplayed")


UNWATCHED = """
@torch.library.custom_op("ranks::summed_unseen", mutates_args=())
def summed_unseen(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    if dist.is_initialized():
        runs.append(1)
        dist.all_reduce(x)
    return x


def off(graph, example):
    return lambda *args: [out + FAULT * dist.is_initialized() for out in graph(*args)]


runs = []
summed_unseen.register_fake(torch.empty_like)
earlier = torch.compile(lambda x: summed_unseen(x) + 1, backend=off)
earlier(torch.ones(2))
communication = sys.modules["minimizer_inside.values.communication"]
communication._functional = lambda *args: 1 / 0
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
earlier(torch.ones(2))
torch.compile(lambda x: all_reduce(x, "sum", dist.group.WORLD) + 1, backend=off)(torch.ones(3))
torch.compile(lambda x: summed_unseen(x.cos()), backend=off)(torch.ones(4))
assert len(runs) == 2, "no run of ours communicates"
assert not communication._libraries
"""


@pytest.mark.needs_excuse("communicates")
@pytest.mark.fault_behind("communicates")
@pytest.mark.parametrize("fault", [0, 1])
def test_graphs_are_left_open_where_their_collectives_cannot_be_watched(
    child: Executor, home: Path, fault: int
) -> None:
    """Nothing would keep a run of ours from waiting for other ranks; the script goes on."""
    head = HEAD.partition("dist.init_process_group")[0]
    found = finished(survey(child, script(home, f"{head}FAULT = {fault}\n{UNWATCHED}")))
    assert (found.exception, found.suspects) == (None, [])
    assert found.checked.calls == 1
    why = "its collectives could not be watched: ZeroDivisionError: division by zero"
    whole = f"it communicates with other ranks, which do not rerun it ({why})"
    assert found.checked.not_compared == [f"1 call of graph {number}: {whole}" for number in range(3)]
    assert says_open(report_of_run(found.checked), "communicates")

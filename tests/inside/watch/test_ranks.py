"""Scripts that torchrun would start: one rank is watched, the others run beside it and end with it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from children import script, survey
from torch import fx

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.rank_stacks import state
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.inside.graph.collectives import communicates
from minimizer.inside.watch.ranks import RUN
from minimizer.vocabulary import Kind, Reason, Status

DATA_PARALLEL = """
    import torch
    import torch.distributed as dist
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))


    dist.init_process_group("gloo")
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy" if dist.get_rank() == {wrong} else None
    assert dist.get_world_size() == 2
    torch.manual_seed(dist.get_rank())
    step = torch.compile(nn.parallel.DistributedDataParallel(Net()))
    for _ in range(2):
        step(torch.randn(3, 4)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture
def triage(child: Executor, home: Path) -> Any:
    def run(wrong: int | None, on_note: Callable[[str], None] = lambda _: None) -> Case | Settled:
        path = script(home, DATA_PARALLEL.format(wrong=wrong))
        options: dict[str, Any] = {"args": [], "steps": None, "hang_after": 200, "values": True, "nproc": 2}
        return Triage(Surveys(child, path, **options), on_note=on_note).run()

    return run


@pytest.mark.quality("slow")
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_fault_of_one_rank_is_held_as_a_program_of_one_process(triage: Any, wrong: int) -> None:
    """The first run watches rank 0, and the next one rank 1."""
    notes: list[str] = []
    found = triage(wrong, notes.append)
    assert isinstance(found, Case)
    assert any(note.startswith("Rank 1 of 2") for note in notes) == (wrong == 1)
    assert found.signature.kind is Kind.WRONG_OUTPUT
    assert "torch.relu" in [node.target for node in found.program.nodes]
    found.survey.close()


@pytest.mark.quality("slow")
def test_ranks_that_agree_are_healthy(triage: Any) -> None:
    found = triage(None)
    assert isinstance(found, Settled)
    assert found.status is Status.HEALTHY, found.summary
    assert (found.checked.calls, found.checked.calls_made, found.checked.backward) == (4, 4, 4)
    assert not any(line.startswith("rank") for line in found.checked.not_compared)


def test_all_ranks_run_a_text_that_stands_in_for_the_scripts(child: Executor, home: Path) -> None:
    """Or a workaround would be tried on rank 0 alone."""
    (home / "helper.py").write_text("beside = True\n")
    text = """
        import os
        import sys
        import helper
        import torch
        import torch.distributed as dist

        if {fails} and os.environ["RANK"] == "1":
            raise RuntimeError("unchanged")
        dist.init_process_group("gloo")
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == 2 and sys.argv[0] == __file__ and __name__ == "__main__"
        torch.compile(lambda x: x + 1, backend="aot_eager")(x)
        dist.destroy_process_group()
    """
    path = script(home, text.format(fails=True))
    found = survey(child, path, nproc=2, text=textwrap.dedent(text.format(fails=False)))
    assert found.finished is not None, found.log
    assert (found.finished.exception, found.finished.checked.frames) == (None, 1)


@pytest.mark.parametrize(
    "wait", [torch.ops._c10d_functional.wait_tensor, torch.ops._c10d_functional.wait_tensor.default], ids=str
)
def test_a_graph_that_communicates_is_known(wait: Any) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    added = graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
    graph.output(added)
    module = fx.GraphModule(torch.nn.Module(), graph)
    assert not communicates(module)
    with graph.inserting_after(added):
        graph.call_function(wait, (added,))
    assert communicates(module)


def test_a_graph_of_a_tensor_that_lies_on_several_ranks_communicates() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.add.Tensor, (x, 1)))
    x.meta["example_value"] = torch.ones(2)
    assert not communicates(fx.GraphModule(torch.nn.Module(), graph))
    x.meta["example_value"] = object.__new__(type("DTensor", (), {"__module__": "torch.distributed.tensor"}))
    assert communicates(fx.GraphModule(torch.nn.Module(), graph))


@pytest.mark.quality("slow")
def test_ranks_that_wait_for_each_other_use_up_no_more_than_their_share(
    child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 waits in C++ code, where it does not hear that it is asked to stop."""
    monkeypatch.setattr("minimizer.engine.child.watchdog.GRACE", 3.0)
    text = """
        import time
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(3))
        time.sleep(1e6)
    """
    surveys = Surveys(child, script(home, text), args=[], steps=None, hang_after=60, values=True, nproc=2, budget=30)
    found = Triage(surveys, on_note=lambda _: None).run()
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.BUDGET)
    assert "rank 0 waits in all_reduce (script.py, line 8); rank 1 " in found.summary
    assert "--budget 60 gives it 20 s" in found.summary


DEADLOCK = """
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    compiled = torch.compile(lambda x: x.sum() + 1, backend="aot_eager")
    for number in range(3):
        out = compiled(torch.ones(4))
        if dist.get_rank() == 0 or number == 0:
            dist.all_reduce(out)
        else:
            dist.recv(out, src=0)
    dist.destroy_process_group()
"""
DEADLOCK_IN_COMPILED_CODE = """
    import torch
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_reduce

    dist.init_process_group("gloo")
    world = dist.group.WORLD
    compiled = torch.compile(lambda x: all_reduce(x.sin(), "sum", world) + 1, backend="aot_eager")
    for number in range(3):
        if dist.get_rank() == 0 or number == 0:
            out = compiled(torch.ones(4))
        else:
            dist.recv(out, src=0)
    dist.destroy_process_group()
"""
STALLED = """
    import time
    import torch
    import torch.distributed as dist

    def slow(graph, inputs):
        if dist.get_rank() == 1:
            time.sleep(1e6)
        return graph.forward

    dist.init_process_group("gloo")
    out = torch.compile(lambda x: x.sum() + 1, backend=slow)(torch.ones(4))
    dist.all_reduce(out)
    dist.destroy_process_group()
"""


@pytest.mark.quality("slow")
@pytest.mark.timeout(600)
def test_ranks_that_wait_for_one_another_are_told_with_and_without_the_compiler(child: Executor, home: Path) -> None:
    found = judged_soon(child, script(home, DEADLOCK))
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert "rank 0 waits in all_reduce (script.py, line 10); rank 1 waits in recv (script.py, line 12)" in found.summary


@pytest.mark.quality("slow")
@pytest.mark.timeout(600)
def test_a_rank_that_waits_in_compiled_code_is_told(child: Executor, home: Path) -> None:
    found = judged_soon(child, script(home, DEADLOCK_IN_COMPILED_CODE))
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    said = "rank 0 waits in wait_tensor (script.py, line 8); rank 1 waits in recv (script.py, line 13)"
    assert f"with and without the compiler: {said}" in found.summary


@pytest.mark.quality("slow")
@pytest.mark.timeout(600)
def test_a_rank_that_stands_still_in_the_compiler_is_named(
    child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watched rank only waits for it."""
    monkeypatch.setattr("minimizer.engine.survey.runs.WAITS_SECONDS", 10.0)
    found = judged_soon(child, script(home, STALLED))
    assert (found.status, found.kind) == (Status.PARTIAL, Kind.HANG)
    assert "rank 0 waits in all_reduce (script.py, line 13); rank 1 has been in the compiler for" in found.summary
    assert "in slow (script.py, line 8). In eager all ranks come to their end" in found.summary


def judged_soon(child: Executor, path: Path) -> Settled:
    """The verdict on a script whose ranks stand still, long before its share of the budget is over."""
    options: dict[str, Any] = {"args": [], "steps": None, "hang_after": 20, "values": True, "nproc": 2, "budget": 6000}
    found = Triage(Surveys(child, path, **options), on_note=lambda _: None).run()
    assert isinstance(found, Settled)
    return found


def test_another_rank_tells_its_stacks_in_a_thread_of_python(tmp_path: Path) -> None:
    """The timer of ``faulthandler`` reads frames of threads that run: processes died of it."""
    path, stacks = script(tmp_path, "def waits():\n    input()\n\nwaits()\n", "träin.py"), tmp_path / "stacks"
    command = [sys.executable, "-c", RUN, str(path), str(path), str(stacks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as rank:
        while not stacks.exists() or not (seen := state(1, stacks.read_text())).chain:
            assert rank.poll() is None
        assert [(one.file, one.function, one.line) for one in seen.chain if one.is_users] == [
            ("träin.py", "<module>", 4),
            ("träin.py", "waits", 2),
        ]
        rank.communicate("\n")
    assert rank.returncode == 0 and state(1, stacks.read_text()).ended == ""

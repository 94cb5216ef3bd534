"""What a process hears from other ranks, recorded and replayed, by two real ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from checkout import ROOT

RANKS = """
    import gc
    import sys
    import _thread
    import threading
    import time
    import weakref
    import torch
    import torch.distributed as dist
    from torch.distributed import _functional_collectives as functional
    from minimizer.inside.values import communication

    communication.watch()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.group.WORLD
    x = torch.arange(8.0).reshape(4, 2) + 10 * rank

    def eager(x):
        total = functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x * 2, "sum", world.group_name))
        largest = functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x * 2, "max", world.group_name))
        rows = functional.wait_tensor(torch.ops._c10d_functional.all_gather_into_tensor(total + rank, 2, world.group_name))
        part = functional.wait_tensor(torch.ops._c10d_functional.reduce_scatter_tensor(rows, "sum", 2, world.group_name))
        sent = functional.wait_tensor(torch.ops._c10d_functional.broadcast(part + largest, 1, world.group_name))
        return sent + functional.wait_tensor(
            torch.ops._c10d_functional.all_to_all_single(sent, [2, 2], [2, 2], world.group_name)
        )

    compiled = torch.compile(eager, backend=BACKEND, fullgraph=True)
    with communication.recorded() as heard:
        result = compiled(x)
    with communication.recorded() as by_eager:
        expected = eager(x)
    torch.testing.assert_close(result, expected)
    assert [one.signature for one in heard] == [one.signature for one in by_eager] == [
        ("all_reduce", world.group_name, "sum"),
        ("all_reduce", world.group_name, "max"),
        ("all_gather", world.group_name, ""),
        ("reduce_scatter", world.group_name, "sum"),
        ("broadcast", world.group_name, "1"),
        ("all_to_all", world.group_name, "[2, 2] [2, 2]"),
    ]
    for one, other in zip(heard, by_eager):
        torch.testing.assert_close(one.results, other.results)
        if one.kind != "broadcast" or rank == 1:
            torch.testing.assert_close(one.entered, other.entered)
    dist.barrier()
    if rank == 0:  # alone: rank 1 waits for it in a barrier, and would take part in whatever comes
        for function in (eager, compiled, compiled):
            with communication.Replay(heard).played():
                torch.testing.assert_close(function(x), expected)
        for refusing, value in (
            (communication.refusing_collectives(), x),
            (communication.Replay(heard[:2]).played(), x),
            (communication.Replay(heard[::-1]).played(), x),
            (communication.Replay(heard).played(), x.double()),
            (communication.Replay(heard).played(), x[:2]),
        ):
            try:
                with refusing:
                    eager(value)
            except communication.Communicates:
                continue
            raise AssertionError("it communicates")
        try:
            with communication.refusing_collectives():
                dist.all_reduce(x.clone())
        except communication.Communicates:
            pass
        else:
            raise AssertionError("it communicates")
    dist.barrier()
    other = dist.new_group([0, 1])
    with communication.recorded() as heard:  # each rank in its own order: to wait at once would be to wait for ever
        begun = []
        for group in (world, other) if rank == 0 else (other, world):
            begun.append(torch.ops._c10d_functional.all_reduce(x, "sum", group.group_name))
            if rank == 1:
                functional.wait_tensor(begun[-1])
        for tensor in reversed(begun[1:]):
            functional.wait_tensor(tensor)
    known = [not one.unknown for one in heard]
    assert known == ([False, True] if rank == 0 else [True, True]), "it is not waited for what is handed on"
    for one in heard[-1:]:
        torch.testing.assert_close(one.results, [2 * torch.arange(8.0).reshape(4, 2) + 10])
    if rank == 0:
        functional.wait_tensor(begun[0])

    # What cannot be copied is not, and the script does not see it.
    communication._copy, copy = None, communication._copy
    with communication.recorded() as heard:
        assert eager(x).shape == x.shape
    assert "could not be recorded" in heard[0].unknown
    communication._copy = copy
    most, communication.MOST_BYTES = communication.MOST_BYTES, 4 * x.nbytes
    with communication.recorded() as heard:
        assert eager(x).shape == x.shape
    assert ["more than" in one.unknown for one in heard] == [False, False, True, True, True, True]
    communication.MOST_BYTES = most
    with communication.recorded() as heard:
        functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", world.group_name))
    operand, result = weakref.ref(heard[0].entered[0]), weakref.ref(heard[0].results[0])
    replay = communication.Replay(heard)
    del heard
    gc.collect()
    assert operand() is None and result() is not None and replay.has_groups
    assert replay.nbytes == x.nbytes
    communication.runs_cuda_graphs = lambda: True
    with communication.recorded() as heard:
        assert eager(x).shape == x.shape
    assert all("CUDA graph" in one.unknown and not one.entered and not one.results for one in heard)
    communication.runs_cuda_graphs = lambda: False

    # Code may catch the exception.
    if rank == 0:
        with communication.refusing_collectives(), communication.refusals() as refused:
            try:
                dist.all_reduce(x.clone())
            except Exception:
                pass
        assert refused == ["a rerun by one rank would wait for the others in allreduce"]

    # A thread that Python does not know is the script's all the same, unless autograd runs our own backward in it.
    threads = []

    def sums():
        try:
            threads.append(torch.ops._c10d_functional.all_reduce(x, "sum", world.group_name))
        except Exception as error:
            threads.append(error)

    if rank == 0:
        with communication.refusing_collectives():
            _thread.start_new_thread(sums, ())
            while not threads:
                time.sleep(0.01)
    else:
        sums()
    assert functional.wait_tensor(threads[0])[0, 0].item() == 10

    class Deeper(torch.autograd.Function):  # autograd begins a thread where backward passes are nested this deep
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with torch.enable_grad():
                    inner = torch.ones(1, requires_grad=True)
                    Deeper.apply(inner, ctx.depth - 1).backward()
            else:
                threads.append(threading.get_ident())
                dist.all_reduce(grad.clone())
            return grad, None

    if rank == 0:
        with communication.refusing_collectives(), communication.refusals() as refused:
            try:
                Deeper.apply(torch.ones(1, requires_grad=True), 80).backward()
            except Exception:
                pass
        assert threads[1] != threading.get_ident()
        assert refused == ["a rerun by one rank would wait for the others in allreduce"]

    # While a rank waits, its other threads run: here the other rank waits for one of them.
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        main = threading.get_ident()

        def say():
            while sys._current_frames()[main].f_code.co_name != "redispatch":
                time.sleep(0.01)
            store.set("begun", "1")

        begun = torch.ops._c10d_functional.all_reduce(x, "sum", world.group_name)
        thread = threading.Thread(target=say)
        thread.start()
        functional.wait_tensor(begun)
        thread.join()
    else:
        store.wait(["begun"])
        functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", world.group_name))
    with communication.refusing_collectives(), communication.together():
        dist.all_reduce(x)
    assert x[0, 0].item() == 10
    looked = []
    communication.before_leaving(lambda: looked.append(dist.is_initialized()))
    dist.destroy_process_group()
    assert looked == [True] and not dist.is_initialized() and not replay.has_groups
"""


def ranks(text: str, folder: Path) -> None:
    """Run a program in two ranks; all must end well."""
    script = folder / "ranks.py"
    script.write_text(textwrap.dedent(text))
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
    }
    # Torchrun's own agent finds a free port.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def test_what_compiled_code_heard_stands_in_for_the_other_ranks(tmp_path: Path) -> None:
    ranks(RANKS.replace("BACKEND", '"inductor"'), tmp_path)

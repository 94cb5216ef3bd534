"""What a process hears from other ranks, recorded and replayed, by two real ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from checkout import ROOT

RANKS = """
    import sys
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
        for function, dtype in ((eager, torch.float32), (eager, torch.float64), (compiled, torch.float32)):
            with communication.replayed(heard):
                torch.testing.assert_close(function(x.to(dtype)), expected.to(dtype))
        for refusing in (communication.alone(), communication.replayed(heard[:2])):
            try:
                with refusing:
                    eager(x)
            except communication.Communicates:
                continue
            raise AssertionError("it communicates")
        try:
            with communication.alone():
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
    assert len(heard) == 2
    for one in heard:  # also of what was handed on without a wait
        torch.testing.assert_close(one.results, [2 * torch.arange(8.0).reshape(4, 2) + 10])
    with communication.alone(), communication.together():
        dist.all_reduce(x)
    assert x[0, 0].item() == 10
    looked = []
    communication.before_leaving(lambda: looked.append(dist.is_initialized()))
    dist.destroy_process_group()
    assert looked == [True] and not dist.is_initialized()
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

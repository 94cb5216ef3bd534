"""The kernel as a script finds it: each refused call made through ctypes, under the filter, and without it to show that it was there."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hostile.system_calls import CALL, FAMILIES, REFUSED, REFUSED_ANYWAY, SOCKET

from minimizer.sandbox import Bubblewrap, bubblewrap, runtime_paths, syscall_numbers

PYTHON = Path(sys.executable)
MACHINE = syscall_numbers.architecture()
pytestmark = pytest.mark.skipif(MACHINE is None, reason="there is no filter for this processor")


def run(script: str, *arguments: object, folder: Path) -> tuple[int, str]:
    (folder / "script.py").write_text(textwrap.dedent(script))
    sandbox = Bubblewrap()
    process = sandbox.start(
        [str(PYTHON), "script.py", *map(str, arguments)],
        cwd=folder,
        read=runtime_paths(PYTHON),
        write=[folder],
        env={"PATH": os.defpath, "HOME": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    text = process.communicate()[0].decode().strip()
    sandbox.kill(process)
    return process.returncode, text


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All that is started from here on has no filter."""
    monkeypatch.setattr(bubblewrap, "_filter", lambda owner: ([], []))
    return monkeypatch


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_is_refused(name: str, tmp_path: Path) -> None:
    arguments, error = REFUSED[name]
    if (number := _number(name)) is not None:
        assert run(CALL, number, *arguments, folder=tmp_path) == (0, error)


@pytest.mark.usefixtures("unfiltered")
@pytest.mark.parametrize("name", [name for name in REFUSED if name not in REFUSED_ANYWAY])
def test_a_call_would_be_answered_otherwise(name: str, tmp_path: Path) -> None:
    arguments, error = REFUSED[name]
    if (number := _number(name)) is not None:
        status, seen = run(CALL, number, *arguments, folder=tmp_path)
        assert seen not in (error, "ENOSYS"), f"{name} gives {seen}, with status {status}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_sockets_is_refused(family: str, tmp_path: Path) -> None:
    assert run(SOCKET, *FAMILIES[family], folder=tmp_path) == (0, "EAFNOSUPPORT")


@pytest.mark.usefixtures("unfiltered")
def test_a_family_of_sockets_would_be_there(tmp_path: Path) -> None:
    assert run(SOCKET, *FAMILIES["netfilter"], folder=tmp_path) == (0, "made")


def test_interfaces_are_listed(tmp_path: Path) -> None:
    assert run("import socket; print(socket.if_nameindex())", folder=tmp_path) == (0, "[(1, 'lo')]")


COMPATIBLE = """
    import ctypes, mmap
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("b814000000 cd80 c3"))  # getpid, as a 32-bit program calls it
    print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))() > 0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="32-bit calls from a 64-bit program are x86's")
def test_the_calls_of_32_bits_are_no_way_around(tmp_path: Path, unfiltered: pytest.MonkeyPatch) -> None:
    there = run(COMPATIBLE, folder=tmp_path)
    unfiltered.undo()
    status, _ = run(COMPATIBLE, folder=tmp_path)
    assert status == 128 + 31 if there == (0, "True") else status != 0  # SIGSYS


def test_the_filter_stays_in_children(tmp_path: Path) -> None:
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {textwrap.dedent(CALL)!r}, *sys.argv[1:]])"
    assert run(script, _number("keyctl"), 0, 2**64 - 3, 1, folder=tmp_path) == (0, "EPERM")


COMPILE_WORKERS = """
    import torch._inductor.config as config
    config.compile_threads, config.worker_start_method = 2, "subprocess"
    from torch._inductor.async_compile import AsyncCompile
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    assert AsyncCompile.use_process_pool()
    assert AsyncCompile.process_pool().submit(abs, -3).result() == 3
    print("answered")
"""
TWO_RANKS = """
    import sys
    import torch, torch.distributed as dist, torch.multiprocessing as mp

    def rank(number, folder):
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=number, world_size=2)
        total = torch.ones(4) * (number + 1)
        dist.all_reduce(total)
        assert total.tolist() == [3.0] * 4
        dist.destroy_process_group()

    if __name__ == "__main__":
        mp.spawn(rank, args=(sys.argv[1],), nprocs=2)
        print("reduced")
"""


@pytest.mark.parametrize(("script", "says"), [(COMPILE_WORKERS, "answered"), (TWO_RANKS, "reduced")])
def test_torch_works_under_it(script: str, says: str, tmp_path: Path) -> None:
    """Inductor's pool of compile workers, and two processes that talk through gloo on loopback. Kernels: test_sandbox.py."""
    status, text = run(script, tmp_path, folder=tmp_path)
    assert (status, text.splitlines()[-1]) == (0, says), text


def _number(name: str) -> int | None:
    assert MACHINE is not None
    return MACHINE.numbers.get(name)

"""The kernel as a script finds it: each refused call made through ctypes, under the filter, and without it to show that it was there."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from minimizer.sandbox import Bubblewrap, bubblewrap, runtime_paths, syscalls

PYTHON = Path(sys.executable)
MACHINE = syscalls.architecture()
pytestmark = pytest.mark.skipif(MACHINE is None, reason="there is no filter for this processor")

CALL = """
    import ctypes, errno, sys
    libc = ctypes.CDLL(None, use_errno=True)
    number, *arguments = map(int, sys.argv[1:])
    made = libc.syscall(number, *map(ctypes.c_void_p, arguments))
    print("made" if made >= 0 else errno.errorcode[ctypes.get_errno()])
"""
SOCKET = """
    import errno, socket, sys
    try:
        socket.socket(*map(int, sys.argv[1:]))
        print("made")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
NEWUSER, NEWTIME = 0x10000000, 0x80
NO_DESCRIPTOR = 2**64 - 1
REFUSED = {
    "io_uring_setup": ((1, 0), "ENOSYS"),
    "io_uring_enter": ((NO_DESCRIPTOR, 0, 0, 0, 0, 0), "ENOSYS"),
    "io_uring_register": ((NO_DESCRIPTOR, 0, 0, 0), "ENOSYS"),
    "userfaultfd": ((1,), "EPERM"),
    "bpf": ((0, 0, 0), "EPERM"),
    "perf_event_open": ((0, 0, NO_DESCRIPTOR, NO_DESCRIPTOR, 0), "EPERM"),
    "fanotify_init": ((0x200, 0), "EPERM"),
    "memfd_secret": ((0,), "ENOSYS"),
    "modify_ldt": ((0, 0, 0), "EPERM"),
    "keyctl": ((0, 2**64 - 3, 1), "EPERM"),
    "add_key": ((0, 0, 0, 0, 0), "EPERM"),
    "request_key": ((0, 0, 0, 0), "EPERM"),
    "ptrace": ((0, 0, 0, 0), "EPERM"),
    "fsopen": ((0, 0), "EPERM"),
    "fsconfig": ((NO_DESCRIPTOR, 0, 0, 0, 0), "EPERM"),
    "open_tree": ((NO_DESCRIPTOR, 0, 0), "EPERM"),
    "mount": ((0, 0, 0, 0, 0), "EPERM"),
    "setns": ((NO_DESCRIPTOR, 0), "EPERM"),
    "unshare": ((NEWUSER,), "EPERM"),
    "clone3": ((0, 0), "ENOSYS"),
    "kexec_load": ((0, 0, 0, 0), "EPERM"),
    "fallocate": ((NO_DESCRIPTOR, 0, 0, 1), "ENOTSUP"),
    "quotactl": ((0, 0, 0, 0), "EPERM"),
    "quotactl_fd": ((NO_DESCRIPTOR, 0, 0, 0), "EPERM"),
}
"""Each call with arguments that are harmless where it is made, and the error that the filter gives."""
REFUSED_ANYWAY = {"perf_event_open", "fsopen", "fsconfig", "open_tree", "mount", "unshare", "kexec_load", "quotactl", "bpf", "fanotify_init",
                  "memfd_secret", "modify_ldt", "userfaultfd"}  # fmt: skip
"""Calls that a kernel may refuse by itself in the same words, by its configuration, or since no sandbox has a capability."""
FAMILIES = {
    "netfilter": (16, 3, 12),
    "packet": (17, 3, 0),
    "key": (15, 3, 2),
    "alg": (38, 5, 0),
    "vsock": (40, 1, 0),
    "xdp": (44, 3, 0),
}
"""Arguments of socket(2) by family."""


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

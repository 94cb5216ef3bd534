"""Starts the other ranks of a distributed script, as torchrun would: plain processes next to the watched one.

They run the same text as the watched rank, with the same compiler setting, and are killed when it ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from ..questions import RANK_ENDED, STACKS_EVERY

RUN = f"""\
def _as_rank():
    import os, sys, threading, time
    global __file__
    __file__, file, stacks, *args = sys.argv[1:]
    sys.argv, sys.path[0] = [__file__, *args], os.path.dirname(__file__)
    stacks = open(stacks, "w", encoding="ascii", errors="backslashreplace")

    def write_stacks(wait=time.sleep, main=threading.get_ident()):
        while True:
            wait({STACKS_EVERY})
            lines, frames = ["Timeout!"], sys._current_frames()
            del frames[threading.get_ident()]
            for thread, frame in sorted(frames.items(), key=lambda one: one[0] == main):
                lines.append(f"Thread 0x{{thread:x}} (most recent call first):")
                while frame is not None:
                    code, line = frame.f_code, frame.f_lineno
                    lines.append(f'  File "{{code.co_filename}}", line {{line}} in {{code.co_name}}')
                    frame = frame.f_back
            print("\\n".join(lines), file=stacks, flush=True)

    threading.Thread(target=write_stacks, daemon=True).start()
    try:
        exec(compile(open(file, "rb").read(), __file__, "exec"), globals())
        print("{RANK_ENDED}", file=stacks, flush=True)
    except BaseException as error:
        print(f"{RANK_ENDED} {{type(error).__name__}}: {{error}}".splitlines()[0], file=stacks, flush=True)
        raise
_as_rank()
"""
"""Program for ``python -c``: runs the text of one file under another file's name, as ``run_script`` does, and writes its stacks down.

It writes them in a thread of Python, main thread last, as ``faulthandler`` does: the timer of that reads the frames of threads that run, and
the process dies of it now and then.
"""


@contextlib.contextmanager
def other_ranks(
    count: int, own: int, path: str, args: Sequence[str], text: str | None, stacks: str | None
) -> Iterator[None]:
    """Make this process the rank ``own`` of ``count`` on this machine, with the variables that torchrun sets, and start the others.

    Args:
        count: the number of ranks.
        own: the rank of this process.
        path: the script.
        args: its arguments.
        text: stands in for the script's own; None: its own.
        stacks: a folder in which each of the others writes its stacks, into a file by its number; None: nowhere.
    """
    if count == 1:
        yield
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update({"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the sandbox has no other interface, and its name is no address
    program = path
    if text is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False, encoding="utf-8") as file:
            file.write(text)
        program = file.name
    others = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, path, program, stacks_file(stacks, rank), *args],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(count)
        if rank != own
    ]
    os.environ.update({"RANK": str(own), "LOCAL_RANK": str(own)})
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def stacks_file(folder: str | None, rank: int) -> str:
    """The file for the stacks of a rank."""
    return os.devnull if folder is None else os.path.join(folder, str(rank))

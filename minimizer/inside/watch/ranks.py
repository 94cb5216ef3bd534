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

RUN = (
    "import os, sys; path, file, *args = sys.argv[1:]; sys.argv = [path, *args]; sys.path[0] = os.path.dirname(path); "
    "__file__ = path; exec(compile(open(file, 'rb').read(), path, 'exec'))"
)
"""Program for ``python -c``: runs the text of one file under another file's name, as ``run_script`` does."""


@contextlib.contextmanager
def other_ranks(count: int, own: int, path: str, args: Sequence[str], text: str | None = None) -> Iterator[None]:
    """Make this process the rank ``own`` of ``count`` on this machine, with the variables that torchrun sets, and start the others.

    ``text`` stands in for the script's own, if it is not None.
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
    command = [sys.executable, path, *args]
    if text is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False, encoding="utf-8") as file:
            file.write(text)
        command = [sys.executable, "-c", RUN, path, file.name, *args]
    others = [
        subprocess.Popen(command, env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)})
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

"""Runs a command in a process of its own, in a sandbox of its own, and reads the end of what it printed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.child.untrusted import tail
from minimizer.sandbox import KILLED, Sandbox

OUTPUT_BYTES = 256 << 10
"""How much of the end of a run's output is read. What an assertion says comes last and begins with its evidence: tensors of a thousand
elements each take ten or twenty kilobytes."""
FILE_BYTES = 8 << 30


@dataclass(frozen=True)
class CleanRun:
    """How a run ended; ``status`` is None where it had to be stopped."""

    status: int | None
    output: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        """Whether it was ended by SIGKILL: by the kernel for want of memory, most often."""
        return self.status in KILLED

    @property
    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "no output")


def run_clean(
    command: Sequence[str],
    sandbox: Sandbox,
    *,
    work: Path,
    output: Path,
    read: Sequence[Path],
    write: Sequence[Path],
    environment: Mapping[str, str],
    limit: float,
    watch: Callable[[], None],
    network: bool = False,
    file_bytes: int = FILE_BYTES,
    only_errors: bool = False,
) -> CleanRun:
    """Run a command for at most ``limit`` seconds.

    Args:
        command: what to run.
        sandbox: where.
        work: its working folder.
        output: a file of ours that takes what it prints; with ``only_errors`` on its standard error alone.
        read: folders that it may read.
        write: folders that it may write to.
        environment: all that it sees of one.
        limit: seconds.
        watch: called while waiting; what it raises ends the command at once, and is raised here.
        network: whether it may use it.
        file_bytes: how large a file of its own may become.
        only_errors: see ``output``.
    """
    with output.open("wb") as stream:
        started = time.monotonic()
        process = sandbox.start(
            command,
            cwd=work,
            read=read,
            write=write,
            env=environment,
            network=network,
            stdout=subprocess.DEVNULL if only_errors else stream,
            stderr=stream if only_errors else subprocess.STDOUT,
            file_bytes=file_bytes,
        )
        status = sandbox.finish(process, limit, watch)
    return CleanRun(status, tail(output, OUTPUT_BYTES), time.monotonic() - started)

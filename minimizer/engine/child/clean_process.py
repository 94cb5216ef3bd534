"""Runs a command in a fresh process and sandbox, and reads the end of its output."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.child.trouble import Death, EndRule, rule_for
from minimizer.engine.child.untrusted import tail
from minimizer.sandbox import Sandbox

OUTPUT_BYTES = 256 << 10
"""Bytes read from the end of a run's output.

An assertion's message comes last and begins with its evidence: two tensors of a thousand elements take 10 to 20 kB
each.
"""
FILE_BYTES = 8 << 30
UNABLE = "cannot run here: "
"""The prefix that a repro with exit status 125 prints before the error."""


@dataclass(frozen=True)
class CleanRun:
    """The end of a run: exit ``status`` (None if it was stopped), the end of its ``output``, and its ``seconds``."""

    status: int | None
    output: str
    seconds: float

    @property
    def rule(self) -> EndRule:
        """The rule that attributes its end to the program, to the machine, or to neither."""
        return rule_for(Death.by_status(self.status, self.output))

    @property
    def last_line(self) -> str:
        """The last non-empty line; for a repro that cannot run, its first line, since a compiler's error ends with
        advice.
        """
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return next((line for line in lines if line.startswith(UNABLE)), lines[-1] if lines else "no output")


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
        command: the program and its arguments.
        sandbox: the sandbox to start it in.
        work: its working folder.
        output: a file of ours for its standard output and error.
        read: folders that it may read.
        write: folders that it may write to.
        environment: its whole environment.
        limit: seconds.
        watch: called while waiting; an exception from it ends the command at once, and is raised here.
        network: whether it may use the network.
        file_bytes: the largest size of a file that it writes.
        only_errors: write its standard error alone to ``output``.
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

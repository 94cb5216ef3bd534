"""Scripts in forks of a process that has imported the compiler: what Python and torch take to start is paid for once.

A fork is a process like any other: it has an exit status, dies of signals, and compiles from nothing.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

SCRIPT, OUTPUT = "repro.py", "output"


class Warm:
    """The process. It has the environment that is given, and begins one script at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._folder = Path()

    def begin(self, folder: Path) -> None:
        """Begin ``python repro.py`` in this folder, which is its home."""
        assert self._process.stdin is not None
        self._folder = folder
        print(folder, file=self._process.stdin, flush=True)

    def ended(self) -> tuple[int, str]:
        """How it ended: the exit status, less than 0 for a signal, and what it wrote on either stream."""
        assert self._process.stdout is not None
        status = int(self._process.stdout.readline())
        return status, (self._folder / OUTPUT).read_text(errors="replace")

    def close(self) -> None:
        with self._process as process:
            process.kill()


def _serve() -> None:
    gc.disable()
    for name in ("torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp"):
        importlib.import_module(name)
    gc.freeze()  # or each fork would copy what is imported, to look for garbage in it
    gc.enable()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_run(Path(line.rstrip("\n"))))  # torch takes a second to be taken apart
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(folder: Path) -> int:
    """Be ``python repro.py`` in this folder; its exit status."""
    os.chdir(folder)
    os.environ["HOME"] = str(folder)
    with Path(os.devnull).open() as nothing, Path(OUTPUT).open("w") as output:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    sys.argv = [SCRIPT]
    sys.path[0] = str(folder)
    try:
        runpy.run_path(SCRIPT, run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    _serve()

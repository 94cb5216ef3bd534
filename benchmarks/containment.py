"""What control groups, the filter of system calls and fresh folders for each run cost a job: pairs of jobs with them and without, in turn.

    python benchmarks/containment.py             # five pairs
    python benchmarks/containment.py --pairs 2

It is a cost only if the whole range with them lies above the whole range without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "chaos"))

from rounds import SCRIPT

JOB = ["--no-witness", "--no-diagnosis", "--sandbox", "required"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="default 5")
    parser.add_argument("--without", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.without:
        return bare(arguments.without)
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "failing.py")
        script.write_text(SCRIPT)
        for number in range(arguments.pairs):
            order = list(seconds) if number % 2 == 0 else [*seconds][::-1]
            for how in order:
                seconds[how].append(job(script, how, Path(folder, f"{how}-{number}")))
                print(how, seconds[how][-1], flush=True)
    print(json.dumps(figures(seconds) | {"load": os.getloadavg()[0]}, indent=1))
    return 0


def job(script: Path, how: str, out: Path) -> float:
    """The seconds of a whole job."""
    start = ["-m", "minimizer"] if how == "with" else [__file__, "--without"]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, *start, "run", str(script), "--out", str(out), *JOB], capture_output=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(
            f"the job {how} them ended with {done.returncode}:\n{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}"
        )
    return round(time.monotonic() - begun, 2)


def bare(command: list[str]) -> int:
    """The command line without the three: what `job` runs in a process of its own."""
    from minimizer.cli import main as minimizer
    from minimizer.engine.child.connection import Task
    from minimizer.engine.child.executor import Executor
    from minimizer.inside.questions import Request
    from minimizer.sandbox import bubblewrap, cgroup

    @contextmanager
    def without_room(self: Executor, request: Request, timeout: float) -> Iterator[Task]:
        yield self._connection.send(request, timeout)

    cgroup._make = lambda bounds: {}
    bubblewrap._filter = lambda owner: ([], [])
    Executor._run_of_script = without_room  # type: ignore[method-assign]
    sys.argv = ["minimizer", *command]
    minimizer()
    return 0


def figures(seconds: dict[str, list[float]]) -> dict[str, Any]:
    ranges = {how: [min(each), statistics.median(each), max(each)] for how, each in seconds.items()}
    return {"least, median, most": ranges, "is a cost": ranges["with"][0] > ranges["without"][2]}


if __name__ == "__main__":
    sys.exit(main())

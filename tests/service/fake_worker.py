"""A worker process whose engine obeys the test: run as ``python fake_worker.py FOLDER``.

For every job the engine leaves a line in ``FOLDER/runs``, and then does what the first line of the script says:
``# done`` ends at once, ``# hold`` waits until ``FOLDER/go`` exists or the sink says stop.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from minimizer.options import Options
from minimizer.report import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.types import Reason, Status
from worker.__main__ import main

FOLDER = Path(sys.argv[1])


def engine(script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None) -> Report:
    with (FOLDER / "runs").open("a") as runs:
        runs.write(f"{os.getpid()} {script.read_text().splitlines()[0]}\n")
    sink.event("step", step="survey", state="started")
    sink.artifact("run.log", f"by {os.getpid()}\n".encode())
    if script.read_text().startswith("# hold"):
        while not (FOLDER / "go").exists():
            if sink.cancelled():
                return Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED, summary="Stopped.")
            time.sleep(0.02)
    sink.artifact("repro.py", b"import torch\n")
    report = Report(status=Status.MINIMIZED, summary=f"Done by {os.getpid()}.")
    sink.report(report)
    return report


if __name__ == "__main__":
    sys.exit(main(engine))

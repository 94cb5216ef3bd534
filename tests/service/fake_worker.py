"""A worker process whose engine obeys the test: run as ``python fake_worker.py FOLDER``.

For every job the engine leaves a line ``PID SCRIPT`` in ``FOLDER/runs``, and then does what the script says: ``# done`` ends
well, ``# hold`` first waits until ``FOLDER/go`` exists or the sink says stop, ``# die`` kills the process, ``# wrong`` ends with a
verified failure of the operator that follows, ``# large aten.relu`` likewise but not minimal, ``# ends STATUS REASON`` as it says,
``# stuck NAME`` starts a process of that name in the sandbox and never comes back.

Further arguments ``NAME=SECONDS`` are constants of `worker.watchdog`; ``--stopped-early`` sends SIGTERM before Celery has a handler for it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from celery.signals import celeryd_init

from minimizer.options import Options
from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import Failure, Report, Verification
from minimizer.sandbox import choose_sandbox
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.vocabulary import Kind, Reason, Status
from worker import watchdog
from worker.__main__ import main

FOLDER = Path(sys.argv[1])


def engine(
    script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
) -> Report:
    text = script.read_text().strip()
    sink.event("step", step="survey", state="started")
    sink.artifact("run.log", f"by {os.getpid()}\n".encode())
    with (FOLDER / "runs").open("a") as runs:
        runs.write(f"{os.getpid()} {text}\n")
    if text.startswith("# die"):
        os.kill(os.getpid(), signal.SIGKILL)
    while text.startswith("# hold") and not (FOLDER / "go").exists():
        if sink.cancelled():
            return Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED, summary="Stopped.")
        time.sleep(0.02)
    if text.startswith("# stuck"):
        begin(text.split()[-1])
        while True:
            pass
    if text.startswith("# ends"):
        status, *reason = text.split()[2:]
        return Report(status=Status(status), reason=Reason(*reason) if reason else None)
    sink.artifact("repro.py", f"# by {os.getpid()}\n".encode())
    report = Report(status=Status.MINIMIZED, summary=f"Done by {os.getpid()}.")
    if text.startswith("# large"):
        report.status, report.reason = Status.PARTIAL, Reason.BUDGET
    if text.startswith(("# wrong", "# large")):
        report.failure = Failure(kind=Kind.WRONG_OUTPUT, signature="wrong_output-1")
        report.culprits = [Culprit(ops=[text.split()[-1]], source=Source(file=script.name, line=1))]
        report.verification = Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)
    sink.report(report)
    return report


def begin(name: str) -> None:
    """A process in the sandbox, known by its name."""
    command = ["/bin/bash", "-c", f"exec -a {name} sleep 1000"]
    choose_sandbox("required", 1 << 30).start(command, cwd=Path("/"), read=[], write=[], env={})


class Finalized:
    """Sends SIGTERM from its finalizer, where Python drops every exception, that of the handler too."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def finalize(**_: object) -> None:
    Finalized()


if __name__ == "__main__":
    if "--stopped-early" in sys.argv:
        sys.argv.remove("--stopped-early")
        celeryd_init.connect(finalize)
    for argument in sys.argv[2:]:
        constant, _, seconds = argument.partition("=")
        setattr(watchdog, constant, float(seconds))
    sys.exit(main(engine))

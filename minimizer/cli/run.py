"""``minimizer run``: the whole pipeline on this machine, without any server."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minimizer.api import default_folder
from minimizer.cli import keys
from minimizer.cli.gate import FailOn, Gate, conclude, gate_options
from minimizer.cli.options import find_interpreter, job_options, options_from, require_place
from minimizer.cli.progress import KEPT, SKIP_KEY, SKIPS, View, open_view
from minimizer.cli.verdict import on_terminal, verdict_lines
from minimizer.errors import InvalidOption
from minimizer.script_text import check_script
from minimizer.settings import settings_from_environment
from minimizer.sink import Event, FolderSink, require_apart
from minimizer.vocabulary import Exit

if TYPE_CHECKING:
    from minimizer.report.model import Report
    from minimizer.sandbox import Mode


@click.command()
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for repro.py, report.json, report.md, issue.md and run.log.  [default: minimizer-out/<script>-<time>]",
)
@click.option(
    "--python",
    metavar="INTERPRETER",
    help="Python that runs the script, with its own torch (2.11 to 2.15).  [default: the one minimizer runs in]",
)
@job_options(exclude=("toolchain",))
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Trials at once.  [default: one a core]")
@click.option(
    "--sandbox",
    type=click.Choice(("auto", "required", "off")),
    default="auto",
    show_default=True,
    help="auto: bubblewrap, or plain limits with a banner where it does not work; required: refuse without bubblewrap.",
)
@click.option(
    "--bind",
    multiple=True,
    type=click.Path(exists=True, resolve_path=True, path_type=Path),
    metavar="PATH",
    help="Further file or folder that the script may read. May be repeated.",
)
@click.option("--network", is_flag=True, help="Let the script use the network.")
@gate_options
@click.option("--json", "as_json", is_flag=True, help="Events as NDJSON on stdout; the last line is the report.")
def run(
    script: Path,
    out: Path | None,
    python: str | None,
    jobs: int | None,
    sandbox: Mode,
    bind: tuple[Path, ...],
    network: bool,
    as_json: bool,
    fail_on: FailOn | None,
    baseline: Path | None,
    junit: Path | None,
    sarif: Path | None,
    **job: Any,
) -> int:
    """Reduce SCRIPT, which fails under torch.compile, to the smallest repro.py that still fails.

    The script may fail by an exception, by a crash, by its own assertion, or without a word: minimizer runs it in
    eager and compiled and compares. It runs in a sandbox: its folder is readable, its working directory is a copy
    that is thrown away, and network, home directory and environment are closed unless you open them.

    \b
    Examples:
      minimizer run train.py
      minimizer run train.py --budget 300 --out bug -- --batch-size 4
      minimizer run train.py --bind /data/weights --env HF_HOME
      minimizer run train.py --python ~/nightly/bin/python
      minimizer run train.py --json | tail -1 | jq .summary

    The script's own arguments come after "--". Ctrl-C stops and keeps the best result so far.
    """
    began = time.monotonic()  # to start the engine takes a second, and several on a crowded machine
    interpreter = find_interpreter(python) if python else None
    check_script(script.read_bytes(), str(script), python=interpreter)
    options = options_from(job)
    _require_set(options.env)
    gate = Gate(fail_on, baseline, junit, sarif)
    gate.check()
    folder = out or default_folder(script.stem)
    require_place("--out", folder)
    require_apart("--out", script, folder)
    settings = settings_from_environment(sandbox=sandbox, script_env="*", **({"trial_jobs": jobs} if jobs else {}))
    _require_tools(sandbox, interpreter)
    view = open_view(decided=KEPT, skips=SKIPS if keys.are_heard() else "")
    try:
        with _stop_on_signal() as stopped:
            sink = RunSink(folder, _listener(view, as_json), stopped)
            from minimizer.engine.pipeline import minimize

            with keys.pressed(sink.key):
                report = minimize(
                    script.resolve(),
                    options=options,
                    settings=settings,
                    sink=sink,
                    python=interpreter,
                    binds=bind,
                    network=network,
                    is_local=True,
                    began=began,
                )
    except KeyboardInterrupt:
        view.close()
        click.echo(f"Stopped. What was found so far is in {folder}", err=True)
        return Exit.CANCELLED
    finally:
        view.close()
    _finish(report, folder, as_json)
    return conclude(gate, script, report.to_json(), folder)


class RunSink(FolderSink):
    """A folder whose owner can ask to stop, and to skip a step."""

    def __init__(self, folder: Path, on_event: Callable[[Event], None], stopped: threading.Event) -> None:
        super().__init__(folder, on_event)
        self._stopped = stopped
        self._skippable: str | None = None
        self._skipped: str | None = None

    def cancelled(self) -> bool:
        return self._stopped.is_set()

    def skipped(self) -> str | None:
        return self._skipped

    def event(self, type_: str, **data: Any) -> None:
        if type_ == "progress" and self._skippable != (step := data.get("skippable")):
            self._skippable, self._skipped = step, None
        super().event(type_, **data)

    def key(self, key: str) -> None:
        """Take a key that was pressed: one of them skips the step that is at work, where that can be skipped."""
        if key.lower() == SKIP_KEY:
            self._skipped = self._skippable


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Let the first Ctrl-C (or SIGTERM) ask the pipeline to stop with what it has, and the second one insist."""
    stopped = threading.Event()

    def stop(signum: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        click.echo("Stopping, the best result so far is kept. Press Ctrl-C again to stop at once.", err=True)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listener(view: View, as_json: bool) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        view.event(event)
        if as_json:
            click.echo(json.dumps(event))

    return listen


def _finish(report: Report, folder: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.to_json()))
        return
    for line in on_terminal(verdict_lines(report.to_json(), folder)):
        click.echo(line)


def _require_tools(mode: Mode, interpreter: Path | None) -> None:
    """Refuse at once, and not in a report, what was asked for and cannot be had here.

    Raises:
        MissingTool: bubblewrap is required and does not work, or the interpreter is none or has no torch.
    """
    from minimizer.sandbox import choose_sandbox, require_torch

    choose_sandbox(mode)
    if interpreter is not None:
        require_torch(interpreter)


def _require_set(names: list[str]) -> None:
    if missing := [name for name in names if name not in os.environ]:
        raise InvalidOption(f"--env {missing[0]}: this variable is not set here; set it or leave the option out")

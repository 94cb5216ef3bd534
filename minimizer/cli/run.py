"""``minimizer run``: the whole pipeline on this machine, without any server."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minimizer.api import default_folder
from minimizer.cli import each, keys
from minimizer.cli.drivers import Program, is_test, of_module, of_notebook, of_test
from minimizer.cli.exit_status import Exit
from minimizer.cli.gate import FailOn, Gate, conclude, gate_options
from minimizer.cli.launchers import ONE_RANK, Launch, launch_of
from minimizer.cli.options import (
    find_interpreter,
    job_options,
    options_from,
    python_option,
    release_options,
    require_place,
    sandbox_options,
)
from minimizer.cli.progress import KEPT, SKIP_KEY, SKIPS, View, open_view
from minimizer.cli.verdict import on_terminal, verdict_lines
from minimizer.errors import InvalidOption
from minimizer.notebook import is_notebook
from minimizer.releases import Releases, releases_of
from minimizer.script_text import check_script
from minimizer.settings import settings_from_environment
from minimizer.sink import Event, FolderSink, require_apart

if TYPE_CHECKING:
    from minimizer.options import Options
    from minimizer.report.model import Report
    from minimizer.sandbox import Mode

A_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("script", required=False)
@click.option("-m", "module", metavar="MODULE", help="Run a module, found from the working directory as by python -m.")
@click.option(
    "--each",
    "scripts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Reduce every script of a folder, but those that an earlier call has done, and show equal faults once.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for repro.py, report.json, report.md, issue.md and run.log.  [default: minimizer-out/<script>-<time>]",
)
@python_option
@job_options(exclude=("toolchain",))
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Trials at once.  [default: one a core]")
@sandbox_options
@release_options
@gate_options
@click.option("--json", "as_json", is_flag=True, help="Events as NDJSON on stdout; the last line is the report.")
def run(
    script: str | None,
    module: str | None,
    scripts: Path | None,
    out: Path | None,
    python: str | None,
    jobs: int | None,
    sandbox: Mode,
    bind: tuple[Path, ...],
    network: bool,
    torches: tuple[str, ...],
    bisect: bool,
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
      minimizer run train.py --torch 2.12 --torch 2.13
      minimizer run train.py --bisect
      minimizer run train.py --json | tail -1 | jq .summary
      minimizer run -m package.train -- --batch-size 4
      minimizer run -- torchrun --nproc-per-node 2 train.py --batch-size 4
      minimizer run tests/test_model.py::test_compiled
      minimizer run train.ipynb
      minimizer run --each failing/ --budget 300
      minimizer run torch_compile_debug/run_*/minifier/minifier_launcher.py

    The script's own arguments come after "--". Ctrl-C stops and keeps the best result so far.
    """
    began = time.monotonic()  # to start the engine takes a second, and several on a crowded machine
    interpreter = find_interpreter(python) if python else None
    if script is not None and (module is not None or scripts is not None):  # the first of the program's own arguments
        script, job["args"] = None, (script, *job["args"])
    launch = launch_of(script, job["args"]) if script is not None else None
    if launch is not None:
        script, module, job["args"] = launch.script, launch.module, launch.args
        interpreter = interpreter or (find_interpreter(launch.python) if launch.python else None)
        _take_ranks(launch, job)
    gate = Gate(fail_on, baseline, junit, sarif)
    if scripts is not None:
        if module is not None or gate != Gate(None, None, None, None):
            raise click.UsageError("--each goes neither with -m nor with --fail-on, --baseline, --junit and --sarif.")
        return _each(scripts, out, job["args"], as_json)
    program = click.get_current_context().with_resource(_program(script, module))
    text = program.source.read_bytes() if program.cells is None else program.cells.encode()
    check_script(text, str(program.source), python=interpreter)
    options = options_from(job)
    require_set(options.env)
    gate.check()
    folder = out or default_folder(program.name)
    require_place("--out", folder)
    require_apart("--out", program.source, folder)
    settings = settings_from_environment(sandbox=sandbox, script_env="*", **({"trial_jobs": jobs} if jobs else {}))
    require_tools(sandbox, interpreter)
    releases = _releases(torches, bisect, interpreter, options)
    view = open_view(decided=KEPT, skips=SKIPS if keys.are_heard() else "")
    try:
        with _stop_on_signal() as stopped:
            sink = RunSink(folder, _listener(view, as_json), stopped)
            if program.cells is not None:
                sink.artifact(program.script.name, program.cells.encode())  # the report names its lines
            from minimizer.engine.pipeline import minimize

            with keys.pressed(sink.key):
                report = minimize(
                    program.script.resolve(),
                    options=options,
                    settings=settings,
                    sink=sink,
                    python=interpreter,
                    binds=(*bind, *program.read),
                    network=network,
                    is_local=True,
                    began=began,
                    releases=releases,
                )
    except KeyboardInterrupt:
        view.close()
        click.echo(f"Stopped. What was found so far is in {folder}", err=True)
        return Exit.CANCELLED
    finally:
        view.close()
    _finish(report, folder, as_json)
    return conclude(gate, program.source, report.to_json(), folder)


def _releases(
    torches: tuple[str, ...], is_searched: bool, interpreter: Path | None, options: Options
) -> Releases | None:
    """The other releases of torch requested for a job; None without any.

    Raises:
        UsageError: the job leaves out the step in which the repro runs there.
        InvalidOption: there is no such release.
        MissingTool: the package index is unreachable.
    """
    if not torches and not is_searched:
        return None
    if not options.diagnosis:
        raise click.UsageError("--torch and --bisect need what comes behind the repro: leave --no-diagnosis out.")
    found = releases_of(torches, interpreter or Path(sys.executable), is_searched=is_searched, watch=lambda: None)
    click.get_current_context().call_on_close(found.close)
    return found


def _take_ranks(launch: Launch, job: dict[str, Any]) -> None:
    """Give a job the processes of a command, and a single one the environment of torchrun.

    Raises:
        UsageError: ``--nproc`` contradicts the command.
    """
    asked = job["nproc"] or 1
    if launch.nproc and asked not in (1, launch.nproc):
        raise click.UsageError(f"--nproc {asked}, but the command starts {launch.nproc}: leave --nproc out.")
    job["nproc"] = max(launch.nproc, asked)
    if launch.is_rank and job["nproc"] == 1:
        os.environ |= ONE_RANK
        job["env"] = (*(job["env"] or ()), *ONE_RANK)


def _each(folder: Path, out: Path | None, args: tuple[str, ...], as_json: bool) -> int:
    """Reduce every script of a folder with this command, called as before except for the script."""
    context = click.get_current_context()
    place = out or Path("minimizer-out") / f"each-{folder.resolve().name}"
    same = {**context.params, "scripts": None, "args": args}
    asked = {name: value for name, value in same.items() if name not in ("script", "out", "as_json", "jobs")}
    scripts = each.scripts_in(folder)
    reduce = lambda script, out: int(context.invoke(run, **{**same, "script": str(script), "out": out}))  # noqa: E731
    rows, all_done = each.work_off(scripts, place, asked, reduce)
    for line in each.table(rows):
        click.echo(line, err=as_json)
    if not all_done:
        click.echo("Stopped. The same command goes on from here.", err=True)
    return each.status_of(rows, all_done=all_done)


@contextmanager
def _program(script: str | None, module: str | None) -> Iterator[Program]:
    """The program of the command line: a module, a test, or the file of a script.

    Raises:
        UsageError: it names nothing, or a missing file.
        InvalidScript: there is no such module or test.
    """
    with ExitStack() as stack:
        if module is not None:
            yield stack.enter_context(of_module(module, Path.cwd()))
        elif script is None:
            raise click.UsageError("Missing argument 'SCRIPT', and no -m MODULE.")
        elif is_test(script):
            yield stack.enter_context(of_test(script, Path.cwd()))
        else:
            path = A_FILE.convert(script, next(one for one in run.params if one.name == "script"), None)
            if is_notebook(path.read_bytes()):
                yield stack.enter_context(of_notebook(path))
            else:
                yield Program(path, path, path.stem)


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
        """Handle a pressed key: one of them skips the current step, if that can be skipped."""
        if key.lower() == SKIP_KEY:
            self._skipped = self._skippable


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Let the first Ctrl-C (or SIGTERM) ask the pipeline to stop with its results so far, and the second one insist."""
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


def require_tools(mode: Mode, interpreter: Path | None) -> None:
    """Refuse requests that cannot be fulfilled here immediately, and not in a report.

    Raises:
        MissingTool: bubblewrap is required and does not work, or the interpreter is none or has no torch.
    """
    from minimizer.sandbox import choose_sandbox, require_torch

    choose_sandbox(mode)
    if interpreter is not None:
        require_torch(interpreter)


def require_set(names: list[str]) -> None:
    """Refuse variables of the environment that are not set.

    Raises:
        InvalidOption: one of ``--env`` is not set here.
    """
    if missing := [name for name in names if name not in os.environ]:
        raise InvalidOption(f"--env {missing[0]}: this variable is not set here; set it or leave the option out")

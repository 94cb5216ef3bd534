"""``minimizer serve``: the whole service on one machine, from one command.

The web server runs in this process and the worker in a child of it. A worker that dies (a killed process, a fault
in generated code) is started again; its job comes back to it when the lease has run out. A worker whose service dies,
even by SIGKILL, ends in order by itself.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from minimizer.settings import Settings, settings_from_environment

RESTART_PAUSE_SECONDS = 1.0
STOP_SECONDS = 90.0
"""Seconds for a worker to give its job back, since writing a repro may take a minute."""


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.  [default: MINIMIZER_PORT, else 8000]")
@click.option(
    "--host",
    help="Address to listen on; beyond loopback only with MINIMIZER_ACCESS=on.  [default: MINIMIZER_HOST, else 127.0.0.1]",
)
@click.option("--data-dir", metavar="DIR", help="Folder of the database and the queue.  [default: minimizer-data]")
def serve(port: int | None, host: str | None, data_dir: str | None) -> int:
    """Start the web page, the REST interface and one worker, and stay until Ctrl-C.

    \b
    Examples:
      minimizer serve
      minimizer serve --port 8080 --data-dir ~/minimizer

    Nothing else has to run: the database is SQLite and the queue is a folder, both in the data folder. All other
    settings are environment variables (docs/settings.md). The service runs the scripts it is sent, so it listens on
    loopback only, unless access control is on (MINIMIZER_ACCESS=on, docs/deploy.md).
    """
    values: dict[str, Any] = {"port": port, "host": host, "data_dir": data_dir}
    settings = settings_from_environment(**{name: value for name, value in values.items() if value is not None})
    from minimizer.sandbox import refuse_exposed
    from web.server.serve import serve as serve_web

    refuse_exposed(settings, (Path(sys.executable), *settings.interpreters.values()))
    _migrate(settings)
    with _terminate_as_interrupt(), WorkerKeeper(settings) as worker:

        def ready(url: str) -> None:
            # Only now: a second service on a port in use must not leave a worker behind.
            worker.start()
            click.echo(f"minimizer is ready: open {url}", err=True)
            if warning := who_may_run_code(settings, url):
                click.echo(warning, err=True)
            click.echo(f"Data is in {settings.data_dir.resolve()}. Ctrl-C stops the service.", err=True)

        try:
            serve_web(settings, ready)
        except KeyboardInterrupt:
            pass
        click.echo("Stopping: the worker gives its job back. Ctrl-C again does not wait for that.", err=True)
    return 0


def who_may_run_code(settings: Settings, url: str) -> str:
    """The warning if no sandbox contains scripts; empty if one does, or if nothing runs without it."""
    from minimizer.sandbox import HOW_TO_GET_BUBBLEWRAP, why_no_bubblewrap

    if settings.sandbox == "required" or settings.access == "on":
        return ""
    if settings.sandbox == "off":
        why, remedy = "MINIMIZER_SANDBOX is off", "Unset it."
    elif trouble := why_no_bubblewrap():
        why, remedy = trouble, HOW_TO_GET_BUBBLEWRAP
    else:
        return ""
    return (
        f"Warning: no sandbox holds scripts, since {why}. Every user and every program of this machine that reaches {url} can run code "
        f"as {_own_name()}, and read and change all that {_own_name()} can. {remedy}"
    )


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container that runs under any number
        return f"user {os.getuid()}"


class WorkerKeeper:
    """Keeps one worker process alive, from `start` to the end of the block."""

    def __init__(self, settings: Settings) -> None:
        self._environment = {**os.environ, **_as_environment(settings)}
        # The web server raises its own; a script must find the same limit here as under `minimizer run`.
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # between the last check of `_stopping` and a new worker, no stop may happen
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="worker-keeper", daemon=True)
        # Nobody else has the writing end, and nothing is ever written: it ends with us, however that is, and a worker
        # reads that. A signal at the death of a parent would come at the end of the thread that started the worker.
        self._lifeline, self._held = os.pipe()

    def __enter__(self) -> WorkerKeeper:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping.set()
        if self._process is not None:
            self._stop(self._process)
            self._thread.join()
        os.close(self._lifeline)
        os.close(self._held)

    def start(self) -> None:
        self._process = self._spawn()
        self._thread.start()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C in the terminal is for us, and we stop the worker in order. With -P, a worker.py in
        # the current folder is not mistaken for ours.
        command = [sys.executable, "-P", "-m", "worker", str(self._lifeline)]
        process = subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[self._lifeline],
            start_new_session=True,
        )
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, self._files)
        return process

    def _keep(self) -> None:
        while self._process is not None:
            status = self._process.wait()
            if self._stopping.is_set():
                return
            click.echo(f"The worker ended ({_how(status)}) and is started again.", err=True)
            if self._stopping.wait(RESTART_PAUSE_SECONDS):
                return
            with self._lock:
                if self._stopping.is_set():
                    return
                self._process = self._spawn()

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _migrate(settings: Settings) -> None:
    from minimizer.store.tables.migrate import upgrade

    settings.make_data_dir()
    upgrade(settings.resolved_database_url)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Stop on SIGTERM as on Ctrl-C, so that `kill` leaves no worker behind."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _as_environment(settings: Settings) -> dict[str, str]:
    """The settings that differ from their defaults, as the worker reads them."""
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude={"trial_jobs"})
    changed["data_dir"] = str(settings.data_dir.resolve())
    return {f"MINIMIZER_{name.upper()}": str(value) for name, value in changed.items() if value is not None}


def _how(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

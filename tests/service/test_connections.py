"""Hundreds of connections that ask for nothing to the end, held against both web servers as they are documented."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import servers
from held import Held

HELD = 500
ASKED = 40
OPEN_FILES = 1024
"""As Linux has it for processes that do not ask for more."""
OTHER_FILES = 600
"""Open from the start, so that the connections get numbers that select() does not take."""
START_SECONDS = 60


class Web:
    """A running web server, with its log in a file."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str], port: int, workers: int) -> None:
        self.port = port
        self.workers = workers
        self._log = folder / "web.log"
        limited = ["sh", "-c", f'ulimit -S -n {OPEN_FILES} && exec "$@"', "sh", *command]
        here = {name: value for name, value in os.environ.items() if not name.startswith("MINIMIZER_")}
        with ExitStack() as opened:
            null = opened.enter_context(Path(os.devnull).open())
            others = [os.dup(null.fileno()) for _ in range(OTHER_FILES)]
            for other in others:
                opened.callback(os.close, other)
            log = opened.enter_context(self._log.open("wb"))
            self.process = subprocess.Popen(
                limited, cwd=folder, env=here | environment, stdout=log, stderr=log, pass_fds=others
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)) as connection:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log
            try:
                if what():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"it did not happen; the log:\n{self.log}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(2 * START_SECONDS)


@pytest.fixture(params=["serve", "gunicorn"])
def web(request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str) -> Iterator[Web]:
    port = servers.free_port()
    environment = {"MINIMIZER_DATABASE_URL": sqlite_url, "MINIMIZER_DATA_DIR": str(tmp_path / "data")}
    if request.param == "serve":
        command = [sys.executable, "-m", "minimizer", "serve", "--port", str(port)]
    else:
        options = ["--config=python:web.gunicorn", f"--bind=127.0.0.1:{port}", "web.wsgi:app"]
        command = [str(Path(sys.executable).with_name("gunicorn")), *options]
    running = Web(tmp_path, command, environment, port, workers=int(request.param == "serve"))
    try:
        running.until(lambda: running.ask("GET", "/readyz")[0] == 200)
        yield running
    finally:
        running.stop()


def test_pages_are_answered_while_connections_are_held(web: Web) -> None:
    with Held("127.0.0.1", web.port, HELD) as held:
        assert held.open() == HELD
        for _ in range(ASKED):
            held.trickle()
            answers = [web.ask("GET", page)[0] for page in ("/", "/jobs", "/workers", "/api/v1/jobs", "/metrics")]
            answers.append(web.ask("POST", "/api/v1/jobs", {"script": "def", "filename": "a.py"})[0])
            assert answers == [200] * 5 + [422]
    assert "Traceback" not in web.log


def test_more_files_are_open_to_the_server_and_not_to_scripts(web: Web) -> None:
    """A script that opens too many files fails under `minimizer run`; it must not pass here."""
    served = web.process.pid
    children = [int(pid) for pid in Path(f"/proc/{served}/task/{served}/children").read_text().split()]
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] for pid in (served, *children)}
    assert max(limits.values()) >= 3 * 1000
    workers = [pid for pid in children if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert [limits[pid] for pid in workers] == [OPEN_FILES] * web.workers

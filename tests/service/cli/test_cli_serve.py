"""`minimizer serve` as a user starts it: one command, a web server and a worker, and nothing left afterwards."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minimizer.cli.serve import STOP_SECONDS
from minimizer.store import Store

START_SECONDS = 60


class Service:
    """A running ``minimizer serve``, with its standard error in a file."""

    def __init__(self, folder: Path, port: int, **variables: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.database = f"sqlite:///{folder}/data/minimizer.db"
        self._log = folder / "serve.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIMIZER_")}
        environment |= variables
        command = [sys.executable, "-m", "minimizer", "serve", "--port", str(port), "--data-dir", str(folder / "data")]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait for something to become true, for as long as the service lives."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                if found := what():
                    return found
            except OSError:
                pass
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        raise AssertionError(f"it did not happen; the log:\n{self.log}")

    def workers(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/api/v1/workers", timeout=10) as answer:
            return [worker["name"] for worker in json.load(answer)["workers"]]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS + START_SECONDS)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def service(tmp_path: Path, port: int) -> Iterator[Service]:
    running = Service(tmp_path, port)
    yield running
    running.stop()


def process_of(worker: str) -> int:
    """Workers are named host-pid."""
    return int(worker.rpartition("-")[2])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_starts_web_and_worker_and_stops_both(service: Service) -> None:
    (worker,) = service.until(service.workers)
    assert f"open {service.url}" in service.log
    assert service.stop() == 0
    assert "--uid" not in service.log, "an option of Celery's command line, which serve does not have"
    assert ("runs as root" in service.log) == (os.geteuid() == 0)
    assert not is_alive(process_of(worker))
    assert "Traceback" not in service.log


def test_a_worker_that_dies_is_started_again(service: Service) -> None:
    (first,) = service.until(service.workers)
    os.kill(process_of(first), signal.SIGKILL)
    service.until(lambda: [name for name in service.workers() if name != first])
    assert "The worker ended (signal SIGKILL) and is started again." in service.log


def test_a_worker_ends_in_order_when_the_service_is_killed(service: Service) -> None:
    (first,) = service.until(service.workers)
    os.kill(process_of(first), signal.SIGKILL)  # the next one is started by another thread of the service
    (second,) = service.until(lambda: [name for name in service.workers() if name != first])
    worker = os.pidfd_open(process_of(second))
    service.process.kill()
    ended, _, _ = select.select([worker], [], [], START_SECONDS)
    os.close(worker)
    if not ended:
        os.kill(process_of(second), signal.SIGKILL)
    assert ended, service.log
    store = Store.open(service.database)
    assert second not in [one.name for one in store.workers.all()], "it has signed off"
    store.close()


def test_it_believes_the_proxy_that_it_is_told_to_trust(tmp_path: Path, port: int) -> None:
    """Where the browser speaks https to the proxy, its cookie is for https only."""
    service = Service(tmp_path, port, MINIMIZER_ACCESS="on", MINIMIZER_TRUSTED_PROXIES="1")
    try:
        token = service.until(lambda: re.search(r"mnz_[\w-]+", service.log))[0]
        form = urllib.parse.urlencode({"secret": token, "next": "/"}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": "https"}
        service.until(lambda: service.log.count("minimizer is ready"))
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)) as connection:
            connection.request("POST", "/login", form, {**headers, "X-Forwarded-For": "192.0.2.1"})
            answer = connection.getresponse()
            assert answer.status == 303, answer.read()
            assert "Secure" in answer.headers["Set-Cookie"]
    finally:
        service.stop()


def test_a_port_that_is_taken_is_said_so_and_leaves_no_worker(service: Service, tmp_path: Path, port: int) -> None:
    (worker,) = service.until(service.workers)
    second = tmp_path / "second"
    second.mkdir()
    other = Service(second, port)
    assert other.process.wait(START_SECONDS) == 2
    assert f"127.0.0.1:{port}" in other.log and "Traceback" not in other.log
    assert service.workers() == [worker]


def test_refuses_to_listen_where_strangers_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "minimizer", "serve", "--host", "0.0.0.0", "--data-dir", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert ran.returncode == 2
    assert "refusing to listen on 0.0.0.0" in ran.stderr

"""The services of docker-compose.yml, as plain processes: the same commands and environments, on this machine's servers.

No container engine is needed. Host names of the compose network are replaced by those of the test's PostgreSQL and
Redis, and the port by a free one; all else is taken from the file as it is.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import ROOT
from sqlalchemy import create_engine, make_url, text

from minimizer.settings import Settings

START_SECONDS = 60
JOB_SECONDS = 240
# A script that compiles nothing is answered by every engine in seconds.
SCRIPT = "import torch\nprint(torch.ones(2))\n"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """An empty database of our own: the migration service has to make the tables."""
    name = f"minimizer_compose_{secrets.token_hex(6)}"
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def interpolated(environment: dict[str, str], shell: dict[str, str]) -> dict[str, str]:
    """What the services see, if these variables are set where `docker compose` is called."""

    def value(match: re.Match[str]) -> str:
        return shell.get(match[1]) or match[2]

    return {name: re.sub(r"\$\{(\w+):-([^}]*)\}", value, text) for name, text in environment.items()}


class Stack:
    """Starts services of the file by name, each in a folder without our code in it."""

    def __init__(self, compose: dict[str, Any], folder: Path, database: str, broker: str, port: int) -> None:
        self._services = compose["services"]
        self._folder = folder
        self._hosts = {"MINIMIZER_DATABASE_URL": database, "MINIMIZER_BROKER_URL": broker}
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self.logs: list[Path] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def command(self, name: str) -> list[str]:
        words = [word.replace("0.0.0.0:8000", f"127.0.0.1:{self._port}") for word in self._services[name]["command"]]
        if words[0] == "python":
            return [sys.executable, *words[1:]]
        return [str(Path(sys.executable).with_name(words[0])), *words[1:]]

    def environment(self, name: str) -> dict[str, str]:
        here = {key: value for key, value in os.environ.items() if not key.startswith("MINIMIZER_")}
        theirs: dict[str, str] = self._services[name]["environment"]
        assert set(self._hosts) <= set(theirs)
        return {**here, **interpolated(theirs, {}), **self._hosts}

    def start(self, name: str) -> subprocess.Popen[bytes]:
        place = self._folder / name
        place.mkdir()
        self.logs.append(place / "log")
        with self.logs[-1].open("wb") as log:
            process = subprocess.Popen(
                self.command(name), cwd=place, env=self.environment(name), stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    def until(self, what: Callable[[], Any], seconds: float = START_SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not any(process.poll() for process in self._processes):
            try:
                if found := what():
                    return found
            except OSError:
                pass
            time.sleep(0.1)
        logs = "\n".join(f"== {log.parent.name}\n{log.read_text()[-2000:]}" for log in self.logs)
        raise AssertionError(f"it did not happen, or a service ended; {logs}")

    def get(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture
def stack(compose: dict[str, Any], tmp_path: Path, database: str, redis_url: str) -> Stack:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Stack(compose, tmp_path, database, redis_url, port)


@contextmanager
def serving(stack: Stack, worker: str) -> Iterator[None]:
    """Migrate once, then web and a worker, which the web server knows."""
    assert stack.start("migrate").wait(START_SECONDS) == 0
    with ExitStack() as running:
        for name in ("web", worker):
            process = running.enter_context(stack.start(name))
            running.callback(process.terminate)
        stack.until(lambda: stack.get("/readyz"))
        stack.until(lambda: stack.get("/api/v1/workers")["workers"])
        yield


def test_the_services_come_up_and_find_each_other(stack: Stack) -> None:
    with serving(stack, "worker"):
        (worker,) = stack.get("/api/v1/workers")["workers"]
    assert worker["device"] == "cpu"


@pytest.mark.quality("slow")
@pytest.mark.parametrize("worker", ["worker", "worker-gpu"])
def test_the_services_run_a_job(stack: Stack, worker: str) -> None:
    """A job handed in over REST comes to its end."""
    with serving(stack, worker):
        job = stack.get("/api/v1/jobs", {"script": SCRIPT, "filename": "plain.py", "options": {"witness": False}})
        ended = stack.until(lambda: finished(stack.get(f"/api/v1/jobs/{job['id']}?wait=10")), JOB_SECONDS)
    assert (ended["status"], ended["reason"]) == ("failed", "nothing_compiled"), ended["summary"]
    assert ended["worker"] is not None


def finished(job: dict[str, Any]) -> dict[str, Any] | None:
    return job if job["final"] else None


def test_the_web_server_sends_those_who_wait_home(stack: Stack) -> None:
    """Stopped while a stream is open, it ends the stream in order: an answer that is cut off raises IncompleteRead."""
    assert stack.start("migrate").wait(START_SECONDS) == 0
    with stack.start("web") as web:
        stack.until(lambda: stack.get("/readyz"))
        job = stack.get("/api/v1/jobs", {"script": SCRIPT, "filename": "plain.py"})
        stream = f"{stack.url}/api/v1/jobs/{job['id']}/events"
        with urllib.request.urlopen(stream, timeout=START_SECONDS) as events:
            assert events.readline().startswith(b"retry:")
            web.terminate()
            assert b"event: end" not in events.read()
        assert web.wait(START_SECONDS) == 0


def test_the_web_server_does_not_start_on_a_database_of_another_version(stack: Stack) -> None:
    assert stack.start("web").wait(JOB_SECONDS) != 0
    (log,) = stack.logs
    assert "the database has no tables yet: run `minimizer db upgrade`" in log.read_text()


def test_the_port_is_published_on_loopback_only(compose: dict[str, Any]) -> None:
    """The service has no users: whoever reaches its port runs code."""
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:8000:8000"]}
    assert compose["services"]["web"]["environment"]["MINIMIZER_PUBLISHED_ON_LOOPBACK"] == "1"


@pytest.mark.parametrize("name", ["migrate", "web", "worker", "worker-gpu"])
def test_access_control_is_switched_on_from_the_shell(compose: dict[str, Any], name: str) -> None:
    def settings(**shell: str) -> Settings:
        seen = interpolated(compose["services"][name]["environment"], shell)
        return Settings(**{key.removeprefix("MINIMIZER_").lower(): value for key, value in seen.items()})  # type: ignore[arg-type]

    alone = settings()
    assert (alone.access, alone.trusted_proxies) == ("off", 0)
    shared = settings(MINIMIZER_ACCESS="on", MINIMIZER_ALLOWED_HOSTS="minimizer.example", MINIMIZER_TRUSTED_PROXIES="1")
    assert (shared.access, shared.trusted_proxies) == ("on", 1)
    assert {"minimizer.example", "127.0.0.1"} <= set(shared.allowed_hosts.split(",")), "the health check asks, too"


@pytest.mark.parametrize("worker", ["worker", "worker-gpu"])
def test_workers_refuse_to_run_without_the_sandbox(compose: dict[str, Any], worker: str) -> None:
    service = compose["services"][worker]
    assert service["environment"]["MINIMIZER_SANDBOX"] == "required"
    assert service["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_the_gpu_worker_is_started_on_demand_only(compose: dict[str, Any]) -> None:
    service = compose["services"]["worker-gpu"]
    assert service["profiles"] == ["gpu"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert len(device["device_ids"]) == 1, "one job at a time on it"


def test_gpu_workers_of_a_host_share_the_locks_of_its_gpus(compose: dict[str, Any]) -> None:
    (volume,) = compose["services"]["worker-gpu"]["volumes"]
    name, _, folder = volume.partition(":")
    assert name in compose["volumes"]
    assert folder == str(Settings.model_fields["gpu_locks"].default)
    assert f"mkdir --mode=1777 {folder}" in (ROOT / "Dockerfile").read_text()


def test_the_image_holds_what_the_commands_need() -> None:
    """Everything the Dockerfile copies is there, and is let through by .dockerignore."""
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"minimizer", "worker", "web", "migrations", "pyproject.toml", "constraints.txt"} <= set(names)
    for name in names:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore

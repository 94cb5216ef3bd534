"""The service that is hurt: its processes under a supervisor, its servers, and all that was planted in it to be searched for."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import earlier
import redis
import servers
from processes import below, bury
from sqlalchemy import make_url
from stage import WEB, Stage, stage

from minimizer.store import Job, Store

LEASE_SECONDS = 10.0
ATTEMPTS = 20
"""More than a round has kills: what is asked is whether the job survives them, not when it is given up."""
DISK_BYTES = 2 << 30
"""Of the disk that may be filled: a job must leave one GiB."""
PATIENCE_SECONDS = 600.0
WEBHOOK = "http://127.0.0.1:9/ended"
"""Nobody listens: the messages stay in the database, where they are counted."""


class Installation:
    """A running service and the folders, servers and connections that are its own."""

    def __init__(
        self,
        on: Stage,
        setup: str,
        folder: Path,
        *,
        broker: Redis | None,
        planted: dict[str, str],
        code: Path | None,
        clock: Path | None,
    ) -> None:
        self.on, self.setup, self.folder, self.broker, self.planted = on, setup, folder, broker, planted
        self.earlier = code
        """The code of the version that runs until an upgrade."""
        self.clock = clock
        """Says how far the clock of all processes is off, where it can be set."""
        self.store = Store.open(on.settings.resolved_database_url)
        hook, self.planted["secret of a webhook"] = self.store.webhooks.create("default", WEBHOOK)
        self.webhook = hook.id
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        self.before = {process.pid for process in below(os.getpid())}
        """What came of us before, such as servers."""
        self.paused = threading.Event()
        """While it is set nobody is started again."""
        serve = [sys.executable, "-m", "minimizer", "serve"]
        worker = [sys.executable, "-m", "worker"]
        self._commands = (
            {"serve": serve}
            if setup == "embedded"
            else {"web": [sys.executable, "-c", WEB], "worker 1": worker, "worker 2": worker}
        )
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def start(self) -> None:
        for role in self._commands:
            self._start(role)
        self._supervisor.start()
        until("the service to be ready", self.is_ready)

    def stop(self) -> None:
        """End all processes in order."""
        self._ending.set()
        self._supervisor.join()
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            process.wait(PATIENCE_SECONDS)

    def restart(self) -> None:
        """End all processes in order, and start them again."""
        self.paused.set()
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            process.wait(PATIENCE_SECONDS)
        self.paused.clear()

    def upgrade(self) -> None:
        """End all processes of the earlier version in order, and start those of this one."""
        self.earlier = None
        self.restart()

    def set_clock(self, offset: float) -> None:
        """Set the clock of all processes, those that run and those to come.

        Args:
            offset: from the true time, in seconds.
        """
        assert self.clock is not None
        new = self.clock.with_suffix(".new")
        new.write_text(f"{offset:.0f}")
        new.replace(self.clock)  # never read half written

    def submit(self, script: str) -> Job:
        options = {"witness": False, "diagnosis": False, "budget": 3600}
        body = json.dumps({"script": script, "filename": "failing.py", "options": options}).encode()
        request = urllib.request.Request(f"{self.on.address}/api/v1/jobs", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return self.store.jobs.get(json.load(answer)["id"])

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.on.address}/readyz", timeout=10):
                return True
        except (OSError, urllib.error.HTTPError):
            return False

    @property
    def web(self) -> int | None:
        """The process that answers requests, while it lives."""
        process = self._running["serve" if self.setup == "embedded" else "web"]
        return process.pid if process.poll() is None else None

    @property
    def workers(self) -> list[int]:
        """Those that live."""
        if self.setup == "servers":
            roles = [process for role, process in self._running.items() if role.startswith("worker")]
            return [process.pid for process in roles if process.poll() is None]
        return [process.pid for process in below(self.web) if b"\0worker\0" in process.command] if self.web else []

    def worker_of(self, job: Job) -> int | None:
        """The worker that has the job, if it lives."""
        pid = int(job.worker.rpartition("-")[2]) if job.worker else None
        return pid if pid in self.workers else None

    @property
    def known(self) -> set[int]:
        """Processes that we have started and wait for."""
        of_broker = {self.broker.pid} if self.broker else set()
        return {process.pid for process in self._running.values()} | of_broker

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def _start(self, role: str) -> None:
        variables = {"TMPDIR": str(self.scratch), "UNRELATED_TOKEN": self.planted["variable of the environment"]}
        if self.clock:
            variables |= {"LD_PRELOAD": str(self.clock.with_suffix(".so")), "CHAOS_CLOCK": str(self.clock)}
        log = self.folder / f"{role.split()[0]}.log"
        self._running[role] = self.on.start(*self._commands[role], log=log, cwd=self.earlier, **variables)

    def _supervise(self) -> None:
        """Start what has ended again, a second later, as systemd does."""
        while not self._ending.wait(0.5):
            bury(self.known)
            for role, process in list(self._running.items()):
                if process.poll() is None:
                    continue
                self._ending.wait(1.0)
                if not self.paused.is_set() and not self._ending.is_set():
                    self._start(role)


class Redis:
    """A Redis of our own, with a password, that may be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = servers.free_port()
        self.password = secrets.token_hex(12)
        self.url = f"redis://:{self.password}@127.0.0.1:{self._port}/0"
        self.client = redis.Redis.from_url(self.url, client_name="chaos")
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        command = ["redis-server", "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--requirepass"]
        self._process = subprocess.Popen(
            [*command, self.password], cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until("Redis", self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def connections(self) -> list[str]:
        """Of others, by name and address."""
        return [f"{one['name']} {one['addr']}" for one in self.client.client_list() if one["name"] != "chaos"]

    def close(self) -> None:
        self.client.close()
        self.kill()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def installed(setup: str, troubles: Collection[str]) -> Iterator[Installation]:
    """A service on an empty database, running; ended by force if nobody has stopped it.

    Args:
        troubles: the kinds of trouble it must be ready for.
    """
    planted = {"variable of the environment": secrets.token_hex(12)}
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        database, broker = "sqlite", None
        if setup == "embedded":
            _own_disk(folder, exits)
        else:
            broker = Redis(folder)
            exits.callback(broker.close)
            server = make_url(exits.enter_context(servers.postgres()))
            planted["password of the broker"] = broker.password
            planted["password of the database"] = server.password or secrets.token_hex(12)
            database = server.set(password=planted["password of the database"]).render_as_string(hide_password=False)
        on = exits.enter_context(
            stage(
                database,
                broker.url if broker else None,
                folder,
                lease_seconds=LEASE_SECONDS,
                heartbeat_seconds=1,
                reap_seconds=1,
                max_attempts=ATTEMPTS,
                trial_jobs=2,
            )
        )
        installation = Installation(
            on,
            setup,
            folder,
            broker=broker,
            planted=planted,
            code=earlier.unpack() if "upgrade" in troubles else None,
            clock=_clock(folder) if any(kind.startswith("clock") for kind in troubles) else None,
        )
        exits.callback(installation.store.close)
        installation.start()
        yield installation


def _clock(folder: Path) -> Path:
    """Build the library that gives processes another clock, and the file that says by how much it is off.

    Raises:
        CalledProcessError: it does not compile.
    """
    library = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("clock.c"), "-ldl"], check=True)
    clock = folder / "clock"
    clock.write_text("0")
    return clock


def _own_disk(folder: Path, exits: ExitStack) -> None:
    """A small disk for a folder, where we may mount one; `can_fill` says whether there is."""
    if os.geteuid() != 0:
        return
    size = f"size={DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "chaos", str(folder)], check=True)
    exits.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)


def can_fill(folder: Path) -> bool:
    """Whether the disk of a folder is a small one of our own."""
    return folder.is_mount() and shutil.disk_usage(folder).total <= DISK_BYTES


def until(what: str, holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something that other processes do.

    Raises:
        TimeoutError: in vain.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting for {what}")
        time.sleep(0.05)

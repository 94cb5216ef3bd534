"""A service of its own for a benchmark: an empty database where the user wants it, and processes that end with the block."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from minimizer.settings import Settings
from minimizer.store.tables.migrate import upgrade

WEB = "from minimizer.settings import Settings; from web.server.serve import serve; serve(Settings())"
START_SECONDS = 300.0


class Stage:
    """The settings of the service, and what starts its processes."""

    def __init__(self, settings: Settings, exits: ExitStack) -> None:
        self.settings = settings
        self._exits = exits

    @property
    def address(self) -> str:
        """Of the web server."""
        return f"http://{self.settings.host}:{self.settings.port}"

    def start(
        self, *command: str, log: Path | None = None, cwd: Path | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        """A process with these settings, stopped at the end.

        Args:
            command: what to run.
            log: takes what it prints, behind what is there already; by default nothing does.
            cwd: its working directory, whose packages come before those that are installed; by default ours.
            variables: more of its environment.
        """
        values = self.settings.model_dump(mode="json", exclude_none=True)
        environment = {f"MINIMIZER_{name.upper()}": str(value) for name, value in values.items()}
        with (log or Path(os.devnull)).open("ab") as output:
            process = subprocess.Popen(
                command, cwd=cwd, env=os.environ | environment | variables, stdout=output, stderr=output
            )
        self._exits.callback(_stop, process)
        return process

    def start_web(self, *command: str, log: Path | None = None, **variables: str) -> subprocess.Popen[bytes]:
        """The web server, by default the embedded one, once its port is open; as `start`."""
        web = self.start(*(command or (sys.executable, "-c", WEB)), log=log, cwd=None, **variables)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((self.settings.host, self.settings.port)) == 0:
                    return web
            time.sleep(0.1)
        raise SystemExit("the web server did not start")


@contextmanager
def stage(database: str, broker: str | None = None, folder: Path | None = None, **settings: object) -> Iterator[Stage]:
    """A service on a new, empty database.

    Args:
        database: ``sqlite``, or the URL of a PostgreSQL server on which a database may be made, and is dropped again.
        broker: the URL of a Redis database that may be emptied; by default a folder.
        folder: an empty one for all its files; by default one that goes with the block.
        settings: more of the service's settings.
    """
    with ExitStack() as exits:
        folder = folder or Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="minimizer-bench-")))
        url = (
            f"sqlite:///{folder / 'minimizer.db'}" if database == "sqlite" else exits.enter_context(_database(database))
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        values = {"data_dir": folder, "database_url": url, "broker_url": broker, "port": port, **settings}
        found = Settings(**values)  # type: ignore[arg-type]
        upgrade(url)
        yield Stage(found, exits)


@contextmanager
def _database(server: str) -> Iterator[str]:
    name = f"minimizer_bench_{secrets.token_hex(4)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield make_url(server).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it in order, or by force after twenty seconds. Harmless when it has ended."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

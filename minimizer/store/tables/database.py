"""The database connection: opens SQLite and PostgreSQL, and defines read and write transactions on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from minimizer.errors import InvalidOption

_BUSY_SECONDS = 30
"""Longest wait for SQLite's write lock."""
_PATIENCE = {"connect_timeout": 10, "keepalives_idle": 15, "keepalives_interval": 5, "tcp_user_timeout": 30_000}
"""libpq's timeouts (seconds; the last in milliseconds), so that a silent PostgreSQL raises an error and does not block a thread."""


class Database:
    """An engine with two kinds of transaction: `read`, on a snapshot, and `write`, with locks."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)
        self._writer = self.engine.execution_options(begin="BEGIN IMMEDIATE")
        # In SQLite a transaction is a snapshot by default.
        is_postgres = self.engine.dialect.name == "postgresql"
        self._reader = self.engine.execution_options(isolation_level="REPEATABLE READ") if is_postgres else self.engine

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction on one consistent snapshot, whatever others write meanwhile."""
        with Session(self._reader) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction that is committed at the end of the block, or rolled back if the block raises."""
        with Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def now(self, session: Session) -> datetime:
        """The time by the database's clock, since leases are set and checked on machines whose clocks differ."""
        if self.engine.dialect.name == "sqlite":
            return datetime.now(UTC)  # SQLite: all processes share this machine's clock
        moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def close(self) -> None:
        self.engine.dispose()


def open_engine(url: str, *, foreign_keys: bool = True) -> Engine:
    """An engine for SQLite or PostgreSQL; ``postgresql://`` means psycopg 3.

    Errors hide statement parameters, since they end up in logs and reports, and scripts and webhook secrets are among them.

    Raises:
        InvalidOption: the URL is for neither, or for a file in a folder that cannot be made.
    """
    parsed = parse_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        patience = {name: value for name, value in _PATIENCE.items() if name not in parsed.query}
        return create_engine(parsed, pool_pre_ping=True, connect_args=patience, hide_parameters=True)
    if parsed.database:
        _make_folder(Path(parsed.database).parent)
    engine = create_engine(parsed, connect_args={"timeout": _BUSY_SECONDS}, hide_parameters=True)
    event.listen(engine, "connect", lambda connection, _record: _configure_sqlite(connection, foreign_keys))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def parse_url(url: str) -> URL:
    """Parse a database URL.

    Raises:
        InvalidOption: it is not a URL, or for an unsupported database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        parsed = None
    # An @ in the host means an unescaped password, part of which would be shown in "host not found" errors.
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql") or "@" in (parsed.host or ""):
        raise InvalidOption(  # without the URL itself, which may contain a password
            "MINIMIZER_DATABASE_URL is not the URL of a supported database. Expected is sqlite:////folder/file.db or "
            "postgresql+psycopg://user:password@host/name (@ in a password is written as %40)"
        )
    return parsed


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOption(
            f"{folder} cannot hold the database ({error.strerror}): set MINIMIZER_DATA_DIR or MINIMIZER_DATABASE_URL"
        ) from None


def _configure_sqlite(connection: Any, foreign_keys: bool) -> None:
    # We issue BEGIN ourselves (below); the driver's implicit transactions do not include reads and DDL.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once. A transaction that reads first and writes later fails if another process has
    # written in between, and no timeout helps against that.
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

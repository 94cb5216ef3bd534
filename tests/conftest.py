"""Databases and brokers for all tests, and which of the real reductions a commit runs."""

from __future__ import annotations

import gc
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
import servers
import shares
from fake_smi import FakeSmi
from sqlalchemy import create_engine, make_url, text

from minimizer.store import Store
from minimizer.store.tables.migrate import upgrade
from minimizer.store.tables.models import Base

hypothesis.settings.register_profile("busy machine", deadline=None)  # a test asserts no timing
hypothesis.settings.load_profile("busy machine")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays: looking for garbage in it took a third of the time, in each of the test processes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of what is selected, leave out the real reductions and the examples that other commits run (`shares`); the longest come first."""
    commit = shares.commit()
    share_of = _marked(items, "quality")
    place = {name: number for number, name in enumerate(shares.drawn(share_of, commit))}
    counts = {name: count for name, count in _marked(items, "examples").items() if name not in share_of}
    of_others = (share_of.keys() - place.keys()) | (counts.keys() - shares.drawn_examples(counts, commit))
    left_out = [item for item in items if item.nodeid in of_others]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid not in of_others]
    items.sort(key=lambda item: place.get(item.nodeid, -1))


def _marked(items: list[pytest.Item], mark: str) -> dict[str, Any]:
    """The argument of this mark for each test that has it, by the test's name."""
    marks = {item.nodeid: item.get_closest_marker(mark) for item in items}
    return {name: one.args[0] for name, one in marks.items() if one is not None}


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    """A stand-in for nvidia-smi, in front of the PATH; it has no card yet."""
    fake = FakeSmi(tmp_path / "smi", monkeypatch)
    fake.has()
    return fake


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with servers.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def _postgres_database(postgres_server: str) -> Iterator[str]:
    """One migrated database for the session: making one takes longer than most tests."""
    with _new_database(postgres_server) as url:
        upgrade(url)
        yield url


EMPTY = "; ".join(
    [
        # Not by TRUNCATE, which makes new files for each table and its indexes: that takes a third of a second.
        *(f"DELETE FROM {table.name}" for table in reversed(Base.metadata.sorted_tables) if table.name != "projects"),
        "DELETE FROM projects WHERE name != 'default'",
        "UPDATE projects SET keep_days = NULL, keep_bytes = NULL, served_at = NULL",
        "SELECT setval(sequencename::regclass, 1, false) FROM pg_sequences "
        "WHERE schemaname = 'public' AND sequencename != 'projects_number_seq'",
    ]
)
"""The tables that refer to others come first."""


@pytest.fixture
def postgres_url(_postgres_database: str) -> str:
    """A migrated PostgreSQL database without a row in it."""
    engine = create_engine(_postgres_database)
    with engine.begin() as connection:
        connection.exec_driver_sql(EMPTY)
    engine.dispose()
    return _postgres_database


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Migrated once: a copy of a file takes less time than most tests, and a migration more."""
    file = tmp_path_factory.mktemp("sqlite") / "minimizer.db"
    upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database without a table in it."""
    with _new_database(postgres_server) as url:
        yield url


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database without a row in it."""
    return f"sqlite:///{shutil.copy(_sqlite_template, tmp_path / 'minimizer.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Every database we support, migrated and without a row in it."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Every database we support, without a table in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with _new_database(request.getfixturevalue("postgres_server")) as url:
            yield url


@pytest.fixture
def open_store(database_url: str) -> Iterator[Callable[..., Store]]:
    """Opens the test's database; each store has connections of its own, as in another process."""
    opened: list[Store] = []

    def open_(**options: int) -> Store:
        opened.append(Store.open(database_url, **options))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def redis_url(_redis_server: str) -> str:
    """An empty Redis database."""
    with redis.Redis.from_url(_redis_server) as client:
        client.flushdb()
    return _redis_server


@pytest.fixture(scope="session")
def _redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@contextmanager
def _new_database(server: str) -> Iterator[str]:
    name = f"minimizer_test_{secrets.token_hex(6)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        # No test is about what a machine keeps that loses its power, and the disk is what all of them would wait for.
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()

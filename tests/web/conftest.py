"""A web application on every database we support, and jobs in the states that tests need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, Hands, client_of

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Job, Store


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path, database_url=database_url, max_script_bytes=4096, event_streams=2, max_queued_jobs=20
    )


@pytest.fixture
def store(open_store: Callable[..., Store], settings: Settings) -> Store:
    return open_store(max_queued_jobs=settings.max_queued_jobs)


@pytest.fixture
def rung() -> list[str]:
    """The jobs the doorbell was rung for."""
    return []


@pytest.fixture
def client(settings: Settings, store: Store, rung: list[str]) -> Iterator[FlaskClient]:
    with client_of(settings, store, lambda job: rung.append(job.id)) as client:
        yield client


@pytest.fixture
def queued(store: Store) -> Job:
    return store.submissions.submit(SCRIPT, "model.py", Options())[0]


@pytest.fixture
def hands(store: Store, queued: Job) -> Hands:
    """A worker that has just claimed the queued job."""
    return Hands(store, queued)


@pytest.fixture
def minimized(hands: Hands) -> Job:
    """A job that ended well."""
    return hands.minimize()

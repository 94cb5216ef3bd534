"""The migrations: up, down and up again, and to exactly what the models say."""

from __future__ import annotations

import json
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from minimizer.options import Options
from minimizer.store import SchemaOutdated, Store
from minimizer.store.tables.database import open_engine
from minimizer.store.tables.migrate import downgrade, require_current, upgrade
from minimizer.store.tables.models import Base


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def test_up_down_up(empty_database_url: str) -> None:
    engine = open_engine(empty_database_url)
    wanted = set(Base.metadata.tables)
    upgrade(empty_database_url)
    assert tables(engine) == wanted
    downgrade(empty_database_url, "base")
    assert tables(engine) == set()
    upgrade(empty_database_url)
    assert tables(engine) == wanted
    engine.dispose()


def test_the_models_are_the_migrated_schema(database_url: str) -> None:
    engine = open_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_second_upgrade_keeps_what_is_there(empty_database_url: str) -> None:
    upgrade(empty_database_url)
    store = Store.open(empty_database_url)
    job, _ = store.submissions.submit(b"print(1)\n", "a.py", Options())
    upgrade(empty_database_url)
    assert store.jobs.get(job.id) == job
    store.close()


def insert_as_of_0001(engine: Engine) -> None:
    """Jobs and all that hangs on them, as the first version has written them."""
    moment = "2026-01-02 03:04:05.000000+00:00" if engine.dialect.name == "postgresql" else "2026-01-02 03:04:05.000000"
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO blobs VALUES ('aa', 3, :content)"), {"content": zlib.compress(b"x=1")})
        for number, device in ((1, "auto"), (2, "cuda")):
            row = {
                "id": f"job{number}",
                "filename": "a.py",
                "options": json.dumps({"device": device, "toolchain": "old" if number == 2 else None}),
                "moment": moment,
            }
            connection.execute(
                text(
                    "INSERT INTO jobs (id, filename, options, script_sha, status, progress, cancel_requested, version,"
                    " last_event, fence, attempt, created_at, queued_at, rung_at, updated_at, summary)"
                    " VALUES (:id, :filename, :options, 'aa', 'queued', '{}', false, 1, 1, 0, 0,"
                    " :moment, :moment, :moment, :moment, '')"
                ),
                row,
            )
            connection.execute(
                text("INSERT INTO events VALUES (:number, 1, 'note', :moment, '{}')"),
                {"number": number, "moment": moment},
            )
        connection.execute(text("INSERT INTO artifacts VALUES (1, 'run.log', 'aa', 'text/plain', :m)"), {"m": moment})
        connection.execute(text("INSERT INTO idempotency_keys VALUES ('kk', 'pp', 1)"))
        connection.execute(text("INSERT INTO workers VALUES ('w', 'cpu', '2.13.0', :m, :m)"), {"m": moment})


def counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
            for table in ("blobs", "jobs", "events", "artifacts", "idempotency_keys", "workers")
        }


def test_data_goes_up_and_down_unharmed(empty_database_url: str) -> None:
    upgrade(empty_database_url, "0001")
    engine = open_engine(empty_database_url)
    insert_as_of_0001(engine)
    before = counts(engine)
    upgrade(empty_database_url)
    store = Store.open(empty_database_url)
    first, second = store.jobs.get("job1"), store.jobs.get("job2")
    assert (first.project, first.pinned, first.priority) == ("default", False, 0)
    assert store.jobs.script("job1") == store.results.artifact("job1", "run.log")[1] == b"x=1"
    assert [event.seq for event in store.results.events("job2")] == [1]
    assert store.leases.claim("w", lease_seconds=60, devices=(), toolchains=()).job_id == "job1"  # type: ignore[union-attr]
    assert store.leases.claim("w", lease_seconds=60, devices=(), toolchains=("old",)) is None, "it needs CUDA"
    assert store.leases.claim("w", lease_seconds=60, devices=("cuda",), toolchains=("old",)).job_id == second.id  # type: ignore[union-attr]
    store.close()
    assert counts(engine) == before
    downgrade(empty_database_url, "0001")
    assert counts(engine) == before
    upgrade(empty_database_url)
    assert counts(engine) == before
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET status = 'lost'"))
    engine.dispose()


def test_processes_that_upgrade_at_once_do_not_collide(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upgrade, [empty_database_url] * 4))
    require_current(empty_database_url)


def test_a_database_without_tables_is_named_with_the_remedy(empty_database_url: str) -> None:
    with pytest.raises(SchemaOutdated, match=r"has no tables yet: run `minimizer db upgrade`"):
        require_current(empty_database_url)


def test_a_database_of_another_version_is_named_with_both_revisions(empty_database_url: str) -> None:
    upgrade(empty_database_url)
    engine = open_engine(empty_database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'elder'"))
    engine.dispose()
    with pytest.raises(SchemaOutdated, match="is at revision elder, this version needs 0007"):
        require_current(empty_database_url)


def test_the_database_itself_refuses_a_status_that_is_none(database_url: str, store: Store) -> None:
    store.submissions.submit(b"print(1)\n", "a.py", Options())
    engine = open_engine(database_url)
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET status = 'lost'"))
    engine.dispose()

"""The migrations: up, down and up again, and to exactly what the models say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from minimizer.options import Options
from minimizer.store import SchemaOutdated, Store
from minimizer.store.database import open_engine
from minimizer.store.migrate import downgrade, require_current, upgrade
from minimizer.store.models import Base


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
    job, _ = store.submit(b"print(1)\n", "a.py", Options())
    upgrade(empty_database_url)
    assert store.job(job.id) == job
    store.close()


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
    with pytest.raises(SchemaOutdated, match="is at revision elder, this version needs 0001"):
        require_current(empty_database_url)


def test_the_database_itself_refuses_a_status_that_is_none(database_url: str, store: Store) -> None:
    store.submit(b"print(1)\n", "a.py", Options())
    engine = open_engine(database_url)
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET status = 'lost'"))
    engine.dispose()

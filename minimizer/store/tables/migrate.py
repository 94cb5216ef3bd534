"""Migrates a database to the schema of this version, with the Alembic scripts of the installed package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import func, select

from minimizer.store.errors import SchemaOutdated
from minimizer.store.tables.database import open_engine

# Id of an advisory lock: any number that nothing else in the database uses.
_LOCK = 0x6D696E


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade to a revision. Safe to call from several processes at once, and if there is nothing to do."""
    with _config(url) as config:
        command.upgrade(config, revision)


def downgrade(url: str, revision: str) -> None:
    """Downgrade to a revision; ``base`` is before the first one."""
    with _config(url) as config:
        command.downgrade(config, revision)


def require_current(url: str) -> None:
    """Check that the database has the schema of this version.

    Raises:
        SchemaOutdated: it has another schema, or none.
    """
    with _config(url) as config:
        found = MigrationContext.configure(config.attributes["connection"]).get_current_revision()
        head = ScriptDirectory.from_config(config).get_current_head()
    if found != head:
        raise SchemaOutdated(found, head)


@contextmanager
def _config(url: str) -> Iterator[Config]:
    """Alembic's configuration with a connection in a transaction, so that a migration is all or nothing."""
    # Batch mode copies a table and drops the old one; with foreign keys on, SQLite would then delete the rows that refer to it.
    engine = open_engine(url, foreign_keys=False).execution_options(begin="BEGIN IMMEDIATE")
    try:
        with as_file(files("migrations")) as folder, engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            config = Config()
            config.set_main_option("script_location", str(folder).replace("%", "%%"))
            config.attributes["connection"] = connection
            yield config
    finally:
        engine.dispose()

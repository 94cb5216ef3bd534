"""Brings a database to the schema of this version, with the Alembic scripts that are installed beside us."""

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

# Any number will do, as long as nothing else in the database locks it.
_LOCK = 0x6D696E


def upgrade(url: str, revision: str = "head") -> None:
    """Upgrade to a revision. Safe to call from several processes at once, and when there is nothing to do."""
    with _config(url) as config:
        command.upgrade(config, revision)


def downgrade(url: str, revision: str) -> None:
    """Downgrade to a revision; ``base`` is before the first one."""
    with _config(url) as config:
        command.downgrade(config, revision)


def require_current(url: str) -> None:
    """Make sure that the database fits this version.

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
    """Alembic's configuration with a connection in a transaction: a migration happens as a whole or not at all."""
    # Batch mode copies a table and drops the old one, and with foreign keys on SQLite would empty those that refer to it.
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

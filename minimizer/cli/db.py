"""``minimizer db``: the schema of the database."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from minimizer.errors import UserError
from minimizer.settings import settings_from_environment


@click.group()
def db() -> None:
    """Look after the database of the service (MINIMIZER_DATABASE_URL, else SQLite in MINIMIZER_DATA_DIR)."""


@db.command()
def upgrade() -> None:
    """Create the tables or bring them to the current schema. Safe to repeat; `serve` does it by itself."""
    from minimizer.store.tables.migrate import upgrade as migrate

    settings = settings_from_environment()
    if settings.database_url is None:
        settings.make_data_dir()
    migrate(settings.resolved_database_url)
    click.echo("The database is at the current schema.")


@db.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Copy a SQLite database to FILE while the service runs. For PostgreSQL there is pg_dump (docs/deploy.md)."""
    from minimizer.store.tables.database import parse_url

    address = settings_from_environment().resolved_database_url
    url = parse_url(address)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise UserError("this database is no SQLite file: use pg_dump, as docs/deploy.md shows")
    require_there(address)
    _require_tables(url.database)
    try:
        # Created by us, readable for the owner only: it holds scripts and password hashes.
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise UserError(f"{file} exists: give a file that does not") from None
    except OSError as error:
        raise UserError(f"{file} cannot be written ({error.strerror}): give another file") from None
    with closing(sqlite3.connect(url.database)) as source, closing(sqlite3.connect(file)) as target:
        source.backup(target)
    click.echo(f"{file} has {file.stat().st_size:,} bytes.")


def require_there(address: str) -> None:
    """Refuse a SQLite file that is not there: to open it would make an empty one, and hide that the name is wrong.

    Raises:
        UserError: there is none.
    """
    from minimizer.store.tables.database import parse_url

    url = parse_url(address)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        raise UserError(
            f"there is no database at {url.database}: set MINIMIZER_DATA_DIR or MINIMIZER_DATABASE_URL, or make one with "
            "`minimizer db upgrade`"
        )


def _require_tables(database: str) -> None:
    try:
        with closing(sqlite3.connect(database)) as source:
            (tables,) = source.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    except sqlite3.Error as error:
        raise UserError(f"{database} cannot be read as a database ({error})") from None
    if not tables:
        raise UserError(f"the database at {database} has no tables, so there is nothing to copy")

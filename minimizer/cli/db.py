"""``minimizer db``: the schema of the database."""

from __future__ import annotations

import click

from minimizer.settings import Settings


@click.group()
def db() -> None:
    """Look after the database of the service (MINIMIZER_DATABASE_URL, else SQLite in MINIMIZER_DATA_DIR)."""


@db.command()
def upgrade() -> None:
    """Create the tables or bring them to the current schema. Safe to repeat; `serve` does it by itself."""
    from minimizer.store.migrate import upgrade as migrate

    settings = Settings()
    if settings.database_url is None:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    migrate(settings.resolved_database_url)
    click.echo("The database is at the current schema.")

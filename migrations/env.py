"""Alembic's environment for the migrations."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.types import TypeDecorator

from minimizer.settings import Settings
from minimizer.store.tables.database import open_engine
from minimizer.store.tables.models import Base


def _render_item(kind: str, item: Any, _context: object) -> str | Literal[False]:
    # A migration must not change its meaning when one of our types does: write down the underlying plain type.
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl!r}"
    return False


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        render_item=_render_item,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with open_engine(Settings().resolved_database_url, foreign_keys=False).connect() as opened:
        _run(opened)

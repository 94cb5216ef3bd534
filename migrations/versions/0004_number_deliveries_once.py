"""Never give the number of a message twice: receivers know by it what they have had. PostgreSQL gives none twice anyway."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _copy(autoincrement=True)


def downgrade() -> None:
    _copy(autoincrement=False)


def _copy(*, autoincrement: bool) -> None:
    """SQLite changes a table by copying it."""
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table(
            "deliveries", recreate="always", table_kwargs={"sqlite_autoincrement": autoincrement}
        ):
            pass

"""Say which GPUs a worker has, and what drives them. Workers that are registered say it when they start anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("hardware", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("workers") as table:
        table.alter_column("hardware", server_default=None)


def downgrade() -> None:
    op.drop_column("workers", "hardware")

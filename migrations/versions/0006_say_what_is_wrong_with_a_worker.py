"""Say what is wrong with a worker's machine, and which worker could not do a job for that reason."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("trouble", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("workers") as table:
        table.alter_column("trouble", server_default=None)
    op.add_column("jobs", sa.Column("shuns", sa.String(255), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "shuns")
    op.drop_column("workers", "trouble")

"""Let the owner of a job skip the step that it is at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("skip_requested", sa.String(32), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "skip_requested")

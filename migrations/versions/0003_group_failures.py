"""Add groups of jobs that failed in the same way. Jobs that have ended join one when they run again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "failure_groups",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("project_number", _NUMBER, nullable=False),
        sa.Column("signature", sa.String(length=80), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("features", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("issue_url", sa.Text(), nullable=False),
        sa.Column("fixed_in", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_number"], ["projects.number"], name=op.f("fk_failure_groups_project_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_failure_groups")),
        sa.UniqueConstraint("project_number", "signature", name=op.f("uq_failure_groups_project_number_signature")),
    )
    op.create_index(op.f("ix_failure_groups_project_number"), "failure_groups", ["project_number"])
    op.create_table(
        "failure_members",
        sa.Column("job_number", _NUMBER, nullable=False),
        sa.Column("group_number", _NUMBER, nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("because", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_number"],
            ["failure_groups.number"],
            name=op.f("fk_failure_members_group_number"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["job_number"], ["jobs.number"], name=op.f("fk_failure_members_job_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_number", name=op.f("pk_failure_members")),
    )
    op.create_index(op.f("ix_failure_members_fingerprint"), "failure_members", ["fingerprint"])
    op.create_index(op.f("ix_failure_members_group_number"), "failure_members", ["group_number"])
    op.create_table(
        "failure_history",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("group_number", _NUMBER, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_number"],
            ["failure_groups.number"],
            name=op.f("fk_failure_history_group_number"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_failure_history")),
    )
    op.create_index(op.f("ix_failure_history_group_number"), "failure_history", ["group_number"])
    op.create_table(
        "retests",
        sa.Column("job_number", _NUMBER, nullable=False),
        sa.Column("group_number", _NUMBER, nullable=False),
        sa.ForeignKeyConstraint(
            ["group_number"], ["failure_groups.number"], name=op.f("fk_retests_group_number"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_number"], ["jobs.number"], name=op.f("fk_retests_job_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_number", name=op.f("pk_retests")),
    )
    op.create_index(op.f("ix_retests_group_number"), "retests", ["group_number"])


def downgrade() -> None:
    for table in ("retests", "failure_history", "failure_members", "failure_groups"):
        op.drop_table(table)

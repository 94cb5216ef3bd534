"""Add users, projects, tokens and what a service for a team keeps besides jobs.

All jobs there are go to the project ``default``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_STATUSES = "status IN ('queued', 'running', 'minimized', 'healthy', 'partial', 'failed', 'cancelled')"


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_time"), ["time"], unique=False)

    op.create_table(
        "projects",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("keep_days", sa.Integer(), nullable=True),
        sa.Column("keep_bytes", sa.BigInteger(), nullable=True),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    op.create_table(
        "users",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'member', 'admin')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "memberships",
        sa.Column("user_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("project_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_number"], ["projects.number"], name=op.f("fk_memberships_project_number"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_number"], ["users.number"], name=op.f("fk_memberships_user_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_number", "project_number", name=op.f("pk_memberships")),
    )
    with op.batch_alter_table("memberships", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_memberships_project_number"), ["project_number"], unique=False)

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("user_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("scope IN ('read', 'write')", name=op.f("ck_tokens_scope")),
        sa.ForeignKeyConstraint(
            ["user_number"], ["users.number"], name=op.f("fk_tokens_user_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tokens_user_number"), ["user_number"], unique=False)

    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("project_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_number"], ["projects.number"], name=op.f("fk_webhooks_project_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    with op.batch_alter_table("webhooks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_webhooks_project_number"), ["project_number"], unique=False)

    op.create_table(
        "deliveries",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("webhook_id", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_deliveries_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_deliveries")),
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_deliveries_next_at"), ["next_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_deliveries_webhook_id"), ["webhook_id"], unique=False)

    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("user_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("token_id", sa.String(length=16), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["user_number"], ["users.number"], name=op.f("fk_sessions_user_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_sessions")),
    )
    with op.batch_alter_table("sessions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_sessions_token_id"), ["token_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_sessions_user_number"), ["user_number"], unique=False)

    _move_jobs_to_a_project()
    with op.batch_alter_table("workers") as batch_op:
        batch_op.add_column(sa.Column("toolchains", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("workers") as batch_op:
        batch_op.alter_column("toolchains", server_default=None)


def _move_jobs_to_a_project() -> None:
    projects = sa.table("projects", sa.column("name", sa.String), sa.column("created_at", sa.DateTime(timezone=True)))
    op.execute(projects.insert().values(name="default", created_at=datetime.now(UTC)))
    for column in (
        sa.Column("archive_sha", sa.String(length=64), nullable=True),
        sa.Column("question_sha", sa.String(length=64), nullable=True),
        sa.Column("project_number", _NUMBER, nullable=True),
        sa.Column("submitted_by", sa.String(length=100), nullable=True),
        sa.Column("pinned", sa.Boolean(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=True),
        sa.Column("device", sa.String(length=16), nullable=True),
        sa.Column("toolchain", sa.String(length=200), nullable=True),
    ):
        op.add_column("jobs", column)
    op.execute(
        "UPDATE jobs SET project_number = (SELECT number FROM projects WHERE name = 'default'),"
        " submitted_by = '', pinned = false, priority = 0"
    )
    jobs = sa.table("jobs", sa.column("options", sa.JSON), sa.column("device"), sa.column("toolchain"))
    op.execute(jobs.update().values(device="cuda").where(jobs.c.options["device"].as_string() == "cuda"))
    op.execute(jobs.update().values(toolchain=jobs.c.options["toolchain"].as_string()))
    with _jobs() as batch_op:
        batch_op.alter_column("project_number", existing_type=_NUMBER, nullable=False)
        batch_op.alter_column("submitted_by", existing_type=sa.String(length=100), nullable=False)
        batch_op.alter_column("pinned", existing_type=sa.Boolean(), nullable=False)
        batch_op.alter_column("priority", existing_type=sa.Integer(), nullable=False)
        batch_op.create_index(batch_op.f("ix_jobs_archive_sha"), ["archive_sha"], unique=False)
        batch_op.create_index(batch_op.f("ix_jobs_project_number"), ["project_number"], unique=False)
        batch_op.create_index(batch_op.f("ix_jobs_question_sha"), ["question_sha"], unique=False)
        batch_op.create_index(batch_op.f("ix_jobs_submitted_by"), ["submitted_by"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_jobs_project_number"), "projects", ["project_number"], ["number"])
        batch_op.create_foreign_key(batch_op.f("fk_jobs_archive_sha"), "blobs", ["archive_sha"], ["sha256"])


def _jobs() -> AbstractContextManager[BatchOperations]:
    # SQLite changes a table by copying it, and the copy would lose the definitions here.
    check = sa.CheckConstraint(_STATUSES, name=op.f("ck_jobs_status"))
    return op.batch_alter_table("jobs", table_args=(check,), table_kwargs={"sqlite_autoincrement": True})


def downgrade() -> None:
    with op.batch_alter_table("workers") as batch_op:
        batch_op.drop_column("toolchains")
    with _jobs() as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_jobs_archive_sha"), type_="foreignkey")
        batch_op.drop_constraint(batch_op.f("fk_jobs_project_number"), type_="foreignkey")
        for index in ("archive_sha", "project_number", "question_sha", "submitted_by"):
            batch_op.drop_index(batch_op.f(f"ix_jobs_{index}"))
        for column in (
            "archive_sha",
            "question_sha",
            "project_number",
            "submitted_by",
            "pinned",
            "priority",
            "device",
            "toolchain",
        ):
            batch_op.drop_column(column)
    for table in ("sessions", "deliveries", "webhooks", "tokens", "memberships", "users", "projects", "audit"):
        op.drop_table(table)

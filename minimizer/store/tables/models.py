"""The tables. Rows are used inside this package only; callers get the values of `views`."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from minimizer.vocabulary import Role, Scope, Status

# SQLite auto-numbers rows only in a column of exactly the type INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """A UTC time, timezone-aware in Python on both databases (SQLite drops the zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _one_of(column: str, words: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(word)) for word in words)})", name=column)


class Base(DeclarativeBase):
    """Base of the tables; names every constraint, so that a later migration can drop it by name on both databases."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime(), dict[str, Any]: JSON()}


class BlobRow(Base):
    """Compressed content by its sha256, shared by all jobs that have it."""

    __tablename__ = "blobs"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    compressed: Mapped[bytes] = mapped_column(LargeBinary)


class ProjectRow(Base):
    """A project: owns jobs, which only its members may see. The migration creates the first one, ``default``."""

    __tablename__ = "projects"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime]
    keep_days: Mapped[int | None]
    keep_bytes: Mapped[int | None] = mapped_column(BigInteger)
    # When a worker last claimed one of its jobs: projects take turns.
    served_at: Mapped[datetime | None]


class JobRow(Base):
    """A job: its script and options, status, worker and lease, and the main results."""

    __tablename__ = "jobs"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    filename: Mapped[str] = mapped_column(String(255))
    options: Mapped[dict[str, Any]]
    script_sha: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    # The archive with the script and its other files, if it was submitted as one.
    archive_sha: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    # Digest of script, name and options: the same question needs no second job while torch is the same.
    question_sha: Mapped[str | None] = mapped_column(String(64), index=True)

    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number"), index=True)
    project: Mapped[ProjectRow] = relationship(lazy="joined", innerjoin=True)
    submitted_by: Mapped[str] = mapped_column(String(100), index=True)
    pinned: Mapped[bool] = mapped_column(Boolean)
    priority: Mapped[int]
    # Device and interpreter that a worker must have; None: any.
    device: Mapped[str | None] = mapped_column(String(16))
    toolchain: Mapped[str | None] = mapped_column(String(200))

    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    step: Mapped[str | None] = mapped_column(String(32))
    progress: Mapped[dict[str, Any]]
    cancel_requested: Mapped[bool] = mapped_column(Boolean)
    # The step that the owner does not want to wait for, while the job is at it.
    skip_requested: Mapped[str | None] = mapped_column(String(32))
    version: Mapped[int]
    last_event: Mapped[int]

    worker: Mapped[str | None] = mapped_column(String(255))
    # The last worker that handed it back, its machine being unfit: other workers come first.
    shuns: Mapped[str | None] = mapped_column(String(255))
    fence: Mapped[int]
    attempt: Mapped[int]
    lease_until: Mapped[datetime | None]

    created_at: Mapped[datetime]
    queued_at: Mapped[datetime]
    rung_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    updated_at: Mapped[datetime]

    kind: Mapped[str | None] = mapped_column(String(32), index=True)
    signature: Mapped[str | None] = mapped_column(String(255), index=True)
    # None is stored as SQL NULL, not as JSON null, for which "is not null" is true.
    failure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    culprit: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    reduction: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    summary: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        _one_of("status", Status),
        Index("ix_jobs_status_queued_at", "status", "queued_at"),
        # Numbers are never reused: cursors and the order of the queue depend on that.
        {"sqlite_autoincrement": True},
    )


class EventRecord(Base):
    """One event of a job."""

    __tablename__ = "events"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    type: Mapped[str] = mapped_column(String(32))
    time: Mapped[datetime]
    data: Mapped[dict[str, Any]]


class ArtifactRow(Base):
    """A file of a job, by name."""

    __tablename__ = "artifacts"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    media_type: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime]


class IdempotencyRow(Base):
    """Digest of an idempotency key (keys may be long and hold any text), and the job it created."""

    __tablename__ = "idempotency_keys"

    key_sha: Mapped[str] = mapped_column(String(64), primary_key=True)
    payload_sha: Mapped[str] = mapped_column(String(64))
    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), index=True)


class WorkerRecord(Base):
    """A worker process that has registered."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    device: Mapped[str] = mapped_column(String(255))
    torch: Mapped[str] = mapped_column(String(64))
    toolchains: Mapped[str] = mapped_column(Text)
    hardware: Mapped[dict[str, Any]]
    """See `views.Hardware`."""
    trouble: Mapped[str] = mapped_column(Text)
    last_seen: Mapped[datetime]
    started_at: Mapped[datetime]

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices other than the CPU, which every worker has."""
        return tuple(name for name in self.device.split(", ") if name != "cpu")

    @property
    def interpreters(self) -> tuple[str, ...]:
        return tuple(filter(None, self.toolchains.split(",")))


class UserRow(Base):
    """A person who may sign in, or a service account that has only tokens."""

    __tablename__ = "users"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    password_hash: Mapped[str | None] = mapped_column(String(255))
    active: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime]

    __table_args__ = (_one_of("role", Role),)


class MembershipRow(Base):
    """Membership of a user in a project."""

    __tablename__ = "memberships"

    user_number: Mapped[int] = mapped_column(ForeignKey("users.number", ondelete="CASCADE"), primary_key=True)
    project_number: Mapped[int] = mapped_column(
        ForeignKey("projects.number", ondelete="CASCADE"), primary_key=True, index=True
    )


class TokenRow(Base):
    """A personal API token; only the digest of its secret is stored."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    user_number: Mapped[int] = mapped_column(ForeignKey("users.number", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(100))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scope: Mapped[str] = mapped_column(String(8))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]

    __table_args__ = (_one_of("scope", Scope),)


class SessionRow(Base):
    """A signed-in browser session, by the digest of its cookie."""

    __tablename__ = "sessions"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_number: Mapped[int] = mapped_column(ForeignKey("users.number", ondelete="CASCADE"), index=True)
    # If signed in with a token: the session has the token's scope, and ends with the token.
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class AuditRow(Base):
    """An audit entry: who changed what, and from where."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    time: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(255))
    address: Mapped[str] = mapped_column(String(64))


class WebhookRow(Base):
    """A webhook: an address that gets a message when a job of its project ends."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number", ondelete="CASCADE"), index=True)
    url: Mapped[str] = mapped_column(Text)
    # In plain text, since it is needed to sign every message.
    secret: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]


class DeliveryRow(Base):
    """A message to a webhook, written in the transaction that ends the job, and its delivery state."""

    __tablename__ = "deliveries"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)
    attempts: Mapped[int]
    created_at: Mapped[datetime]
    # Time of the next attempt; None once it was delivered or given up.
    next_at: Mapped[datetime | None] = mapped_column(index=True)
    delivered_at: Mapped[datetime | None]
    answer: Mapped[str] = mapped_column(String(255))

    # Receivers recognise a repeated message by its number.
    __table_args__ = ({"sqlite_autoincrement": True},)


class FailureGroupRow(Base):
    """A group of jobs of a project that failed in the same way, with users' notes on the failure."""

    __tablename__ = "failure_groups"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number", ondelete="CASCADE"), index=True)
    # The fingerprint of its first job, with a number appended if another group has that name.
    signature: Mapped[str] = mapped_column(String(80))
    kind: Mapped[str] = mapped_column(String(32))
    # The features with which later failures are compared: operators, message, graph.
    features: Mapped[dict[str, Any]]
    note: Mapped[str] = mapped_column(Text)
    issue_url: Mapped[str] = mapped_column(Text)
    fixed_in: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[datetime]

    __table_args__ = (UniqueConstraint("project_number", "signature"),)


class FailureMemberRow(Base):
    """Membership of a job in a group, and the reason for it."""

    __tablename__ = "failure_members"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)
    fingerprint: Mapped[str] = mapped_column(String(64), index=True)
    because: Mapped[str] = mapped_column(String(255))


class FailureHistoryRow(Base):
    """A change of a group, and who made it."""

    __tablename__ = "failure_history"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)
    time: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(100))
    what: Mapped[str] = mapped_column(Text)


class RetestRow(Base):
    """Link from a job to the group that it retests: it reruns the best repro, to see whether another torch still fails."""

    __tablename__ = "retests"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)

"""The tables. Read and written in this package only; what leaves it are the values of `views`."""

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

# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC, aware on the Python side on either database (SQLite drops the zone)."""

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
    """Names every constraint, so that a later migration can drop it by name on either database."""

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
    """Content by its sha256, compressed, shared by all jobs that have it."""

    __tablename__ = "blobs"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    compressed: Mapped[bytes] = mapped_column(LargeBinary)


class ProjectRow(Base):
    """Owns jobs and keeps those who are no members out. The first one, ``default``, is made by the migration."""

    __tablename__ = "projects"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime]
    keep_days: Mapped[int | None]
    keep_bytes: Mapped[int | None] = mapped_column(BigInteger)
    # When a worker last took a job of it: projects take turns.
    served_at: Mapped[datetime | None]


class JobRow(Base):
    """A job: what was asked, where it stands, who works on it, and the gist of the answer."""

    __tablename__ = "jobs"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    filename: Mapped[str] = mapped_column(String(255))
    options: Mapped[dict[str, Any]]
    script_sha: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    # The archive that the script came in, its other files included.
    archive_sha: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"), index=True)
    # Script, name and options as a digest: the same question needs no second job while torch stays the same.
    question_sha: Mapped[str | None] = mapped_column(String(64), index=True)

    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number"), index=True)
    project: Mapped[ProjectRow] = relationship(lazy="joined", innerjoin=True)
    submitted_by: Mapped[str] = mapped_column(String(100), index=True)
    pinned: Mapped[bool] = mapped_column(Boolean)
    priority: Mapped[int]
    # What a worker must have to take it; None where any worker will do.
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
    # The last worker whose machine could not do it: others come first.
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
    # None as SQL NULL, not as the JSON value null, which would answer "is not null" with yes.
    failure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    culprit: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    reduction: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    summary: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        _one_of("status", Status),
        Index("ix_jobs_status_queued_at", "status", "queued_at"),
        # A number is never given twice: cursors and the order of the queue lean on it.
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
    """A key a client has sent with a job, as a digest (keys may be long and may hold anything)."""

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
        """Beside the CPU, which every worker has: it is no need that a job could name."""
        return tuple(name for name in self.device.split(", ") if name != "cpu")

    @property
    def interpreters(self) -> tuple[str, ...]:
        return tuple(filter(None, self.toolchains.split(",")))


class UserRow(Base):
    """Somebody who may sign in, or a robot that only has tokens."""

    __tablename__ = "users"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    password_hash: Mapped[str | None] = mapped_column(String(255))
    active: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime]

    __table_args__ = (_one_of("role", Role),)


class MembershipRow(Base):
    """Lets a user into a project."""

    __tablename__ = "memberships"

    user_number: Mapped[int] = mapped_column(ForeignKey("users.number", ondelete="CASCADE"), primary_key=True)
    project_number: Mapped[int] = mapped_column(
        ForeignKey("projects.number", ondelete="CASCADE"), primary_key=True, index=True
    )


class TokenRow(Base):
    """A personal API token, by the digest of its secret."""

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
    """A browser that is signed in, by the digest of its cookie."""

    __tablename__ = "sessions"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_number: Mapped[int] = mapped_column(ForeignKey("users.number", ondelete="CASCADE"), index=True)
    # Signed in with a token: the session can do what the token can, for as long as the token can.
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class AuditRow(Base):
    """Who changed what, and from where."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    time: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(255))
    address: Mapped[str] = mapped_column(String(64))


class WebhookRow(Base):
    """An address that is told when a job of its project ends."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number", ondelete="CASCADE"), index=True)
    url: Mapped[str] = mapped_column(Text)
    # In the clear, since every message is signed with it.
    secret: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]


class DeliveryRow(Base):
    """A message to a webhook, kept with the job's end in one transaction, and what became of it."""

    __tablename__ = "deliveries"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)
    attempts: Mapped[int]
    created_at: Mapped[datetime]
    # When it is to be sent (again); None once it has arrived or was given up.
    next_at: Mapped[datetime | None] = mapped_column(index=True)
    delivered_at: Mapped[datetime | None]
    answer: Mapped[str] = mapped_column(String(255))

    # Receivers know by its number what they have had already.
    __table_args__ = ({"sqlite_autoincrement": True},)


class FailureGroupRow(Base):
    """Jobs of a project that failed in the same way, and what people know of that failure."""

    __tablename__ = "failure_groups"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    project_number: Mapped[int] = mapped_column(ForeignKey("projects.number", ondelete="CASCADE"), index=True)
    # The fingerprint of its first job; with a number behind it where that is another group's.
    signature: Mapped[str] = mapped_column(String(80))
    kind: Mapped[str] = mapped_column(String(32))
    # What the next failure is compared with: operators, message, graph.
    features: Mapped[dict[str, Any]]
    note: Mapped[str] = mapped_column(Text)
    issue_url: Mapped[str] = mapped_column(Text)
    fixed_in: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[datetime]

    __table_args__ = (UniqueConstraint("project_number", "signature"),)


class FailureMemberRow(Base):
    """A job in its group, and why it is there."""

    __tablename__ = "failure_members"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)
    fingerprint: Mapped[str] = mapped_column(String(64), index=True)
    because: Mapped[str] = mapped_column(String(255))


class FailureHistoryRow(Base):
    """What was done to a group, by whom."""

    __tablename__ = "failure_history"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)
    time: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(100))
    what: Mapped[str] = mapped_column(Text)


class RetestRow(Base):
    """A job that runs the best repro of a group again, to see whether another torch still fails."""

    __tablename__ = "retests"

    job_number: Mapped[int] = mapped_column(ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True)
    group_number: Mapped[int] = mapped_column(ForeignKey("failure_groups.number", ondelete="CASCADE"), index=True)

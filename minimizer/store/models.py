"""The tables. Read and written in this package only; what leaves it are the values of `views`."""

from __future__ import annotations

from datetime import UTC, datetime
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
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from minimizer.types import Status

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


class JobRow(Base):
    """A job: what was asked, where it stands, who works on it, and the gist of the answer."""

    __tablename__ = "jobs"

    number: Mapped[int] = mapped_column(_Number, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    filename: Mapped[str] = mapped_column(String(255))
    options: Mapped[dict[str, Any]]
    script_sha: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"), index=True)

    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    step: Mapped[str | None] = mapped_column(String(32))
    progress: Mapped[dict[str, Any]]
    cancel_requested: Mapped[bool] = mapped_column(Boolean)
    version: Mapped[int]
    last_event: Mapped[int]

    worker: Mapped[str | None] = mapped_column(String(255))
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
        CheckConstraint(f"status IN ({', '.join(repr(str(status)) for status in Status)})", name="status"),
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
    last_seen: Mapped[datetime]
    started_at: Mapped[datetime]

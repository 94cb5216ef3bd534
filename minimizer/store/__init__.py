"""The store: jobs, events, artifacts and workers in SQLite or PostgreSQL. The only truth there is (DESIGN section 1)."""

from minimizer.store.errors import (
    ArtifactTooLarge,
    IdempotencyConflict,
    InvalidCursor,
    JobActive,
    LeaseLost,
    QueueFull,
    SchemaOutdated,
    StoreError,
    UnknownArtifact,
    UnknownJob,
)
from minimizer.store.store import Store
from minimizer.store.views import ArtifactInfo, Claim, EventRow, FailureGroup, Job, WorkerRow

__all__ = [
    "ArtifactInfo",
    "ArtifactTooLarge",
    "Claim",
    "EventRow",
    "FailureGroup",
    "IdempotencyConflict",
    "InvalidCursor",
    "Job",
    "JobActive",
    "LeaseLost",
    "QueueFull",
    "SchemaOutdated",
    "Store",
    "StoreError",
    "UnknownArtifact",
    "UnknownJob",
    "WorkerRow",
]

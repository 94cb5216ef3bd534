"""Exceptions of the store."""

from __future__ import annotations

from minimizer.errors import MinimizerError, UserError


class StoreError(MinimizerError):
    """Base of the exceptions that the store raises deliberately."""


class UnknownJob(StoreError):
    """No job has this id."""

    status, slug = 404, "unknown-job"

    def __init__(self) -> None:
        super().__init__("There is no job with this id. It may have been deleted.")


class UnknownArtifact(StoreError):
    """The job has no artifact of this name (yet)."""

    status, slug = 404, "unknown-artifact"

    def __init__(self, name: str) -> None:
        super().__init__(f"The job has no artifact {name!r}; the list is under artifacts.")


class ArtifactTooLarge(StoreError):
    """An artifact is larger than the store accepts."""

    def __init__(self, name: str, size: int, limit: int) -> None:
        super().__init__(f"{name} has {size:,} bytes; at most {limit:,} are kept")


class InvalidCursor(StoreError):
    """The page cursor is not one that the store has returned."""

    status, slug = 422, "invalid-cursor"

    def __init__(self) -> None:
        super().__init__("The cursor is not one of ours: take it from the Link header or from next_cursor.")


class IdempotencyConflict(StoreError):
    """The idempotency key was used before, for another job."""

    status, slug = 422, "idempotency-conflict"

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used for another script or other options.")


class QueueFull(StoreError):
    """The queue has reached its limit of waiting jobs."""

    status, slug, retry_after = 429, "queue-full", 30

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit:,} jobs are waiting, which is the limit: try again later")


class QuotaExceeded(StoreError):
    """The submitter has reached the limit of open jobs."""

    status, slug, retry_after = 429, "quota-exceeded", 30

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            f"{limit:,} jobs of {name!r} are waiting or running, which is the limit: wait until one has ended"
        )


class UnknownProject(UserError):
    """There is no project of this name, or the caller may not see it."""

    status, slug = 404, "unknown-project"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no project {name!r} that is open to you")


class ProjectNotEmpty(UserError):
    """A project with jobs cannot be deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"project {name!r} still has jobs, or is the default one: delete its jobs first")


class UnknownUser(UserError):
    """There is no user of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no user {name!r}")


class UnknownToken(UserError):
    """There is no token with this id."""

    status, slug = 404, "unknown-token"

    def __init__(self, token_id: str) -> None:
        super().__init__(f"there is no token {token_id!r}")


class UnknownWebhook(UserError):
    """There is no webhook with this id."""

    status, slug = 404, "unknown-webhook"

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"there is no webhook {webhook_id!r}")


class InvalidUrl(UserError):
    """The URL is not one that messages can be sent to."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url[:200]!r} is no address: it begins with http:// or https://, names a host (and a port, if need be, but no user), "
            "and has ASCII characters without spaces only"
        )


class NameTaken(UserError):
    """A user or project of this name already exists."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"there is a {what} {name!r} already: choose another name")


class InvalidName(UserError):
    """The name is not allowed for a user or a project."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is no name for a user or a project: it begins with a lower-case letter or a digit, and goes on with "
            "these and . _ @ - up to 64 characters"
        )


class UnknownFailure(StoreError):
    """No group of failures has this name."""

    status, slug = 404, "unknown-failure"

    def __init__(self, signature: str) -> None:
        super().__init__(f"No job has failed as {signature}. The list is under /api/v1/failures.")


class NotInGroup(StoreError):
    """A split must name some, but not all, of the group's own jobs."""

    status, slug = 409, "not-in-group"

    def __init__(self, signature: str) -> None:
        super().__init__(f"Name some of the jobs of {signature}, but not all, and no others.")


class JobActive(StoreError):
    """A running job can be neither deleted nor retried."""

    status, slug = 409, "job-active"

    def __init__(self, job_id: str, wanted: str) -> None:
        super().__init__(f"job {job_id} is running: cancel it, and {wanted} when it has ended")


class NothingToSkip(StoreError):
    """The job is at no step that its owner may skip, or not at the one that was named."""

    status, slug = 409, "nothing-to-skip"

    def __init__(self, job_id: str, step: str | None, current: str | None) -> None:
        if current is not None:
            why = f"it is not at the step {step}, but at {current}"
        else:
            why = "it is at no step that can be skipped, as those that follow a verified repro can"
        super().__init__(f"job {job_id}: {why}")


class LeaseLost(StoreError):
    """The worker no longer holds the job's lease, so its write was refused."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the lease on job {job_id} is lost")


class SchemaOutdated(UserError):
    """The database does not have the schema of this version."""

    def __init__(self, found: str | None, wanted: str | None) -> None:
        state = "has no tables yet" if found is None else f"is at revision {found}, this version needs {wanted}"
        super().__init__(f"the database {state}: run `minimizer db upgrade`")

"""Exit statuses of the command line: those of verdicts, and those of a gate in CI."""

from __future__ import annotations

from minimizer.vocabulary import Reason, Status


class Exit:
    """Exit statuses of ``run`` and ``submit --wait`` (a public contract)."""

    MINIMIZED = 0
    INTERNAL = 1
    USAGE = 2
    HEALTHY = 3
    PARTIAL = 4
    FAILED = 5
    COUNTS = 6
    """With ``--fail-on``: a verified failure that counts."""
    CANCELLED = 130


def exit_status(status: Status, reason: Reason | None) -> int:
    """The exit status for a final job status.

    Raises:
        ValueError: the job is not final.
    """
    if status is Status.FAILED:
        return Exit.INTERNAL if reason is Reason.INTERNAL_ERROR else Exit.FAILED
    exits = {
        Status.MINIMIZED: Exit.MINIMIZED,
        Status.HEALTHY: Exit.HEALTHY,
        Status.PARTIAL: Exit.PARTIAL,
        Status.CANCELLED: Exit.CANCELLED,
    }
    if status not in exits:
        raise ValueError(f"a job that is {status} has no exit status yet")
    return exits[status]


def gate_status(status: Status, reason: Reason | None, *, counts: bool) -> int:
    """The exit status with ``--fail-on``, where 0 lets the build continue; ``counts``: there is a failure that stops
    it.

    Raises:
        ValueError: the job is not final.
    """
    if counts:
        return Exit.COUNTS
    if status in (Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL):
        return 0
    return exit_status(status, reason)

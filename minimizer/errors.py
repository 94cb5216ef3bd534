"""Everything this program raises on purpose.

MinimizerError
├── UserError              the input is at fault: say what, and what to do next (exit 2, HTTP 4xx)
│   ├── InvalidScript      empty, not UTF-8, not Python, too large
│   ├── InvalidOption      an unknown option, or a value out of range
│   └── MissingTool        no compiler, no torch, no bubblewrap where it is required
├── BudgetExceeded         the time that ``--budget`` allows is used up
│   ├── DiskExceeded       the disk that a job may fill is
│   └── MemoryExceeded     the memory that its processes may take together is
├── Busy                   too many others ask for the same at the moment: the message says so, try again soon
├── Cancelled              somebody asked us to stop
├── Skipped                somebody does not want to wait for the step at work
├── ChildFailed            the sandboxed child broke its protocol or died as a whole
│   ├── GraphTooLarge      a graph has more nodes than are taken apart
│   └── Unanswered         the holder of a graph cannot give what was asked for
└── WorkerTrouble          the machine is at fault: a full disk, a sandbox that does not come up, a child killed from outside
"""

from __future__ import annotations

import errno
from typing import ClassVar

EXHAUSTED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EROFS})
"""Errors of the operating system that are the machine's, whoever meets them."""


class MinimizerError(Exception):
    """Base of all errors of this package.

    ``status``, ``slug`` and ``retry_after``: what the service answers a client that has caused it, by HTTP status, stable name and
    seconds to wait; without a slug it is a fault of the service itself. The message is for that client as well.
    """

    status: ClassVar[int] = 500
    slug: ClassVar[str] = ""
    retry_after: ClassVar[int | None] = None


class UserError(MinimizerError):
    """The input is at fault. The message says what is wrong and what to do next."""

    status = 422
    slug = "invalid-input"


class InvalidScript(UserError):
    """The script cannot be taken: empty, too large, not text, not Python."""

    slug = "invalid-script"


class InvalidOption(UserError):
    """An option is unknown or its value is out of range; ``names``: which options, if known."""

    slug = "invalid-option"

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


class MissingTool(UserError):
    """A tool that this machine needs is missing; the message says how to get it."""


class BudgetExceeded(MinimizerError):
    """The time budget of the job is used up."""

    is_time = True
    """Whether more time would help."""


class DiskExceeded(BudgetExceeded):
    """The disk that the job may fill is used up, which ends it like its time."""

    is_time = False


class MemoryExceeded(BudgetExceeded):
    """The memory that all processes of a job may take together is used up, which ends it like its time."""

    is_time = False


class Busy(MinimizerError):
    """Too many others ask for the same at the moment; the same again may do soon."""

    status, slug, retry_after = 503, "busy", 5


class Cancelled(MinimizerError):
    """The job was cancelled by its owner."""


class Skipped(MinimizerError):
    """The owner of the job does not want to wait for a step that only adds to the report."""


class ChildFailed(MinimizerError):
    """The sandboxed child died as a whole or answered with something we do not accept."""


class GraphTooLarge(ChildFailed):
    """A graph has too many nodes to be taken apart. The message says what to do next."""


class WorkerTrouble(MinimizerError):
    """The machine is at fault, which proves nothing about the script: another machine, or this one later, may have an
    answer.
    """


class Unanswered(ChildFailed):
    """The holder of a graph is alive but cannot answer, for instance with a tensor that no file can hold."""


def is_of_the_machine(error: BaseException) -> bool:
    """Whether the machine is at fault, not the script and not this program."""
    return isinstance(error, WorkerTrouble) or (isinstance(error, OSError) and error.errno in EXHAUSTED)

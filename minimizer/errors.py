"""Everything this program raises on purpose.

MinimizerError
├── UserError              the input is at fault: say what, and what to do next (exit 2, HTTP 4xx)
│   ├── InvalidScript      empty, not UTF-8, not Python, too large
│   ├── InvalidOption      an unknown option, or a value out of range
│   └── MissingTool        no compiler, no torch, no bubblewrap where it is required
├── BudgetExceeded         the time that ``--budget`` allows is used up
│   └── DiskExceeded       the disk that a job may fill is
├── Cancelled              somebody asked us to stop
└── ChildFailed            the sandboxed child broke its protocol or died as a whole
"""

from __future__ import annotations


class MinimizerError(Exception):
    """Base of all errors of this package."""


class UserError(MinimizerError):
    """The input is at fault. The message says what is wrong and what to do next."""


class InvalidScript(UserError):
    """The script cannot be taken: empty, too large, not text, not Python."""


class InvalidOption(UserError):
    """An option is unknown or its value is out of range."""


class MissingTool(UserError):
    """Something this machine needs is not there; the message says how to get it."""


class BudgetExceeded(MinimizerError):
    """The time budget of the job is used up."""


class DiskExceeded(BudgetExceeded):
    """The disk that the job may fill is used up, which ends it like its time; more time would not help."""


class Cancelled(MinimizerError):
    """The job was cancelled by its owner."""


class ChildFailed(MinimizerError):
    """The sandboxed child died as a whole or answered with something we do not accept."""


class Unanswered(ChildFailed):
    """The holder of a graph is there but cannot give what was asked for, such as a tensor that no file can hold."""

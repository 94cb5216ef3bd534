"""Whose fault it is that a process died, came late or said nothing: each rule of the engine, in one ordered table.

What has run a process tells how it ended (`Death`) and asks `rule_for`, whose first rule that holds says whose fault that is, whether to ask
again before it counts, and how. What is laid to the machine never counts as the failure of a script: who cannot ask again raises
`WorkerTrouble`, or takes the answer for none (``lost``). Whether a job's own files have filled the disk is told in `child.scratch_disk`, and
whether its processes have filled the memory in `sandbox`, which measure that.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

OUT_OF_MEMORY, CONTEXT_LOST = "out_of_memory", "context_lost"
"""What an exception says of a GPU (``inside/failures.py``)."""
DIED = 128
"""A shell and the sandbox tell a death by signal n as exit status `DIED` + n."""
OWN_CODE = 70
"""Exit status of a child whose own code, not the script, raised (``inside/wire.py``)."""

GPU_FULL = re.compile(
    r"\btorch\.(cuda\.)?OutOfMemoryError|(CUDA|HIP) (driver error: |error: )?out of memory|Triton Error \[\w+\]: out of memory"
    r"|CU[A-Z]+_(STATUS_)?ALLOC_FAILED"
)
"""Messages of a process that ran out of GPU memory (the same as in ``inside/failures.py``)."""
STARVED_COMPILER = r"std::bad_alloc|Killed signal terminated program|cc1plus: out of memory|virtual memory exhausted|Cannot allocate memory"
"""Messages of a C++ compiler that ran out of memory."""
BROKEN = re.compile(
    r"file too short|cannot read file data|invalid ELF header|ELF load command|no loadable segments|cannot open shared object file"
    r"|No space left on device|Too many open files|Resource temporarily unavailable|truncated (object|file)|file format not recognized|"
    + STARVED_COMPILER
)
"""Messages of a broken or exhausted machine, in any exception."""
STARVED = re.compile(r"out of memory|can't allocate memory|MemoryError")
"""Messages of a run that ran out of memory. An exception of a trial that says so may be due to the program: it is compared with eager's."""


class Fault(Enum):
    """Whose fault an end is."""

    SCRIPT = "the program that was run: a failure like others"
    MACHINE = "memory, disk, GPU, or who kills processes there: it says nothing of the program"
    NOBODY = "ended by us, or our own code's: it says nothing of the program"


class Again(Enum):
    """How to ask once more before an end counts."""

    NOT = "it counts as it is"
    SAME = "as before"
    ALONE = "with no other process on the GPU"
    CLEAN_CACHE = "with an empty cache of compiled code"


@dataclass(frozen=True)
class Death:
    """How a process ended, as far as it is known.

    ``signal``: that it died by. ``status``: its exit status, if it had one. ``said``: what it said of its end: an exception's message, or the
    last of its output. ``gpu``: `OUT_OF_MEMORY`, `CONTEXT_LOST` or empty. ``is_by_us``: ended at its limit, by its watchdog, or with its job.
    ``is_silent``: it ended without an answer, and not by a signal. ``is_late``: it has not ended, and should have. ``is_crowded``: the machine
    has more to do than it has cores. ``is_run``: ``said`` is all the error output of a run of a script.
    """

    signal: int | None = None
    status: int | None = None
    said: str = ""
    gpu: str = ""
    is_by_us: bool = False
    is_silent: bool = False
    is_late: bool = False
    is_crowded: bool = False
    is_run: bool = False

    @classmethod
    def by_status(cls, status: int | None, said: str = "", *, is_by_us: bool = False, is_run: bool = False) -> Death:
        """The end of a process of its own; a status of None is one that was stopped."""
        is_by_us = is_by_us or status is None
        return cls(signal_of(status), status, said, is_by_us=is_by_us, is_run=is_run)


@dataclass(frozen=True)
class Rule:
    """A rule: what it is called, whom an end is laid to where it ``holds``, how to ask again, and why."""

    name: str
    holds: Callable[[Death], bool]
    fault: Fault
    again: Again
    why: str


GPU_IS_FULL = Rule(
    "the GPU is full",
    lambda death: death.gpu == OUT_OF_MEMORY or GPU_FULL.search(death.said) is not None,
    Fault.MACHINE,
    Again.ALONE,
    "it says nothing of a program while other processes hold GPU memory too",
)
ENDED_BY_US = Rule(
    "ended by us",
    lambda death: death.is_by_us,
    Fault.NOBODY,
    Again.NOT,
    "a limit or a watchdog has ended it; whether that is a hang is for the watchdog to say, which has seen its stack",
)
MACHINE_IS_BROKEN = Rule(
    "a broken or exhausted machine",
    lambda death: BROKEN.search(death.said) is not None or (death.is_run and STARVED.search(death.said) is not None),
    Fault.MACHINE,
    Again.CLEAN_CACHE,
    "a trial that was killed while it compiled leaves a truncated library, and a full disk or memory spoils what is being written",
)
KILLED = Rule(
    "killed by SIGKILL",
    lambda death: death.signal == signal.SIGKILL,
    Fault.MACHINE,
    Again.SAME,
    "by the kernel for want of memory, most often: a process that kills itself does so again, and others seldom strike twice",
)
BUS_ERROR = Rule(
    "killed by SIGBUS",
    lambda death: death.signal == signal.SIGBUS,
    Fault.SCRIPT,
    Again.CLEAN_CACHE,
    "a truncated library raises it too, so that it counts as a crash on a clean cache only",
)
LATE_IN_A_CROWD = Rule(
    "late, on a machine that has too much to do",
    lambda death: death.is_late and death.is_crowded,
    Fault.MACHINE,
    Again.NOT,
    "an answer that takes a moment on a machine at rest",
)
LATE = Rule("late", lambda death: death.is_late, Fault.NOBODY, Again.NOT, "nothing else keeps it from answering")
SILENT = Rule(
    "without a word",
    lambda death: death.is_silent,
    Fault.MACHINE,
    Again.CLEAN_CACHE,
    "a trial says how it ended, whatever the program does",
)
OWN_CODE_RAISED = Rule(
    "our own code raised",
    lambda death: death.status == OWN_CODE,
    Fault.NOBODY,
    Again.NOT,
    "the child's own code ends it with a status that a script does not use",
)
BY_ITSELF = Rule(
    "by itself",
    lambda death: True,
    Fault.SCRIPT,
    Again.NOT,
    "an exception, an exit status, or a signal that nobody else sends",
)
RULES = (
    GPU_IS_FULL, ENDED_BY_US, KILLED, MACHINE_IS_BROKEN, BUS_ERROR, LATE_IN_A_CROWD, LATE, SILENT, OWN_CODE_RAISED, BY_ITSELF,
)  # fmt: skip
"""In order: the first that holds counts."""
KILLED_EACH_TIME = "was killed with SIGKILL each time: by the kernel for want of memory, or by itself"


def rule_for(death: Death) -> Rule:
    """The rule by which an end is laid to somebody: the first of `RULES` that holds."""
    return next(rule for rule in RULES if rule.holds(death))


def signal_of(status: int | None) -> int | None:
    """The signal that an exit status tells of, or None: that of a process itself, or of a sandbox around it."""
    if status is None or 0 <= status <= DIED:
        return None
    return -status if status < 0 else status - DIED


def is_starved_compiler(said: str) -> bool:
    """Whether Inductor's C++ compiler ran out of memory, which is not a compile error of the script."""
    return "CppCompileError" in said and re.search(STARVED_COMPILER, said) is not None

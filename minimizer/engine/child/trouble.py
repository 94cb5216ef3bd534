"""Attributes the death, lateness or silence of a process: every rule of the engine, in one ordered table.

Whoever ran the process describes its end (`Death`) and calls `rule_for`. The first rule that holds says who is at
fault, whether to retry before the end counts, and how. An end attributed to the machine never counts as a failure of
the script: a caller that cannot retry raises `WorkerTrouble`, or discards the answer (``lost``). Whether a job's own
files filled the disk is decided in `child.scratch_disk`, and whether its processes filled the memory in `sandbox`:
those measure it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

OUT_OF_MEMORY, CONTEXT_LOST = "out_of_memory", "context_lost"
"""The GPU states of an exception (``inside/failures.py``)."""
DIED = 128
"""Offset of a signal in the exit status of a shell or the sandbox: `DIED` + n for signal n."""
OWN_CODE = 70
"""Exit status of a child whose own code, not the script, raised (``inside/wire.py``)."""

GPU_FULL = re.compile(
    r"\btorch\.(cuda\.)?OutOfMemoryError"
    r"|(CUDA|HIP) (driver error: |error: )?out of memory|Triton Error \[\w+\]: out of memory|CU[A-Z]+_(STATUS_)?ALLOC_FAILED"
)
"""Messages of a process that ran out of GPU memory: those of ``inside/failures.py``, which sees the exception itself, and
its name, since here it is text.
"""
STARVED_COMPILER = r"std::bad_alloc|Killed signal terminated program|cc1plus: out of memory|virtual memory exhausted|Cannot allocate memory"
"""Messages of a C++ compiler that ran out of memory."""
BROKEN = re.compile(
    r"file too short|cannot read file data|invalid ELF header|ELF load command|no loadable segments|cannot open shared object file"
    r"|No space left on device|Too many open files|Resource temporarily unavailable|truncated (object|file)|file format not recognized|"
    + STARVED_COMPILER
)
"""Messages of a broken or exhausted machine, in any exception."""
STARVED = re.compile(r"out of memory|can't allocate memory|MemoryError")
"""Messages of a run that ran out of memory. In a trial, the program may be the cause: it is compared with eager."""


class AtFault(Enum):
    """Who is at fault for an end."""

    SCRIPT = "the program that was run: a failure like others"
    MACHINE = "memory, disk, GPU, or who kills processes there: it says nothing of the program"
    NOBODY = "ended by us, or our own code's: it says nothing of the program"


class Again(Enum):
    """How to retry before an end counts."""

    NOT = "it counts as it is"
    SAME = "as before"
    ALONE = "with no other process on the GPU"
    CLEAN_CACHE = "with an empty cache of compiled code"


@dataclass(frozen=True)
class Death:
    """How a process ended, as far as known.

    ``signal``: the fatal signal. ``status``: the exit status, if any. ``said``: its last words: an exception's message,
    or the end of its output. ``gpu``: `OUT_OF_MEMORY`, `CONTEXT_LOST` or empty. ``is_by_us``: killed at its limit, by
    its watchdog, or with its job. ``is_silent``: ended without an answer, and not by a signal. ``is_late``: overdue,
    and still running. ``is_untold``: our own process that should report the end does not, or is gone without an end of
    its own. ``is_crowded``: the machine has more runnable processes than cores. ``is_run``: ``said`` is the
    whole error output of a run of a script.
    """

    signal: int | None = None
    status: int | None = None
    said: str = ""
    gpu: str = ""
    is_by_us: bool = False
    is_silent: bool = False
    is_late: bool = False
    is_untold: bool = False
    is_crowded: bool = False
    is_run: bool = False

    @classmethod
    def by_status(cls, status: int | None, said: str = "", *, is_by_us: bool = False, is_run: bool = False) -> Death:
        """The end of a separate process; a status of None means it was stopped."""
        is_by_us = is_by_us or status is None
        return cls(signal_of(status), status, said, is_by_us=is_by_us, is_run=is_run)


@dataclass(frozen=True)
class EndRule:
    """A rule: its name, its condition ``holds``, who is at fault, how to retry, and why."""

    name: str
    holds: Callable[[Death], bool]
    fault: AtFault
    again: Again
    why: str


GPU_IS_FULL = EndRule(
    "the GPU is full",
    lambda death: death.gpu == OUT_OF_MEMORY or GPU_FULL.search(death.said) is not None,
    AtFault.MACHINE,
    Again.ALONE,
    "it says nothing of a program while other processes hold GPU memory too",
)
ENDED_BY_US = EndRule(
    "ended by us",
    lambda death: death.is_by_us,
    AtFault.NOBODY,
    Again.NOT,
    "a limit or a watchdog has ended it; whether that is a hang is for the watchdog to say, which has seen its stack",
)
MACHINE_IS_BROKEN = EndRule(
    "a broken or exhausted machine",
    lambda death: BROKEN.search(death.said) is not None or (death.is_run and STARVED.search(death.said) is not None),
    AtFault.MACHINE,
    Again.CLEAN_CACHE,
    "a trial that was killed while it compiled leaves a truncated library, and a full disk or memory spoils what is being written",
)
KILLED = EndRule(
    "killed by SIGKILL",
    lambda death: death.signal == signal.SIGKILL,
    AtFault.MACHINE,
    Again.SAME,
    "by the kernel for want of memory, most often: a process that kills itself does so again, and others seldom strike twice",
)
BUS_ERROR = EndRule(
    "killed by SIGBUS",
    lambda death: death.signal == signal.SIGBUS,
    AtFault.SCRIPT,
    Again.CLEAN_CACHE,
    "a truncated library raises it too, so that it counts as a crash on a clean cache only",
)
UNTOLD = EndRule(
    "nobody tells how it ended",
    lambda death: death.is_untold,
    AtFault.MACHINE,
    Again.SAME,
    "the process that reports an end runs nothing of a script: it does so in a moment where it gets a processor",
)
LATE_IN_A_CROWD = EndRule(
    "late, on a machine that has too much to do",
    lambda death: death.is_late and death.is_crowded,
    AtFault.MACHINE,
    Again.NOT,
    "an answer that takes a moment on a machine at rest",
)
LATE = EndRule("late", lambda death: death.is_late, AtFault.NOBODY, Again.NOT, "nothing else keeps it from answering")
SILENT = EndRule(
    "without a word",
    lambda death: death.is_silent,
    AtFault.MACHINE,
    Again.CLEAN_CACHE,
    "a trial says how it ended, whatever the program does",
)
OWN_CODE_RAISED = EndRule(
    "our own code raised",
    lambda death: death.status == OWN_CODE,
    AtFault.NOBODY,
    Again.NOT,
    "the child's own code ends it with a status that a script does not use",
)
BY_ITSELF = EndRule(
    "by itself",
    lambda death: True,
    AtFault.SCRIPT,
    Again.NOT,
    "an exception, an exit status, or a signal that nobody else sends",
)
RULES = (
    GPU_IS_FULL, ENDED_BY_US, KILLED, MACHINE_IS_BROKEN, BUS_ERROR, UNTOLD, LATE_IN_A_CROWD, LATE, SILENT, OWN_CODE_RAISED, BY_ITSELF,
)  # fmt: skip
"""In order: the first that holds counts."""
KILLED_EACH_TIME = "was killed with SIGKILL each time: by the kernel for want of memory, or by itself"


def rule_for(death: Death) -> EndRule:
    """The first of `RULES` that holds for an end."""
    return next(rule for rule in RULES if rule.holds(death))


def signal_of(status: int | None) -> int | None:
    """The signal behind an exit status, of the process itself or as reported by a sandbox around it; else None."""
    if status is None or 0 <= status <= DIED:
        return None
    return -status if status < 0 else status - DIED


def is_starved_compiler(said: str) -> bool:
    """Whether Inductor's C++ compiler ran out of memory, which is not a compile error of the script."""
    return "CppCompileError" in said and re.search(STARVED_COMPILER, said) is not None

"""The results of a survey: the failure seen, and its signature.

`Case`: a failing graph, held in the child. `ScriptCase`: a failure without a graph. `Settled`: a verdict.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field, replace
from typing import Any

from minimizer.engine.child import protocol
from minimizer.engine.child.outcome import ExceptionInfo, Verdict
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.trouble import OUT_OF_MEMORY
from minimizer.engine.child.watchdog import Silence
from minimizer.engine.oracle.signature import Signature, exception_signature, verdict_signature
from minimizer.engine.program.model import Program
from minimizer.inside.questions import HoldPlace
from minimizer.report.excused import Excused
from minimizer.vocabulary import Kind, Reason, Stage, Status

LAYOUT = re.compile(r"\bstrides?\b|is_contiguous|memory_format")
"""Words in the message or source line of a check of memory layout."""


@dataclass(frozen=True)
class Case:
    """A failure, with the survey that holds its call.

    ``tolerance``: the script's own, if the difference exceeds only that. ``identity``: whether the failure is that two
    outputs are one object.
    """

    survey: Survey
    program: Program
    signature: Signature
    message: str
    exception: ExceptionInfo | None = None
    verdict: Verdict | None = None
    tolerance: dict[str, Any] | None = None
    identity: bool = False
    checked: protocol.Checked = field(default_factory=protocol.Checked)
    graph: int | None = None
    """The graph's index, in order of compilation."""
    instance: str = ""
    """The path of the module instance that made the call; empty if unknown, or for the root itself."""
    call: int = 0
    """The failing call of the graph, from 0; -1 if compilation fails."""
    runs: int = 1
    """Runs of the script until the failure showed, including that one."""
    otherwise: Settled | None = None
    """For a suspect only: the verdict if no part of the graph is wrong in isolation."""
    is_warm: bool = False
    """Whether the run read graphs from the compiler's caches that an earlier, healthy run had left there."""
    is_cached: bool = False
    """Whether the run used the compiler's caches, even if only its own earlier compilations had filled them."""
    dump: str = ""
    """The stacks of all threads, if the script died by a signal or hangs."""
    is_asserted: bool = False
    """Whether a check of the script's own fails because of this difference."""

    @property
    def stack(self) -> str:
        """The stack of the failure: that of its exception, or the dump."""
        return self.exception.stack if self.exception is not None else self.dump

    @property
    def device(self) -> str:
        """``cuda`` if an input of the graph is on a GPU, else ``cpu``."""
        devices = {i.meta.device for i in self.program.inputs if i.meta is not None}
        return "cuda" if "cuda" in devices else "cpu"

    @property
    def is_layout(self) -> bool:
        """Whether only the memory layout differs: the values are equal, and strides are not."""
        return self.verdict is not None and self.verdict.is_layout_only

    @property
    def layout_only(self) -> bool:
        """Whether it ranks below every other failure: only the layout differs, and the script does not check that."""
        return self.is_layout and not self.is_asserted

    def weighted(self) -> Program:
        """The graph with its outputs multiplied by the cotangents of the held backward, in the form of
        `Program.as_compiled`.

        Raises:
            ChildFailed: it has no such form.
        """
        return self._as_script_compiles(self.survey.program("weighted"))

    def lowered(self) -> Program:
        """The graph in aten operators, in the form of `Program.as_compiled`.

        Raises:
            ChildFailed: it cannot be traced.
        """
        return self._as_script_compiles(self.survey.program("aot"))

    def _as_script_compiles(self, form: Program) -> Program:
        """Another form of the graph, with the setup of the script's own form and its arguments of ``torch.compile``."""
        own = self.program
        return replace(form, setup=own.setup, compile_kwargs=own.compile_kwargs).as_compiled()


@dataclass(frozen=True)
class Cache:
    """A cache of the compiler that a failure needs: its name, its stage, and the message of the failing call."""

    name: str
    stage: Stage
    message: str


AOT_CACHE, INDUCTOR_CACHE = "AOTAutograd's cache", "the cache of Inductor's graphs"


@dataclass(frozen=True)
class Settled:
    """A verdict, without a graph to reduce; ``kind``: of a failure seen in some of ``runs``, if any."""

    status: Status
    reason: Reason | None
    summary: str
    checked: protocol.Checked = field(default_factory=protocol.Checked)
    kind: Kind | None = None
    exception: ExceptionInfo | None = None
    cache: Cache | None = None
    """The cache of the compiler that the failure needs."""
    notes: tuple[str, ...] = ()
    excused: tuple[Excused, ...] = ()
    """The excuses of our side for this verdict, in addition to those of the runs in ``checked``."""
    runs: int = 1
    failed: int = 1
    """Number of runs that failed."""
    layout_only: bool = False
    """Whether the failure is a difference of memory layout only."""
    draws: protocol.OtherDraws | None = None
    """The random operator that draws otherwise than in eager, if that is the failure."""
    traceback: str = ""
    """The traceback of a plain run, or the stacks of a script that died or hangs."""

    @property
    def stack(self) -> str:
        """The stack of the failure, as far as known."""
        return self.traceback or (self.exception.stack if self.exception is not None else "")


@dataclass(frozen=True)
class ScriptCase:
    """A failure that no graph carries; ``otherwise``: the verdict if the script does not fail without our hooks.

    The rest is for a mere suspect, in words. ``written_over``: a call that overwrote an earlier result, a failure if
    the script reads it later. ``other_zeros``: a call that flipped the sign of a zero, likewise. ``behind_change``: a
    backward before which the script had changed an input of its call, so that no replayed backward is the same.
    """

    otherwise: Settled
    written_over: str = ""
    other_zeros: str = ""
    behind_change: str = ""

    @property
    def is_suspect(self) -> bool:
        """Whether only the program around the graphs can show if it is a failure."""
        return bool(self.written_over or self.other_zeros or self.behind_change)


Surveyed = Case | ScriptCase | Settled


def is_healthy(found: Surveyed) -> bool:
    return isinstance(found, Settled) and found.status is Status.HEALTHY


def held_signature(failure: protocol.Failure) -> Signature:
    """The signature of a held call's failure."""
    if failure.verdict is not None:
        return verdict_signature(failure.verdict)
    assert failure.kind is not None
    return exception_signature(Kind(failure.kind), failure.exception)


def missing_signature(call: protocol.Missing) -> Signature:
    return exception_signature(Kind.MISSING_ERROR, call.exception)


def is_starved(found: Surveyed) -> bool:
    return isinstance(found, Settled) and found.status is Status.PARTIAL and is_out_of_memory(found.exception)


def is_out_of_memory(error: ExceptionInfo | None) -> bool:
    """Whether the GPU ran out of memory, which proves nothing while our own processes hold some of it."""
    return error is not None and error.device == OUT_OF_MEMORY


def lost_signature(lost: protocol.Lost, error: ExceptionInfo) -> Signature:
    """The signature of a call in which the process lost its CUDA context."""
    return exception_signature(Kind.COMPILE_ERROR if lost.phase == "compile" else Kind.RUNTIME_ERROR, error)


def signal_name(number: int) -> str:
    """The name of a signal: ``SIGABRT`` for 6."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def checks_layout(error: ExceptionInfo) -> bool:
    """Whether a check of the script's own concerns memory layout, by its message or its source line."""
    line = error.frames[-1][2] if error.frames else ""
    return LAYOUT.search(f"{error.root_message}\n{line}") is not None


def is_own_check(error: ExceptionInfo) -> bool:
    """Whether the script itself raised the error, by ``assert``, ``raise`` or ``sys.exit``."""
    if error.root_type == "AssertionError" or not error.frames:
        return error.root_type == "AssertionError" and not error.is_of_torch
    file, _, line = error.frames[-1]
    return "/" not in file and re.search(r"\braise\b|\b(exit|quit)\(", line) is not None


def place_of(phase: protocol.Phase) -> HoldPlace | None:
    """The graph and call of a survey's last phase; None if it names none."""
    return None if phase.graph is None else HoldPlace(phase.graph, phase.call)


def hang_signature(silence: Silence) -> Signature:
    return Signature(Kind.HANG, where=silence.where)


def checked_of(phase: protocol.Phase) -> protocol.Checked:
    """The coverage of a survey as of its last phase."""
    return phase.checked or protocol.Checked()


def message_of(error: ExceptionInfo | None, verdict: Verdict | None) -> str:
    """The message of a failure: the first line of its exception, or its first difference."""
    if error is not None:
        return line_of(error)
    first = verdict.differences[0] if verdict and verdict.differences else None
    return f"{first.where}: {first.what}: expected {first.expected}, got {first.actual}"[:1000] if first else ""


def line_of(error: ExceptionInfo) -> str:
    name = error.root_type.rpartition(".")[2]
    first = next((line for line in error.root_message.splitlines() if line.strip()), "")
    return f"{name}: {first}"[:500]

"""The signature of a failure: what two failures must share to count as the same.

Messages are compared without parts that change between runs, exceptions with their operator.
"""

from __future__ import annotations

import hashlib
import re
import signal
from collections import Counter
from dataclasses import dataclass

from minimizer.engine.child import stacks
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome, Verdict
from minimizer.engine.child.trouble import CONTEXT_LOST, KILLED
from minimizer.report.model import AlsoSeen, each_once
from minimizer.vocabulary import Kind

KINDS = {
    Ending.COMPILE_ERROR: Kind.COMPILE_ERROR,
    Ending.RUNTIME_ERROR: Kind.RUNTIME_ERROR,
    Ending.MISSING_ERROR: Kind.MISSING_ERROR,
    Ending.CRASH: Kind.CRASH,
    Ending.TIMEOUT: Kind.HANG,
}
MOST_SEEN = 20
"""Most other failures in a report."""
NONFINITE = ("nan", "inf")
OVERWRITTEN = "memory"
"""Subject of a crash caused by overwritten memory."""
OF_MEMORY = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV})
"""The signals that kill a process with overwritten memory, varying from run to run."""
ABSENT = "type"
"""The type of a structural difference: a gradient that is None, a tuple that is shorter."""
OPERATOR = re.compile(r"\b(?:aten|prims|quantized|torch\.ops\.\w+|torch_ops|higher_order)(?:\.|::)(\w+)")
"""An operator in a message."""
KERNEL = re.compile(r"\"(\w+?)(?:_(?:channels_last|out_frame|frame|cpu|cuda|kernel|impl)\w*)?\" not implemented for")
"""Matches a kernel in a message, without the suffix for its memory layout."""
OF_ONE_OPERATOR = re.compile(
    r"torch/(_meta_registrations\.py|_refs/|_decomp/|_prims/|_inductor/(lowering|decomposition|kernel/))"
)
"""Files of torch with a function for each operator."""
CALLED = re.compile(r"\b(?:torch\._C(?:\._\w+)?|torch|_VF|F|torch\.nn\.functional|torch\.ops\.\w+)\.(?P<op>[a-z]\w+)\(")
"""Matches a call of an operator in a line of torch's own, which makes no other call before it."""
OF_ALL_OPERATORS = re.compile(
    r"torch/(__init__|_ops|_tensor|_VF|functional|overrides|_prims_common/\w+|_dynamo/utils|_inductor/graph)\.py|torch/(nn|fx|utils|_subclasses|_library)/|(?!torch/)"
)
"""Files that raise for any operator: dispatchers, general checks, and the script."""


@dataclass(frozen=True)
class Signature:
    """The signature of a failure: what two failures must share to count as the same.

    ``exception_type`` and ``message``: those of the root cause; the message without numbers, addresses and paths.
    ``where``: the innermost frame (file and function); for a hang the frame that never returns, empty if unknown.
    ``what``: the type of difference. ``nonfinite``: NaN or infinities are part of it. ``mechanism``: the mechanism of a
    difference that would otherwise be legal rounding; empty if the fault needs none.
    """

    kind: Kind
    exception_type: str = ""
    message: str = ""
    where: str = ""
    what: str = ""
    signal: int | None = None
    nonfinite: bool = False
    mechanism: str = ""
    operator: str = ""
    """The operator of an exception, if its message or its innermost frame names one.

    Not part of ``text``, which groups failures across versions.
    """

    @property
    def text(self) -> str:
        """A short stable name, for grouping."""
        died_by = None if self.what == OVERWRITTEN else self.signal
        known = (self.kind, self.exception_type, self.message, self.where, self.what, died_by)
        parts = (*known, self.mechanism) if self.mechanism else known
        return f"{self.kind}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"

    def is_of_sort(self, other: Signature) -> bool:
        """Whether two differences have the same type: both of finite values or neither, both of a missing value or
        neither.
        """
        return self.what == other.what and self.nonfinite == other.nonfinite

    def matches(self, other: Signature) -> bool:
        """Whether ``other`` is the same failure.

        For exceptions, the operator must be the same if both name one. The message may differ in its numbers and
        shapes, and entirely if the same function of the compiler, or of that operator, raises it: a function that
        serves every operator, such as ``F.interpolate`` or the script, identifies none. Bare exceptions have no
        message.
        """
        if self.kind is not other.kind:
            return False
        if OVERWRITTEN in (self.what, other.what):
            return {self.signal, other.signal} <= OF_MEMORY
        if self.signal != other.signal:
            return False
        if self.kind.is_of_metadata:
            return self.what == other.what
        if self.kind is Kind.HANG:
            return self.where in ("", other.where)
        if self.kind.is_numeric:
            # A missing gradient and wrong values of one are different failures of the same kind. And an operator that
            # returns NaN may also differ slightly on finite values, which is another fault, if any.
            is_known = self.mechanism in ("", other.mechanism)
            return (
                is_known and (self.what == ABSENT) == (other.what == ABSENT) and (other.nonfinite or not self.nonfinite)
            )
        if self.exception_type != other.exception_type or (
            self.operator != other.operator and self.operator and other.operator
        ):
            return False
        if self.message and without_shapes(self.message) == without_shapes(other.message):
            return True
        is_there = self.where != "" and self.where == other.where
        is_telling = not self.message or (self.operator and other.operator) or not OF_ALL_OPERATORS.match(self.where)
        return bool(is_there and is_telling) or not (self.message or self.where)


def normalise(message: str) -> str:
    """The first line of a message without parts that change between runs: numbers, value names, addresses, paths."""
    compiler_error = re.search(r"error: (.+)", message)
    if "CppCompileError" in message or "C++ compile error" in message:
        message = compiler_error[1] if compiler_error else message
    message = message.strip().split("\n", 1)[0]
    message = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", message)
    message = re.sub(r"(/[\w.+-]+)+/?", "PATH", message)
    message = re.sub(r"\b[a-zA-Z_]+_?\d+\b", "NAME", message)
    message = re.sub(r"\d+(\.\d+)?([eE][+-]?\d+)?", "N", message)
    return message[:300]


def without_shapes(message: str) -> str:
    """A normalised message without shapes, however many dimensions they have."""
    return re.sub(r"\(N?(, ?N)*,?\)|\[N?(, ?N)*\]", "SHAPE", message)


def operator_of(error: ExceptionInfo) -> str:
    """The operator of an exception, or its kernel; empty if neither the message nor the innermost frame names one."""
    message = error.root_message.partition("\n")[0]
    if (named := OPERATOR.search(message)) is not None:
        return named[1]
    if (inner := next((name for file, name, _ in reversed(error.frames) if OF_ONE_OPERATOR.match(file)), "")) != "":
        return inner
    file, _, line = error.frames[-1] if error.frames else ("", "", "")
    called = CALLED.findall(line) if file.startswith("torch/") and OF_ALL_OPERATORS.match(file) else []
    if len(called) == 1:
        return str(called[0])
    kernel = KERNEL.search(message)
    return kernel[1] if kernel is not None else ""


def exception_signature(kind: Kind, error: ExceptionInfo | None) -> Signature:
    """The signature of a failure that is an exception."""
    if error is None:
        return Signature(kind)
    message = normalise(error.root_message)  # not the wrapper's, which is equal for all causes
    if error.device == CONTEXT_LOST:  # kernels run asynchronously: the raising frame proves nothing
        return Signature(kind, error.root_type, message)
    where = f"{error.frames[-1][0]}:{error.frames[-1][1]}" if error.frames else ""
    return Signature(kind, error.root_type, message, where, operator=operator_of(error))


def verdict_signature(verdict: Verdict) -> Signature:
    """The signature of a failure that is a difference."""
    kind = verdict.kind or Kind.WRONG_OUTPUT
    first = next((d for d in verdict.differences if d.kind == kind), None)
    nonfinite = any(d.what in NONFINITE for d in verdict.differences)
    return Signature(kind, what=first.what if first else "value", nonfinite=nonfinite, mechanism=verdict.mechanism)


def crash_signature(died_by: int | None, log: str) -> Signature:
    """The signature of a process that died by a signal; ``log``: its output."""
    is_overwritten = died_by in OF_MEMORY and stacks.overwrites_memory(log)
    return Signature(Kind.CRASH, signal=died_by, what=OVERWRITTEN if is_overwritten else "")


def signature_of(outcome: Outcome) -> Signature | None:
    """The signature of a trial's failure; None if it did not fail, or could not be judged."""
    if outcome.ending is Ending.DIFFERENT and outcome.verdict is not None:
        return verdict_signature(outcome.verdict)
    kind = KINDS.get(outcome.ending)
    if kind is None or (kind in (Kind.CRASH, Kind.HANG) and outcome.phase not in ("compiled", "backward")):
        return None
    if kind is Kind.CRASH:
        return None if outcome.rule is KILLED else crash_signature(outcome.signal, outcome.log)
    if kind is Kind.HANG:
        return Signature(kind, where=next(iter(outcome.places[-1:]), ""))
    return exception_signature(kind, outcome.exception)


def also_seen(failures: Counter[Signature]) -> list[AlsoSeen]:
    """The report's list of other failures, the most frequent ones; equal texts are merged."""
    return each_once(
        AlsoSeen(kind=one.kind, signature=one.text, message=one.message, times=times)
        for one, times in failures.most_common()
    )[:MOST_SEEN]


def is_inside(outcome: Outcome, hang: Signature) -> bool:
    """Whether a trial timed out inside the frame that never returns."""
    return hang.kind is Kind.HANG and outcome.ending is Ending.TIMEOUT and hang.where in outcome.places

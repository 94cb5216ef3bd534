"""Exceptions as data that can be compared between runs and sent over the pipe."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .stack import stack_of

MAX_MESSAGE = 4000
"""Characters of a message to keep, to limit the traffic over the pipe."""
_ENDED_RECOMPUTATION = "_StopRecomputationError"
_CONTROL_FLOW = {
    "RestartAnalysis", "SkipFrame", "SpeculationRestartAnalysis", "TensorifyScalarRestartAnalysis", _ENDED_RECOMPUTATION,
}  # fmt: skip
"""Exceptions by which Dynamo begins again, or a checkpoint ends a call that it makes once more as soon as it has saved what it has to."""
MAX_CHAIN = 100
"""Most exceptions in a followed chain."""
COMPILER_EXCEPTIONS = {"torch._dynamo.exc", "torch._inductor.exc"}
"""Modules whose exception types only the compiler raises."""
TRANSLATION, FAKE_KERNELS, ASSERTION = "torch/_dynamo/convert_frame.py", "torch/_subclasses/", "torch/__init__.py"
"""Dynamo's translation, the operators that it runs on fake tensors, and the place where `torch._assert` raises."""
OUT_OF_MEMORY = re.compile(
    r"(CUDA|HIP) (driver error: |error: )?out of memory|Triton Error \[\w+\]: out of memory|CU[A-Z]+_(STATUS_)?ALLOC_FAILED"
)
"""Out-of-memory messages of PyTorch, Triton and CUDA's libraries.

Triton's ``OutOfResources`` is not one: it is a limit of one kernel.
"""
LOST = "context_lost"
CONTEXT_LOST = re.compile(
    r"illegal memory access was encountered|device-side assert|misaligned address|unspecified launch failure"
    r"|illegal instruction was encountered|invalid program counter|hardware stack error"
    r"|operation not supported on global/shared address space|launch timed out and was terminated|uncorrectable (ECC|NVLink) error"
)
"""CUDA's errors after which every further call of the process fails in the same way (the driver API's "sticky" errors)."""


@dataclass
class ExceptionInfo:
    """An exception and its root cause."""

    type: str
    message: str
    root_type: str
    root_message: str
    frames: list[list[str]]
    """The last frames as [file below site-packages, function, line text], innermost last."""
    device: str
    """The result of `device_error`."""
    stack: str = ""
    """All frames that led to the exception, formatted like a Python traceback."""
    source: list[object] | None = None
    """Innermost line of the user's own code on the stack, as [file, line number, text]."""
    library: list[object] | None = None
    """Innermost line of a third-party library called from ``source``, in the same form; None if there is none."""


def describe(error: BaseException) -> ExceptionInfo:
    """The description of an exception and its root cause: type, message and raising frames of both, and the whole
    stack.

    Compilers wrap an error several times (``BackendCompilerFailed``, ``InductorError``, ``LoweringException``);
    engineers look for the root cause.
    """
    root = innermost(error)
    return ExceptionInfo(
        type=_name(error),
        message=_text(error),
        root_type=_name(root),
        root_message=_text(root),
        frames=_frames(root) or _frames(error),
        device=device_error(error),
        **stack_of(error, root, f"{_name(root)}: {_text(root)}"),
    )


def device_error(error: BaseException) -> str:
    """The GPU's state after an exception: ``out_of_memory``, `LOST` (CUDA is unusable in this process), or empty for
    neither.
    """
    said = f"{error}\n{innermost(error)}"
    if CONTEXT_LOST.search(said):
        return LOST
    is_full = _name(innermost(error)) == "torch.OutOfMemoryError" or OUT_OF_MEMORY.search(said)
    return "out_of_memory" if is_full else ""


def innermost(error: BaseException) -> BaseException:
    """Follow ``inner_exception``, ``__cause__`` and groups to the exception that was raised first.

    The handled exception (``__context__``) counts too where it says more: for a SystemExit, and if a handler of a
    compiler error raises another exception. A ``CalledProcessError`` is not followed: the exception that wraps it
    quotes the C++ compiler's errors.
    """
    return _chain(error)[-1]


def _chain(error: BaseException, above: frozenset[int] = frozenset()) -> list[BaseException]:
    """The exception, the one that it wraps or replaces, and so on; ``above``: ids of the outer ones."""
    above |= {id(error)}
    wrapped = _wrapped(error)
    inner = error.__context__ if wrapped is None else wrapped
    if (
        inner is None
        or id(inner) in above
        or len(above) == MAX_CHAIN
        or isinstance(inner, subprocess.CalledProcessError)
    ):
        return [error]
    rest = _chain(inner, above)
    is_told = wrapped is not None or isinstance(error, SystemExit) or _replaces(error, rest)
    return [error, *rest] if is_told else [error]


def is_among(error: BaseException, raised: BaseException | None) -> bool:
    """Whether an exception is like another one, by type and message, or like one that this wraps or replaces."""
    chain = [] if raised is None else _chain(raised)
    return any((type(one), str(one)) == (type(error), str(error)) for one in chain)


def _wrapped(error: BaseException) -> BaseException | None:
    """The exception inside this one, or its cause; for a group, a compiler error in it, or its only exception."""
    inner = getattr(error, "inner_exception", None) or error.__cause__
    if inner is None and (grouped := _grouped(error)):
        compilers = [one for one in grouped if raised_while_compiling(one)]
        inner = next(iter(compilers or (grouped if len(grouped) == 1 else ())), None)
    return inner if isinstance(inner, BaseException) else None


def _grouped(error: BaseException) -> Sequence[BaseException]:
    """The exceptions of a group; Python 3.10 has no groups."""
    group: Any = getattr(builtins, "BaseExceptionGroup", None)
    return error.exceptions if group is not None and isinstance(error, group) else ()


def _replaces(error: BaseException, handled: Sequence[BaseException]) -> bool:
    """Whether this was raised by the very frame that caught a compiler error, rather than by a callee of its handler."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    caught = handled[0].__traceback__
    is_there = bool(frames) and caught is not None and frames[-1] is caught.tb_frame
    return is_there and any(map(_is_of_compiler, handled))


def _text(error: BaseException) -> str:
    """The message of an exception; for C++ compile errors only the error lines, without the pages of warnings before
    them.
    """
    text = str(error)
    if "C++ compile error" in text:
        errors = [line.strip() for line in text.splitlines() if re.search(r"\berror: |out of memory", line)]
        text = "\n".join([text.strip().split("\n", 1)[0], *errors]) if errors else text
    return text[:MAX_MESSAGE]


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _frames(error: BaseException) -> list[list[str]]:
    """The last frames as [file below site-packages, function, line text], innermost last.

    Without line numbers, which change between versions.
    """
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return [[_short(frame.filename), frame.name, (frame.line or "")[:200]] for frame in frames]


def _short(path: str) -> str:
    _, marker, tail = path.rpartition("site-packages" + os.sep)
    return tail if marker else os.path.basename(path)


def raised_while_compiling(error: BaseException) -> bool:
    """Whether an exception was raised while Dynamo or a backend compiled, and not by running compiled code.

    Dynamo removes its own frames from tracebacks (``ShortenTraceback``), so exception types are checked as well as
    frames.
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if id(current) in seen:  # a group may contain an exception whose handler raised the group
            continue
        if _is_of_compiler(current):
            return True
        seen.add(id(current))
        earlier = current.__cause__ or current.__context__
        pending += [*_grouped(current), *([earlier] if earlier is not None else [])]
    return False


def _is_of_compiler(error: BaseException) -> bool:
    if any(kind.__module__ in COMPILER_EXCEPTIONS for kind in type(error).__mro__):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    is_of_backend = any(frame.name == "_call_user_compiler" and "_dynamo" in frame.filename for frame in frames)
    return is_of_backend or raised_by_dynamo(error)


def raised_by_dynamo(error: BaseException) -> bool:
    """Whether Dynamo's own code raised an exception, of any type, during translation or guard creation.

    An ``IndexError`` of an operator on fake tensors, and an assertion of `torch._assert`, pass through unchanged: eager
    raises the same.
    """
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    begun = next((index for index, code in enumerate(codes) if code.co_filename.endswith(TRANSLATION)), None)
    if begun is None or codes[-1].co_filename.endswith(ASSERTION):
        return False
    return not any(FAKE_KERNELS in code.co_filename or code.co_name == "run_node" for code in codes[begun:])


def is_control_flow(error: BaseException) -> bool:
    """Whether an exception is of PyTorch's own control flow, and no failure."""
    return bool(_CONTROL_FLOW & _kinds(error))


def is_of_checkpoint(error: BaseException) -> bool:
    """Whether a checkpoint has ended, by this exception, a call that it makes once more."""
    return _ENDED_RECOMPUTATION in _kinds(error)


def _kinds(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}

"""Sees launches of Triton kernels, which write to tensors behind the back of every dispatch mode."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .elements import EXACT, diff_elements
from .rounding import tensors

MOST_BYTES = 1 << 28
"""Bytes of a launch's tensors, above which all of them count as written."""


@contextlib.contextmanager
def watched(launched: Callable[[list[Tensor], list[Tensor]], None]) -> Iterator[None]:
    """Tell ``launched`` the tensors that each kernel launched in the body was given, and those of them that it changed.

    Every launch ends in ``JITFunction.run`` (``triton/runtime/jit.py``), those of autotuned kernels and of captured graphs too; what
    Inductor generates is launched otherwise. Does nothing where the process has not imported Triton.
    """
    jit: Any = sys.modules.get("triton.runtime.jit")
    if jit is None:
        yield
        return
    original = jit.JITFunction.run

    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        given = tensors((args, kwargs))
        before = _copies(given)
        result = original(kernel, *args, **kwargs)
        written = given if before is None else _changed(given, before)
        launched(given, written)
        return result

    jit.JITFunction.run = run
    try:
        yield
    finally:
        jit.JITFunction.run = original


def _copies(given: list[Tensor]) -> list[Tensor] | None:
    """Copies of tensors; None where there are too many bytes of them, or no memory, or none may be made."""
    is_captured = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    if is_captured or sum(tensor.nbytes for tensor in given) > MOST_BYTES:
        return None
    try:
        with _disable_current_modes():
            return [tensor.clone() for tensor in given]
    except torch.OutOfMemoryError:
        return None


def _changed(given: list[Tensor], before: list[Tensor]) -> list[Tensor]:
    with _disable_current_modes():
        return [one for one, old in zip(given, before, strict=True) if diff_elements(old, one, EXACT) is not None]

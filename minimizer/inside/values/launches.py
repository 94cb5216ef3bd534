"""Sees launches of Triton kernels, which write to tensors behind the back of every dispatch mode."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .elements import EXACT, diff_elements
from .rounding import tensors


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
        with _disable_current_modes():
            before = [tensor.clone() for tensor in given]
        result = original(kernel, *args, **kwargs)
        with _disable_current_modes():
            written = [
                one for one, old in zip(given, before, strict=True) if diff_elements(old, one, EXACT) is not None
            ]
        launched(given, written)
        return result

    jit.JITFunction.run = run
    try:
        yield
    finally:
        jit.JITFunction.run = original

"""Does the one-time work of a process's first compilation in the zygote, so that no fork has to: half of its Python
time.

Inductor traces the patterns of its passes, and asks the C++ compiler for its version; a fork inherits both.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Callable

import torch

from ..gpu import has_gpu

ALONE = 1
"""Number of threads of a process that may be forked."""


def done_beforehand() -> None:
    """Do this work here, if a fork has done it without an error and without starting a thread.

    On a machine with a GPU the patterns are left to the processes that need them: tracing may ask for the devices
    there.
    """
    for step in (_know_the_compiler, *(() if has_gpu() else (_trace_patterns,))):
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):
                _silenced(step)
                status = int(len(os.listdir("/proc/self/task")) != ALONE)
            os._exit(status)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            _silenced(step)


def _silenced(step: Callable[[], None]) -> None:
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
        step()


def _trace_patterns() -> None:
    """Trace each set of patterns, registered once per process and device by these functions of Inductor's
    (``init_once_fakemode``).

    Everything else cached on the way is cleared: a copy of the table of decompositions, to which a script may add one,
    or the environment.
    """
    from torch._inductor.fx_passes import joint_graph, post_grad
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = {id(kept): kept.cache_info().currsize for kept in _kept_results()}
    joint_graph.lazy_init(torch.device("cpu"))
    post_grad.lazy_init()
    for kept in _kept_results():
        is_registration = getattr(kept, "__name__", "").endswith("_init")
        if kept.cache_info().currsize > before.get(id(kept), 0) and not is_registration:
            kept.cache_clear()
    FakeTensorMode.cache_clear()


def _kept_results() -> list[functools._lru_cache_wrapper[object]]:
    """All functions of this process with cached results (``functools.cache``)."""
    return [value for value in gc.get_objects() if isinstance(value, functools._lru_cache_wrapper)]


def _know_the_compiler() -> None:
    """Fill Inductor's caches of these functions, which are keyed by the compiler's path."""
    from torch._inductor import cpp_builder

    compiler = cpp_builder.get_cpp_compiler()
    cpp_builder._is_clang(compiler)
    cpp_builder._is_gcc(compiler)
    cpp_builder.get_compiler_version_info(compiler)

"""Imports and settings of the zygote before it forks, and a check that forks can still use the GPU afterwards."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import site
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points

from .gpu import asking_the_driver, counted_without_runtime, has_gpu, runtime
from .hooks import WISHED, absent, lacks
from .messages import Ready

WARM = (
    "torch._dynamo",
    "torch._dynamo.repro.after_dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.compile_fx",
    "torch._inductor.async_compile",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.codegen.wrapper",
    "torch._inductor.cpp_builder",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.fx_passes.pre_grad",
    "torch._inductor.lowering",
    "torch._inductor.scheduler",
    "torch.testing",
    "torch.fx.experimental.proxy_tensor",
    # imported by the first compilation of a process, before the first kernel
    "sympy.physics.units.systems",
    "sympy.tensor.tensor",
    "torch._inductor.choices",
    "torch._inductor.fx_passes.fuse_attention",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.utils.cpp_extension",
)
NO_FORK = "CUDA was started in the process that all trials are forked from, and a forked process cannot use it then."
SINCE = "What was imported there did so later, in a thread."
CPP_EXTENSION = "torch.utils.cpp_extension"


def warm_up() -> Ready:
    """Import what trials need, compute nothing, and describe this Python. If torch lacks what is needed, stop there.

    Raises:
        RuntimeError: there is a GPU, and an import made it unusable in forks; the message names the import.
    """
    gc.disable()  # a fifth of the time would be garbage collection of imported objects, which stay anyway
    import_all(WARM)
    import torch

    from .compiler.environment import environment

    ready = Ready(environment(), bool(torch.version.cuda) and has_gpu(), lacks(), absent(WISHED))
    if ready.lacks:  # then our own modules may not even be importable
        return ready
    from .compiler.first_compilation import done_beforehand
    from .compiler.processor import remember_headers, remember_probes

    remember_probes()
    remember_headers()
    done_beforehand()
    gc.collect()
    gc.freeze()  # keeps the garbage collector from writing to, and so copying, pages that children share
    gc.enable()
    return ready


def import_all(names: Sequence[str]) -> None:
    """Import torch, then these modules; after each import check that forks can still use the GPU, if there is one.

    Raises:
        RuntimeError: they cannot; the message names the import.
    """
    was_imported = "torch" in sys.modules
    with asking_the_driver():
        import torch  # noqa: F401  (what follows asks it)

        _require_usable(_started_by_site() if was_imported else _started_by_torch())
        with counted_without_runtime(), _no_word_of_missing_cuda():
            for name in names:
                with contextlib.suppress(
                    ImportError
                ):  # a private module may move or be missing; then trials import what they need
                    importlib.import_module(name)
                _require_usable(f"`import {name}` did that.")


def why_no_fork() -> str | None:
    """Why a fork could not use the GPU; None if no reason is known.

    Calls no function of the runtime, and imports nothing.
    """
    gpus = runtime()
    return f"{NO_FORK} {SINCE}" if gpus is not None and has_gpu() and gpus.is_initialized() else None


def _require_usable(cause: str) -> None:
    if why_no_fork() is not None or (has_gpu() and _child_is_spoiled()):
        raise RuntimeError(f"{NO_FORK} {cause}")


def _child_is_spoiled() -> bool:
    """Whether a fork cannot use the GPU, tried in a fork.

    Counting the devices is enough to break CUDA in forks, and only a fork can detect it. One that is killed meanwhile
    has detected nothing.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(int(runtime()._is_in_bad_fork()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def _started_by_site() -> str:
    modules = (sys.modules.get(name) for name in ("sitecustomize", "usercustomize"))
    files = [str(module.__file__) for module in modules if module is not None]
    found = " or ".join(files) or f"a .pth file in {' or '.join(site.getsitepackages())}"
    return f"What Python imports at its start did that: {found}."


def _started_by_torch() -> str:
    plugins = sorted(entry.value for entry in entry_points(group="torch.backends"))
    return f"`import torch` did that{', which loads the plug-ins ' + ', '.join(plugins) if plugins else ''}."


@contextlib.contextmanager
def _no_word_of_missing_cuda() -> Iterator[None]:
    """Suppress the module's warning on import if ``nvcc`` is installed and there is no GPU."""
    logger = logging.getLogger(CPP_EXTENSION)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)

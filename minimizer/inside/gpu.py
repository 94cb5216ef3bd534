"""Whether this process can use a GPU, decided by torch's build, device files and environment variables alone.

torch is not asked: without NVML it counts devices through the CUDA runtime, even if there are none, and then no forked
process can use CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

DEV = "/dev"
NVIDIA = (("nvidiactl", "nvidia[0-9]*"), ("dxg",), ("nvhost-gpu",), ("nvgpu/igpu*",))
"""Groups of device files; CUDA needs one group.

Those of cards, of WSL, and of Tegra's own GPU. A driver that found no card has only a ``nvidiactl``, and a container
may have none of them.
"""
ROCM = (("kfd", "dri/renderD*"), ("dxg",))
XPU = (("dri/renderD*",), ("dxg",))
CUDA_HIDES = ("CUDA_VISIBLE_DEVICES",)
ROCM_HIDES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def runtime() -> Any:
    """``torch.cuda`` in builds for CUDA and ROCm, ``torch.xpu`` in those for XPU.

    None in a CPU build, or before torch is imported.
    """
    torch: Any = sys.modules.get("torch")
    version = getattr(torch, "version", None)
    if getattr(version, "cuda", None) or getattr(version, "hip", None):
        return torch.cuda
    return torch.xpu if getattr(version, "xpu", None) else None


@functools.cache
def has_gpu() -> bool:
    """Whether the imported torch may find a GPU here."""
    version: Any = sys.modules["torch"].version
    if getattr(version, "hip", None):
        return _is_there(ROCM) and not any(map(_hides_all, ROCM_HIDES))
    if getattr(version, "cuda", None):
        return _is_there(NVIDIA) and not any(map(_hides_all, CUDA_HIDES))
    return bool(getattr(version, "xpu", None)) and _is_there(XPU)


def _is_there(groups: tuple[tuple[str, ...], ...]) -> bool:
    return any(all(map(_is_usable, group)) for group in groups)


def _is_usable(pattern: str) -> bool:
    return any(os.access(path, os.R_OK | os.W_OK) for path in glob.glob(os.path.join(DEV, pattern)))


def _hides_all(variable: str) -> bool:
    """Whether a variable that lists devices leaves none: the list ends at its first entry that can name no device."""
    first = os.environ.get(variable, "0").split(",")[0].strip()
    return not (first.isdigit() or first.upper().startswith(("GPU-", "MIG-")))


@contextlib.contextmanager
def counted_without_runtime() -> Iterator[None]:
    """Keep ``device_count()`` and ``is_available()`` of an imported ``torch.cuda`` off the CUDA runtime inside the
    block.

    They ask the driver's library for its devices, or nothing without a GPU; if the library does not answer (Tegra, a
    library of another version than the driver), they return 1.
    """
    cuda: Any = sys.modules["torch"].cuda
    before = {name: vars(cuda)[name] for name in ("_device_count_nvml", "_device_count_amdsmi") if name in vars(cuda)}
    for name, count in before.items():
        setattr(cuda, name, functools.partial(_count, count))
    try:
        yield
    finally:
        for name, count in before.items():
            setattr(cuda, name, count)


def _count(ask: Callable[[], int]) -> int:
    if not has_gpu():
        return 0
    count = ask()
    return 1 if count < 0 else count


@contextlib.contextmanager
def asking_the_driver() -> Iterator[None]:
    """Make ``torch.cuda.is_available()`` ask the driver's library, NVML, instead of the runtime inside the block."""
    before = os.environ.get(BY_NVML)
    os.environ[BY_NVML] = "1"
    try:
        yield
    finally:
        del os.environ[BY_NVML]
        os.environ.update({BY_NVML: before} if before is not None else {})

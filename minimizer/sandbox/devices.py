"""The accelerators that a sandbox shows: the GPUs that a job may use, and no others.

A GPU is shown by its device files. The driver's libraries are in ``/usr``, which every sandbox shows, also if a container runtime or
WSL has mounted them there. ``/proc/driver/nvidia``, which describes all cards, is hidden only from jobs without a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minimizer.sandbox.gpus import Gpu, own_gpus

SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Device files that every NVIDIA GPU needs in addition to its own; ``nvidia-modeset`` is only for displays."""
MIB_OF_A_TRIAL = 8 << 10
"""GPU memory in MiB for each concurrent trial: a CUDA context takes up to half a GiB, copies of a window's values the rest."""


@dataclass(frozen=True)
class Devices:
    """The accelerators that a sandbox shows; by default none.

    ``rocm``: all of AMD's as well. ``hidden``: without ``gpus``, set an empty ``CUDA_VISIBLE_DEVICES``.
    ``trouble``: why there is no GPU although there should be one.
    """

    gpus: tuple[Gpu, ...] = ()
    rocm: bool = False
    hidden: bool = False
    trouble: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that select the GPUs for CUDA."""
        if self.gpus:
            return {"CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in self.gpus)}
        return {"CUDA_VISIBLE_DEVICES": ""} if self.hidden else {}

    def nodes(self, root: Path = Path("/")) -> list[Path]:
        """The existing device files to show."""
        dev = root / "dev"
        wanted: list[Path] = []
        if self.gpus:
            wanted = [dev / f"nvidia{gpu.minor}" for gpu in self.gpus if gpu.minor is not None]
            wanted += [dev / name for name in SHARED_NODES]
            wanted += [dev / "nvidia-caps" / f"nvidia-cap{number}" for number in self._capabilities(root)]
            wanted.append(dev / "dxg")
        if self.rocm:
            wanted += [dev / "kfd", *sorted(dev.glob("dri/renderD*"))]
        return [node for node in dict.fromkeys(wanted) if node.exists()]

    def at_once(self, jobs: int, shared_by: int) -> int:
        """Number of trials, at most ``jobs``, that fit at once into the memory of the smallest GPU, shared by ``shared_by`` jobs.

        ``jobs`` if no GPU's memory size is known.
        """
        known = [gpu.memory_mib for gpu in self.gpus if gpu.memory_mib]
        return min(jobs, max(1, min(known) // shared_by // MIB_OF_A_TRIAL)) if known else jobs

    def _capabilities(self, root: Path) -> list[int]:
        """Minor numbers of the device files that grant access to MIG instances."""
        found = []
        for gpu in self.gpus:
            if gpu.instance is not None:
                instance, compute = gpu.instance
                folder = root / f"proc/driver/nvidia/capabilities/gpu{gpu.minor}/mig/gi{instance}"
                found += [_device_minor(folder / "access"), _device_minor(folder / f"ci{compute}" / "access")]
        return [minor for minor in found if minor is not None]


NO_DEVICES = Devices(hidden=True)


def devices_for(
    device: Literal["auto", "cpu", "cuda"], environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> Devices:
    """The devices of a job that asks for ``device``: none for the CPU, else all that this process may use."""
    if device == "cpu":
        return NO_DEVICES
    own = own_gpus(environ, root)
    return Devices(own.gpus, rocm=(root / "dev/kfd").exists(), hidden=bool(own.trouble), trouble=own.trouble)


def _device_minor(file: Path) -> int | None:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split(":")[1]) for line in lines if line.startswith("DeviceFileMinor:")), None)

"""The sandbox for untrusted code: bubblewrap, or plain limits if that is not available, or none on request.

The user's script is hostile, and so is everything that shares a process with it. It sees only the folders in ``read`` and
``write``, at the same paths as outside, the system's libraries and compilers, and the environment that is passed.
``kill`` ends a command and all its descendants.

A sandbox dies with the process that started it. A command that was ended by signal N reports the exit status 128 + N;
only in mode "off" it is -N, as ``subprocess`` has it.
"""

from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Sandbox
from minimizer.sandbox.bubblewrap import Bubblewrap, try_bubblewrap, why_no_bubblewrap
from minimizer.sandbox.cgroup import Bounds, bounded
from minimizer.sandbox.choice import Mode, choose_sandbox
from minimizer.sandbox.compilers import COMPILER_VARIABLES, cxx
from minimizer.sandbox.devices import Devices, devices_for
from minimizer.sandbox.exposure import refuse_exposed
from minimizer.sandbox.gpu_processes import GpuProcess, free_gpus
from minimizer.sandbox.gpus import Gpu, NoGpus, own_gpus
from minimizer.sandbox.interpreter import (
    editable_paths,
    found_outside,
    real_interpreter,
    require_torch,
    runtime_paths,
    without_bytecode,
)
from minimizer.sandbox.limits import Limits, Unconfined

__all__ = [
    "COMPILER_VARIABLES",
    "HOW_TO_GET_BUBBLEWRAP",
    "Bounds",
    "Bubblewrap",
    "Devices",
    "Gpu",
    "GpuProcess",
    "Limits",
    "Mode",
    "NoGpus",
    "Sandbox",
    "Unconfined",
    "bounded",
    "choose_sandbox",
    "cxx",
    "devices_for",
    "free_gpus",
    "own_gpus",
    "real_interpreter",
    "require_torch",
    "refuse_exposed",
    "editable_paths",
    "found_outside",
    "runtime_paths",
    "try_bubblewrap",
    "why_no_bubblewrap",
    "without_bytecode",
]

"""The GPUs of a job: chooses the visible ones for its children, and frees their memory before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.sandbox import Devices, GpuProcess, NoGpus, devices_for, free_gpus

MOST_NAMED = 5


def devices_of(options: Options, on_note: Callable[[str], None]) -> Devices:
    """The devices of a job; if its script may run without a GPU, ``on_note`` receives the reason why there is none.

    Raises:
        MissingTool: the job requires a GPU, and none can be used.
    """
    devices = devices_for(options.device)
    if options.device == "cuda" and not devices.gpus:
        none = "no NVIDIA GPU is visible here, or CUDA_VISIBLE_DEVICES hides all. `minimizer doctor` says more."
        raise MissingTool(f"--device cuda: {devices.trouble or none}")
    if devices.trouble:
        on_note(f"The script sees no GPU: {devices.trouble}")
    return devices


@contextmanager
def freed(devices: Devices, on_note: Callable[[str], None]) -> Iterator[None]:
    """Kill processes that earlier jobs of ours left on the job's GPUs, and on exit those that this job left.

    Processes of others stay; ``on_note`` receives their names, since the script lacks the memory they hold.
    """
    others = _free(devices, on_note)
    if others:
        on_note(f"The GPU is shared: {_named(others)} on it {'are' if len(others) > 1 else 'is'} not ours.")
    try:
        yield
    finally:
        known = {process.pid for process in others}
        left = [process for process in _free(devices, on_note) if process.pid not in known]
        if left:
            on_note(f"After the job {_named(left)} still held GPU memory: not ours to end, or it would not end.")


def _free(devices: Devices, on_note: Callable[[str], None]) -> list[GpuProcess]:
    if not devices.gpus:
        return []
    try:
        return free_gpus(devices.gpus)
    except NoGpus as error:
        on_note(f"Whether GPU memory is free could not be seen: {error}")
        return []


def _named(processes: Sequence[GpuProcess]) -> str:
    more = f" and {len(processes) - MOST_NAMED} more" if len(processes) > MOST_NAMED else ""
    return ", ".join(process.text for process in processes[:MOST_NAMED]) + more

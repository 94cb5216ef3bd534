"""Chooses the sandbox for a mode on this machine."""

from __future__ import annotations

from typing import Literal

from minimizer.errors import MissingTool
from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Sandbox, default_bounds
from minimizer.sandbox.bubblewrap import Bubblewrap, why_no_bubblewrap
from minimizer.sandbox.devices import Devices
from minimizer.sandbox.limits import Limits, Unconfined

Mode = Literal["auto", "required", "off"]


def choose_sandbox(
    mode: Mode,
    memory_bytes: int | None = None,
    devices: Devices = Devices(),  # noqa: B008
    job_memory_bytes: int | None = None,
) -> Sandbox:
    """The sandbox for a mode; whether bubblewrap works here is tried once per process.

    ``memory_bytes`` limits each process started in it; None: no limit but the machine's. ``devices`` are the accelerators that
    it shows. ``job_memory_bytes`` bounds all processes together; None: see `default_bounds`.

    Raises:
        MissingTool: the mode is "required" and bubblewrap does not work here.
    """
    bounds = default_bounds(job_memory_bytes)
    if mode == "off":
        return Unconfined(memory_bytes, devices, bounds)
    trouble = why_no_bubblewrap()
    if trouble is None:
        return Bubblewrap(memory_bytes, devices, bounds)
    if mode == "required":
        raise MissingTool(f"The sandbox is required, but {trouble}. {HOW_TO_GET_BUBBLEWRAP}")
    return Limits(trouble, memory_bytes, devices, bounds)

"""Which sandbox a mode means on this machine."""

from __future__ import annotations

from typing import Literal

from minimizer.errors import MissingTool
from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Sandbox
from minimizer.sandbox.bubblewrap import Bubblewrap, why_no_bubblewrap
from minimizer.sandbox.devices import Devices
from minimizer.sandbox.limits import Limits, Unconfined

Mode = Literal["auto", "required", "off"]


def choose_sandbox(mode: Mode, memory_bytes: int | None = None, devices: Devices = Devices()) -> Sandbox:  # noqa: B008
    """The sandbox for a mode; whether bubblewrap works here is tried once per process.

    ``memory_bytes`` holds for each process of all that will be started in it; None is no limit but the machine's.
    ``devices`` are the accelerators that it shows.

    Raises:
        MissingTool: the mode is "required" and bubblewrap does not work here.
    """
    if mode == "off":
        return Unconfined(memory_bytes, devices)
    trouble = why_no_bubblewrap()
    if trouble is None:
        return Bubblewrap(memory_bytes, devices)
    if mode == "required":
        raise MissingTool(f"The sandbox is required, but {trouble}. {HOW_TO_GET_BUBBLEWRAP}")
    return Limits(trouble, memory_bytes, devices)

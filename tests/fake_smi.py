"""A stand-in for ``nvidia-smi``: a program on the PATH that prints what the real one would for cards that are not there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

GPU = """
<gpu id="0000000{index}:19:00.0"><product_name>{name}</product_name><uuid>{uuid}</uuid><minor_number>{minor}</minor_number>
<mig_mode><current_mig>{mig}</current_mig></mig_mode><mig_devices>{instances}</mig_devices>
<fb_memory_usage><total>{memory} MiB</total><used>1 MiB</used></fb_memory_usage></gpu>"""
INSTANCE = """
<mig_device><index>{index}</index><gpu_instance_id>{gi}</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>20096 MiB</total></fb_memory_usage></mig_device>"""
SCRIPT = """#!/bin/sh
case "$1" in
  -q) cat {folder}/log.xml ;;
  -L) cat {folder}/list ;;
  --query-compute-apps*) cat {folder}/apps ;;
esac
"""


@dataclass(frozen=True)
class Card:
    """A card; ``instances`` are its MIG instances: GPU instance, profile and UUID of each."""

    uuid: str
    minor: str = "0"
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 81559
    instances: list[tuple[int, str, str]] = field(default_factory=list)


class FakeSmi:
    """The program, in a folder of its own in front of the PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.path, self._folder = folder / "nvidia-smi", folder
        self.path.write_text(SCRIPT.format(folder=folder))
        self.path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self.holds()

    def has(self, *cards: Card) -> None:
        """From now on these cards are there."""
        log, lines = "", []
        for index, card in enumerate(cards):
            instances = "".join(INSTANCE.format(index=at, gi=gi) for at, (gi, _, _) in enumerate(card.instances))
            mig = "Enabled" if card.instances else "Disabled"
            log += GPU.format(**{**vars(card), "index": index, "mig": mig, "instances": instances or "None"})
            lines.append(f"GPU {index}: {card.name} (UUID: {card.uuid})")
            lines += [
                f"  MIG {profile}  Device  {at}: (UUID: {uuid})" for at, (_, profile, uuid) in enumerate(card.instances)
            ]
        head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        driver = "<driver_version>580.82.07</driver_version>"
        (self._folder / "log.xml").write_text(f"{head}<nvidia_smi_log>{driver}{log}</nvidia_smi_log>")
        (self._folder / "list").write_text("\n".join(lines) + "\n")

    def holds(self, *apps: tuple[int, str]) -> None:
        """From now on these processes hold memory: the id of each, and the UUID of its card."""
        lines = [f"{pid}, {uuid}, 500, /usr/bin/python3" for pid, uuid in apps]
        (self._folder / "apps").write_text("".join(f"{line}\n" for line in lines))

    def lists_while_alive(self, pid: int, uuid: str) -> None:
        """From now on a process holds memory for as long as it lives."""
        is_alive = f'grep -qs "^State:.[^Z]" /proc/{pid}/status && echo "{pid}, {uuid}, 500, python3"; true'
        self.path.write_text(SCRIPT.format(folder=self._folder).replace(f"cat {self._folder}/apps", is_alive))

    def does(self, body: str) -> None:
        """From now on the program does this, whatever it is asked."""
        self.path.write_text(f"#!/bin/sh\n{body}\n")

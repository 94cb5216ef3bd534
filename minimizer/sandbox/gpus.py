"""The NVIDIA GPUs of this machine as ``nvidia-smi`` lists them, and the subset that ``CUDA_VISIBLE_DEVICES`` assigns to us.

We read numbers in ``CUDA_VISIBLE_DEVICES`` as ``nvidia-smi`` does, in PCI bus order. CUDA's own default order puts the fastest
card first, so children always get UUIDs, which mean the same to both.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

SMI_SECONDS = 60
"""Timeout of nvidia-smi: without the persistence daemon the driver wakes every card first, which takes seconds for each."""
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
INSTALL = (
    "Install the driver's tools; a container needs the NVIDIA container toolkit and the driver capability `utility`."
)


class NoGpus(Exception):
    """The GPUs cannot be used; the message says why, and what to do."""


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG instance of one."""

    uuid: str
    name: str
    index: int
    """Number of the card in nvidia-smi's list."""
    minor: int | None
    """N of the card's ``/dev/nvidia<N>``; None if it has no such device (WSL)."""
    memory_mib: int
    """Memory in MiB; 0 if it is not known."""
    driver: str
    card: str
    """UUID of the card; differs from ``uuid`` for a MIG instance only."""
    instance: tuple[int, int] | None = None
    """Numbers of the GPU instance and the compute instance of a MIG instance; None for a whole card."""

    @property
    def text(self) -> str:
        """A description for a message."""
        memory = f", {self.memory_mib:,} MiB" if self.memory_mib else ""
        return f"{self.name} ({self.uuid}{memory})"


@dataclass(frozen=True)
class Own:
    """The GPUs that this process may use; ``trouble``: why there are none although there should be some."""

    gpus: tuple[Gpu, ...] = ()
    trouble: str = ""


def own_gpus(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Own:
    """The GPUs that this process may use.

    An empty or negative ``CUDA_VISIBLE_DEVICES`` means none, deliberately. An entry that names no GPU is an error (``trouble``): CUDA
    would silently ignore it and all entries after it.
    """
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None and (not wanted.strip() or wanted.strip().startswith("-")):
        return Own()
    if wanted is None and not (_smi() or any((root / node).exists() for node in ("dev/nvidiactl", "dev/dxg"))):
        return Own()
    try:
        return Own(tuple(_chosen(list_gpus() if _smi() else _told_by_kernel(root), wanted)))
    except NoGpus as error:
        return Own(trouble=str(error))


def list_gpus() -> list[Gpu]:
    """All GPUs that the driver shows to this process; a partitioned card is replaced by its MIG instances.

    Raises:
        NoGpus: nvidia-smi is missing, or does not answer.
    """
    try:
        log = ElementTree.fromstring(ask_smi("-q", "-x"))
    except ElementTree.ParseError:
        raise NoGpus("nvidia-smi -q -x does not answer in XML. Reinstall the driver.") from None
    driver = log.findtext("driver_version", "").strip()
    listed = _instances() if any(_is_divided(gpu) for gpu in log.iter("gpu")) else {}
    found: list[Gpu] = []
    for index, entry in enumerate(log.iter("gpu")):
        uuid = entry.findtext("uuid", "").strip()
        card = Gpu(
            uuid=uuid,
            name=entry.findtext("product_name", "").strip(),
            index=index,
            minor=_number(entry.findtext("minor_number")),
            memory_mib=_number(entry.findtext("fb_memory_usage/total")) or 0,
            driver=driver,
            card=uuid,
        )
        found += _divided(card, entry, listed.get(uuid, [])) if _is_divided(entry) else [card]
    return found


def _told_by_kernel(root: Path) -> list[Gpu]:
    """The GPUs as the kernel driver lists them, if nvidia-smi is missing; without memory sizes and MIG instances.

    Raises:
        NoGpus: the driver lists none.
    """
    found = []
    driver = re.search(r"Module\s+(\d[\d.]*)", _text(root / "proc/driver/nvidia/version"))
    for index, file in enumerate(sorted(root.glob("proc/driver/nvidia/gpus/*/information"))):
        facts = dict(re.findall(r"^([\w ]+):\s*(.+?)\s*$", _text(file), re.MULTILINE))
        uuid = facts.get("GPU UUID", "")
        if uuid.startswith("GPU-") and "?" not in uuid:
            minor = _number(facts.get("Device Minor"))
            found.append(Gpu(uuid, facts.get("Model", ""), index, minor, 0, driver[1] if driver else "", uuid))
    if not found:
        raise NoGpus(f"nvidia-smi is not on the PATH. {INSTALL}")
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def ask_smi(*arguments: str) -> str:
    """Run nvidia-smi; its standard output.

    Raises:
        NoGpus: it is missing, or fails.
    """
    smi = _smi()
    if smi is None:
        raise NoGpus(f"nvidia-smi is not on the PATH. {INSTALL}")
    try:
        done = subprocess.run(
            [smi, *arguments], capture_output=True, text=True, errors="replace", timeout=SMI_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoGpus(f"nvidia-smi does not answer within {SMI_SECONDS} s. The driver may need a reboot.") from None
    except OSError as error:
        raise NoGpus(f"nvidia-smi cannot be started ({error.strerror}). {INSTALL}") from None
    if done.returncode != 0:
        said = " ".join((done.stdout + done.stderr).split())[:300] or f"exit status {done.returncode}"
        raise NoGpus(f"The driver does not answer; nvidia-smi says: {said}")
    return done.stdout


def _smi() -> str | None:
    return shutil.which("nvidia-smi") or shutil.which(WSL_SMI)


def _chosen(gpus: list[Gpu], wanted: str | None) -> list[Gpu]:
    names = [] if wanted is None else [entry.strip() for entry in wanted.split(",")]
    chosen = gpus if wanted is None else list(dict.fromkeys(_named(gpus, name) for name in names))
    if not chosen:
        raise NoGpus("nvidia-smi lists no GPU.")
    if len(chosen) > 1 and any(gpu.instance for gpu in chosen):
        there = ", ".join(gpu.uuid for gpu in chosen)
        raise NoGpus(f"A process can use one MIG instance: name one of {there} in CUDA_VISIBLE_DEVICES.")
    return chosen


def _named(gpus: list[Gpu], name: str) -> Gpu:
    """The GPU with this number or UUID, which may be abbreviated, as CUDA allows."""
    if name.isdecimal():
        fitting = [gpu for gpu in gpus if gpu.index == int(name)]
        if any(gpu.instance for gpu in fitting):
            instances = ", ".join(gpu.uuid for gpu in fitting)
            raise NoGpus(f"GPU {name} is partitioned: name an instance of it in CUDA_VISIBLE_DEVICES: {instances}.")
    else:
        fitting = [gpu for gpu in gpus if name.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(name)]
    if len(fitting) != 1:
        how = "more than one GPU" if fitting else "no GPU"
        there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
        raise NoGpus(f"CUDA_VISIBLE_DEVICES names {name or 'an empty entry'}, which is {how} here; there are: {there}.")
    return fitting[0]


def _is_divided(entry: ElementTree.Element) -> bool:
    return entry.findtext("mig_mode/current_mig", "").strip() == "Enabled"


def _divided(card: Gpu, entry: ElementTree.Element, listed: list[tuple[str, str]]) -> list[Gpu]:
    """The MIG instances of a card: the XML has their numbers, ``nvidia-smi -L`` their names and UUIDs, in the same order."""
    instances = [
        replace(
            card,
            uuid=uuid,
            name=f"{card.name} MIG {profile}",
            memory_mib=_number(device.findtext("fb_memory_usage/total")) or 0,
            instance=(
                _number(device.findtext("gpu_instance_id")) or 0,
                _number(device.findtext("compute_instance_id")) or 0,
            ),
        )
        for device, (profile, uuid) in zip(entry.iter("mig_device"), listed, strict=False)
    ]
    if not instances:
        raise NoGpus(f"MIG is on for GPU {card.index}, and it has no instance. Make one: nvidia-smi mig -cgi ... -C")
    return instances


def _instances() -> dict[str, list[tuple[str, str]]]:
    """The profile and the UUID of each MIG instance, by the UUID of its card."""
    found: dict[str, list[tuple[str, str]]] = {}
    card = ""
    for line in ask_smi("-L").splitlines():
        uuid = line.rpartition("UUID: ")[2].rstrip(") ")
        if line.startswith("GPU "):
            card = uuid
        elif line.strip().startswith("MIG "):
            found.setdefault(card, []).append((line.split()[1], uuid))
    return found


def _number(text: str | None) -> int | None:
    """The number that a text begins with, as in ``81559 MiB``; None for ``N/A``."""
    first = (text or "").split()[:1]
    return int(first[0]) if first and first[0].isdecimal() else None

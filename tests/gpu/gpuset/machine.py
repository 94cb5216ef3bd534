"""What this machine has: the torch of an interpreter, the card, its driver and its memory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROBE = """
import json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    import torch
except ImportError as error:
    found["missing"] = str(error)
else:
    found.update(torch=torch.__version__, cuda=torch.version.cuda or torch.version.hip or "")
    if torch.cuda.is_available():
        found.update(card=torch.cuda.get_device_name(), capability=list(torch.cuda.get_device_capability()))
    try:
        import triton
        found["triton"] = triton.__version__
    except ImportError:
        pass
print(json.dumps(found))
"""
PROBE_SECONDS, SMI_SECONDS = 180, 20


@dataclass(frozen=True)
class Machine:
    """An interpreter and the card that its torch sees. ``trouble`` says why there is no device; empty where there is one."""

    python: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    card: str = ""
    driver: str = ""
    trouble: str = ""


def probe(interpreter: Path, device: str) -> Machine:
    """What an interpreter has for a device; never raises."""
    try:
        done = subprocess.run(
            [interpreter, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        return Machine(trouble=f"{interpreter} could not say what torch it has ({type(error).__name__}).")
    names = ("python", "torch", "triton", "cuda", "card")
    machine = Machine(**{name: found.get(name, "") for name in names})
    driver = smi_table("--query-gpu=driver_version") if machine.card else []
    return Machine(
        **{
            **vars(machine),
            "driver": driver[0][0] if driver else "",
            "trouble": trouble(interpreter, device, machine, found.get("missing", "")),
        }
    )


def trouble(interpreter: Path, device: str, machine: Machine, missing: str) -> str:
    """Why nothing can be run on a device, with what to do; empty where it can."""
    if missing:
        return f"{interpreter} has no torch ({missing}): name the interpreter that has it, make test-gpu PYTHON=/path/to/python"
    if device == "cpu" or machine.card:
        return ""
    if not machine.cuda:
        return f"torch {machine.torch} of {interpreter} is built for the CPU only: name an interpreter with a CUDA build, make test-gpu PYTHON=/path/to/python"
    return f"torch {machine.torch} of {interpreter} sees no CUDA device: look at nvidia-smi and at CUDA_VISIBLE_DEVICES"


def smi_table(query: str) -> list[list[str]]:
    """The cells that ``nvidia-smi`` answers a query with; none where it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_table(done.stdout) if done.returncode == 0 else []


def parse_table(text: str) -> list[list[str]]:
    """Lines of comma-separated cells, as ``nvidia-smi --format=csv,noheader,nounits`` writes them."""
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def free_mib() -> int | None:
    """Free memory of the first card, in MiB; None where it is not known."""
    return _number(smi_table("--query-gpu=memory.free"))


def used_mib() -> int | None:
    """Memory in use on the first card, in MiB; None where it is not known."""
    return _number(smi_table("--query-gpu=memory.used"))


def used_by_process() -> dict[int, int]:
    """MiB by process id, of the processes that have a context on a card; those of other PID namespaces are not ours to see."""
    rows = smi_table("--query-compute-apps=pid,used_memory")
    return {int(row[0]): int(row[1]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1].isdigit()}


def _number(table: list[list[str]]) -> int | None:
    return int(table[0][0]) if table and table[0][0].isdigit() else None


@dataclass
class Peaks:
    """The greatest memory of each running script, in MiB: of its own processes, or of the whole card where those are not seen."""

    of_processes: Callable[[], dict[int, int]] = used_by_process
    of_card: Callable[[], int | None] = used_mib
    own: dict[str, int] = field(default_factory=dict)
    card: dict[str, int] = field(default_factory=dict)

    def sample(self, running: dict[str, int]) -> None:
        """Look at the card once; ``running`` has the id of the first process of each script."""
        used, total = self.of_processes(), self.of_card() or 0
        for name, first in running.items():
            mine = sum(used.get(pid, 0) for pid in family(first))
            self.own[name] = max(self.own.get(name, 0), mine)
            self.card[name] = max(self.card.get(name, 0), total)

    def of(self, name: str) -> tuple[int | None, bool]:
        """The peak of a script, and whether it is only a bound, as others may have run beside it."""
        if self.own.get(name):
            return self.own[name], False
        return self.card.get(name) or None, True


def family(first: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, ahead = {first}, [first]
    while ahead:
        new = [child for child in children.get(ahead.pop(), ()) if child not in found]
        found.update(new)
        ahead.extend(new)
    return found

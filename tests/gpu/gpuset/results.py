"""Results as JSON lines, written as they come; a later call keeps those that still hold and does what is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from .expect import Answer
from .machine import Machine
from .rows import Row

DONE, OVER, CUT = "done", "over its limit", "cut"
"""How a run ended: by itself, stopped at its own limit, or stopped with the whole set. Only what was cut is run again."""


@dataclass(frozen=True)
class Result:
    """A run of one script. ``answer`` is None where there was no report; ``gpu_mib_is_bound``: of the whole card."""

    name: str
    device: str
    code: str
    status: str
    answer: Answer | None
    summary: str
    seconds: float
    gpu_mib: int | None
    gpu_mib_is_bound: bool
    machine: Machine
    when: str

    @property
    def is_final(self) -> bool:
        return self.status != CUT


def read(path: Path) -> dict[str, Result]:
    """The last result of each script; a line that was cut off in the middle counts for nothing."""
    found: dict[str, Result] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            result = _parse(line)
        except (ValueError, TypeError, KeyError):
            continue
        found[result.name] = result
    return found


def append(path: Path, result: Result) -> None:
    """Add a line and have it on the disk before the next script ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps(asdict(result)) + "\n")


def missing(rows: Iterable[Row], known: dict[str, Result], codes: dict[str, str], machine: Machine) -> list[Row]:
    """The rows without a final result of this code on this card with this torch."""

    def holds(row: Row) -> bool:
        result = known.get(row.name)
        return (
            result is not None
            and result.is_final
            and result.code == codes[row.name]
            and (result.machine.torch, result.machine.card) == (machine.torch, machine.card)
        )

    return [row for row in rows if not holds(row)]


def code_of(row: Row, engine: Path) -> str:
    """A hash of the engine's sources and of the script: a result holds for the code that gave it."""
    digest = hashlib.sha256()
    for file in (*sorted(engine.rglob("*.py")), row.script):
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _parse(line: str) -> Result:
    raw = json.loads(line)
    answer = raw["answer"]
    if answer is not None:
        answer = Answer(**{**answer, "ops": tuple(answer["ops"])})
    return Result(**{**raw, "answer": answer, "machine": Machine(**raw["machine"])})

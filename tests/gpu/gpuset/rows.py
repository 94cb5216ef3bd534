"""The rows of the set, from ``set.json``: a script, how it is run on a device, and the answers that are right there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1]
SCRIPTS, TABLE = FOLDER / "scripts", FOLDER / "set.json"
DEVICES = ("cuda", "cpu")
LIMIT, MEMORY_GIB = 150, 6.0
"""Seconds for one script, and GiB of GPU memory: a context of CUDA takes half a GiB, and each trial has one."""


@dataclass(frozen=True)
class Side:
    """A script on one device.

    Attributes:
        accept: the right answers, as ``set.json`` has them; see `expect.judge`.
        arguments: further arguments of ``minimizer run``.
        limit: seconds that the script may take.
        memory_gib: GPU memory that must be free before it is begun.
        alone: whether nothing may run beside it.
        known_wrong: why the engine's answer is wrong today; empty where it is right.
    """

    accept: tuple[dict[str, Any], ...]
    arguments: tuple[str, ...] = ()
    limit: int = LIMIT
    memory_gib: float = MEMORY_GIB
    alone: bool = False
    known_wrong: str = ""


@dataclass(frozen=True)
class Row:
    """A script of the set. ``no_twin`` says why it has no twin on a CPU, where it has none."""

    name: str
    what: str
    sides: dict[str, Side]
    no_twin: str = ""

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.name}.py"


def load(path: Path = TABLE) -> list[Row]:
    """All rows, in the order in which they are run: the quickest and most telling first."""
    return [
        Row(
            raw["name"],
            raw["what"],
            {device: _side(raw[device]) for device in DEVICES if device in raw},
            raw.get("no_twin", ""),
        )
        for raw in json.loads(path.read_text())
    ]


def chosen(rows: Sequence[Row], device: str, names: Iterable[str]) -> list[Row]:
    """The named rows that run on a device, in the order of the set; all of them where none is named.

    Raises:
        ValueError: a name is not in the set, or that script does not run on the device.
    """
    here = [row for row in rows if device in row.sides]
    wanted = list(names)
    if unknown := sorted(set(wanted) - {row.name for row in here}):
        raise ValueError(
            f"not in the set for {device}: {', '.join(unknown)}; known are {', '.join(r.name for r in here)}"
        )
    return [row for row in here if not wanted or row.name in wanted]


def _side(raw: dict[str, Any]) -> Side:
    return Side(**{**raw, "accept": tuple(raw["accept"]), "arguments": tuple(raw.get("arguments", ()))})

"""The share of a long table of scripts that one commit runs: the same on every day, another one for the next commit."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Row = TypeVar("Row")


def commit() -> str:
    """The commit that is checked out; the empty text where there is no history, as in an unpacked archive."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def share(rows: Sequence[Row], count: int, name: Callable[[Row], str], commit: str) -> list[Row]:
    """``count`` of the rows, drawn by the hash of the commit and of their names, in the order of the table; all if WHOLE_CORPUS is set."""
    if "WHOLE_CORPUS" in os.environ:
        return list(rows)

    def rank(row: Row) -> bytes:
        return hashlib.sha256(f"{commit} {name(row)}".encode()).digest()

    drawn = {name(row) for row in sorted(rows, key=rank)[:count]}
    return [row for row in rows if name(row) in drawn]

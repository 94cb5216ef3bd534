"""Runs a page of docs/ as a reader would: files under the names that their first lines say, commands in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from checkout import ROOT, entry_points

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def follow(page: str, folder: Path, *, env: Mapping[str, str] | None = None, only: str = "") -> list[str]:
    """Do what the blocks of a page say, in an empty folder; what each has printed, standard error included.

    A ``python`` block whose first line is ``# NAME.py`` is written to that file, and run unless a later command names it. An ``sh``
    block is run by bash, and must succeed. ``only``: look at the block that has this text in it, and no other.
    """
    blocks = [(kind, text) for kind, text in BLOCK.findall((ROOT / "docs" / page).read_text()) if only in text]
    assert blocks
    commands = [text for kind, text in blocks if kind == "sh"]
    (folder / "path").mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT}:{entry_points(folder / 'path')}",
        "PYTHONWARNINGS": "ignore",
        **(env or {}),
    }
    printed: list[str] = []
    for kind, text in blocks:
        name = re.match(r"# (\w+\.py)\n", text)
        if kind == "python" and name:
            (folder / name[1]).write_text(text)
            if any(name[1] in command for command in commands):
                continue
        command = ["bash", "-euc", text] if kind == "sh" else [sys.executable, "-c" if not name else name[1]]
        if kind == "python" and not name:
            command.append(text)
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1000,
        )
        assert ran.returncode == 0, ran.stdout
        printed.append(ran.stdout)
    return printed

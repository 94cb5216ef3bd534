"""An earlier version of minimizer, from which a service is upgraded in the middle of a job.

It is the oldest commit that has the present schema of the database: what else it has of its own (checkpoints, messages, the protocol of
its children) is as different as can be where no migration comes between. Those are tested by themselves, with rows in all tables.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from checkout import ROOT

SCHEMA = "migrations/versions"
FOLDER = ROOT / "build" / "earlier"


def unpack() -> Path | None:
    """A folder with its code; ``None`` where there is no history."""
    with_schema = ["git", "-C", str(ROOT), "log", "-1", "--format=%H", "--", SCHEMA]
    commit = subprocess.run(with_schema, capture_output=True, text=True, check=False).stdout.strip()
    if not commit:
        return None
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "--extract", "--directory", str(FOLDER)], input=archive.stdout, check=True)
    return FOLDER

"""Kills and storms under jobs that compile and reduce, on both set-ups, and what must hold after each of them.

    python benchmarks/chaos --minutes 60                     # as many rounds as begin in that time, and the table
    python benchmarks/chaos --setup embedded --minutes 10    # of one set-up only
    python benchmarks/chaos --only 'servers 1.4'             # one round again, by its name
    python benchmarks/chaos --table                          # runs nothing, writes the table from what is known

The plan is seeded: round after round is taken from it that is not in the results file yet, so that several runs add up. Needs what the
tests need (PostgreSQL, Redis, bubblewrap) and a C compiler; disks are filled where we are root, and may mount one of our own, and an
upgrade needs the history of the repository. Exits with 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from installation import Installation, installed
from invariants import broken_afterwards, broken_while_running
from processes import adopt_orphans
from rounds import SCRIPT, SETUPS, Round, plan
from table import write
from trouble import JOB_SECONDS, strike

from minimizer.store import UnknownArtifact

RESULTS = Path(__file__).with_name("results.jsonl")
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="begin no round after so long (default 30)")
    parser.add_argument("--setup", choices=SETUPS, help="rounds of one set-up only")
    parser.add_argument("--only", nargs="+", metavar="ROUND", help="these rounds, whether they are known or not")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    adopt_orphans()
    known = {row["round"]: row for row in read(arguments.results)}
    until = time.monotonic() + 60 * arguments.minutes
    broken = False
    for round_ in () if arguments.table else chosen(arguments.only, arguments.setup, known):
        if time.monotonic() > until:
            break
        row = known[round_.name] = run(round_)
        with arguments.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
        broken |= bool(row["broken"])
    if arguments.results == RESULTS:
        write(list(known.values()))
    return int(broken)


def chosen(only: list[str] | None, setup: str | None, known: dict[str, Row]) -> Iterator[Round]:
    """The rounds to run, in the order of the plan."""
    left = set(only or ())
    for round_ in plan():
        if only and round_.name in left:
            left.remove(round_.name)
            yield round_
            if not left:
                return
        elif not only and round_.name not in known and setup in (None, round_.setup):
            yield round_


def run(round_: Round) -> Row:
    """One job through all troubles of a round."""
    begun = time.monotonic()
    struck: list[dict[str, Any]] = []
    broken: list[str] = []
    with installed(round_.setup, {trouble.kind for trouble in round_.troubles}) as installation:
        job = installation.submit(SCRIPT)
        try:
            struck.extend(asdict(strike(trouble, installation, job.id)) for trouble in round_.troubles)
            deadline = time.monotonic() + JOB_SECONDS
            while not installation.store.jobs.get(job.id).status.is_final and time.monotonic() < deadline:
                time.sleep(0.1)
        except TimeoutError as error:
            broken.append(str(error))
        broken += broken_while_running(installation, job.id)
        attempts = installation.store.jobs.get(job.id).attempt
        installation.stop()
        broken += broken_afterwards(installation, job.id)
        if broken:
            keep(round_, installation, job.id)
    return {
        "round": round_.name, "setup": round_.setup, "struck": struck, "attempts": attempts, "broken": broken,
        "seconds": round(time.monotonic() - begun, 1), "load": os.getloadavg()[0],
    }  # fmt: skip


def keep(round_: Round, installation: Installation, job_id: str) -> None:
    """Put what tells of a round in which something did not hold into build/chaos."""
    folder = Path("build", "chaos", round_.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "service.log").write_text(installation.logs())
    if report := installation.store.results.report(job_id):
        (folder / "report.json").write_text(report.model_dump_json(indent=1))
    with suppress(UnknownArtifact):
        (folder / "run.log").write_bytes(installation.store.results.artifact(job_id, "run.log")[1])


def read(file: Path) -> Iterator[Row]:
    if file.exists():
        yield from map(json.loads, file.read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main())

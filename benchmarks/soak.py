"""Hundreds of jobs in a row through one service on its embedded default, and what it holds after some of them.

    python benchmarks/soak.py                  # 300 jobs, of which twenty compile, reduce and verify
    python benchmarks/soak.py --jobs 30        # fewer; every fifteenth still compiles

Each job is handed in over REST when the one before it has ended. Figures are taken while nothing runs: memory, open files and threads
of web server and worker, bytes of the database, what lies in the folders of scratch and broker, and processes in sandboxes. Exits with
1 if a job ended otherwise than its script would.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "chaos"))

from processes import sandboxed
from rounds import SCRIPT
from service import FINAL, Api, worker_of
from stage import stage

RAISES = 'raise RuntimeError("number {}")\n'
COMPILES_EVERY = 15
OPTIONS = {"witness": False, "diagnosis": False}
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300, help="default 300")
    parser.add_argument("--look", type=int, nargs="+", help="after how many jobs to look (default: 0, 10, 100 and all)")
    arguments = parser.parse_args()
    looks = {*(arguments.look or (0, 10, 100)), arguments.jobs}
    with tempfile.TemporaryDirectory(prefix="minimizer-soak-") as folder, stage("sqlite") as on:
        service = on.start(sys.executable, "-m", "minimizer", "serve", TMPDIR=folder).pid
        api = Api(on.address)
        api.wait_until_ready()
        begun, wrong = time.monotonic(), 0
        for done in range(arguments.jobs + 1):
            if done in looks:
                found = {"jobs": done, "seconds": round(time.monotonic() - begun), "load": os.getloadavg()[0]}
                print(json.dumps(found | look(service, on.settings.data_dir, Path(folder))), flush=True)
            if done < arguments.jobs:
                wrong += not ends_well(api, done)
    print(json.dumps({"jobs": arguments.jobs, "wrong ends": wrong}))
    return int(bool(wrong))


def ends_well(api: Api, number: int) -> bool:
    """One job, and whether it ended as its script would."""
    compiles = number % COMPILES_EVERY == COMPILES_EVERY - 1
    script = f"# {number}\n{SCRIPT}" if compiles else RAISES.format(number)
    job = api.get("/api/v1/jobs", {"script": script, "filename": "soak.py", "options": OPTIONS})
    while (job := api.get(f"/api/v1/jobs/{job['id']}"))["status"] not in FINAL:
        time.sleep(0.2)
    expected = ("minimized", None) if compiles else ("failed", "fails_in_eager")
    if (job["status"], job["reason"]) != expected:
        print(json.dumps({"job": number, "status": job["status"], "reason": job["reason"], "summary": job["summary"]}))
    return (job["status"], job["reason"]) == expected


def look(service: int, data: Path, scratch: Path) -> Row:
    """What a service that has nothing to do holds."""
    worker = worker_of(service)
    return {
        "web": process(service),
        "worker": process(worker),
        "database_kib": sum(path.stat().st_size for path in data.glob("minimizer.db*")) >> 10,
        "messages": sum(path.is_file() for path in (data / "broker").rglob("*")),
        "scratch": len(list(scratch.iterdir())),
        "in_sandboxes": sum(map(len, sandboxed(worker))),
    }


def process(pid: int) -> dict[str, int]:
    """Resident memory in MiB, open files and threads."""
    folder = Path("/proc", str(pid))
    fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "pid": pid,
        "mib": int(fields["VmRSS"].split()[0]) >> 10,
        "files": len(list((folder / "fd").iterdir())),
        "threads": int(fields["Threads"]),
    }


if __name__ == "__main__":
    sys.exit(main())

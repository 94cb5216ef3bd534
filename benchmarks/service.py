"""Jobs through the real service on its embedded default: submitted at once, watched, and one worker killed on request.

python benchmarks/service.py --jobs 10            # all end, and the API stays quick meanwhile
python benchmarks/service.py --jobs 1 --kill      # kill -9 the worker in the middle: the job ends all the same, once
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from stage import stage

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = ["bucketed_features", "image_statistics", "interval_layer"]
FINAL = {"minimized", "healthy", "partial", "failed", "cancelled"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10, help="how many jobs to submit at once (default 10)")
    parser.add_argument("--kill", action="store_true", help="kill -9 the worker once a job is being reduced")
    arguments = parser.parse_args()
    with stage("sqlite", lease_seconds=10) as on:
        service = on.start(sys.executable, "-m", "minimizer", "serve")
        print(json.dumps(measure(Api(on.address), service.pid, arguments.jobs, arguments.kill), indent=1))
    return 0


class Api:
    """The REST interface, with the seconds that each answer took."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.seconds: list[float] = []

    def get(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self.base + path, data=data, headers={"Content-Type": "application/json"})
        begun = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        self.seconds.append(time.monotonic() - begun)
        return json.loads(text) if text.startswith(b"{") else text

    def wait_until_ready(self) -> None:
        for _ in range(300):
            try:
                self.get("/readyz")
                return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the service did not start")


def measure(api: Api, service: int, jobs: int, kill: bool) -> dict[str, Any]:
    """Submit, watch to the end, and say how it went."""
    api.wait_until_ready()
    begun = time.monotonic()
    ids = []
    for index in range(jobs):
        script = EXAMPLES / f"{SCRIPTS[index % len(SCRIPTS)]}.py"
        body = {
            "script": script.read_text(),
            "filename": script.name,
            "options": {"diagnosis": False, "witness": False},
            "force": True,
        }
        ids.append(api.get("/api/v1/jobs", body)["id"])
    killed: int | None = None
    while True:
        states = [api.get(f"/api/v1/jobs/{job}") for job in ids]
        api.get("/jobs")
        if kill and killed is None and any(s["status"] == "running" and s["stage"] == "reduce" for s in states):
            killed = worker_of(service)
            os.kill(killed, signal.SIGKILL)
        if all(state["status"] in FINAL for state in states):
            break
        time.sleep(1)
    taken = sorted(api.seconds)
    return {
        "jobs": {state["id"]: state["status"] for state in states},
        "seconds": round(time.monotonic() - begun, 1),
        "worker_killed": killed is not None,
        "attempts": [state["attempt"] for state in states],
        "answer_ms": {
            "median": round(1000 * statistics.median(taken), 1),
            "p99": round(1000 * taken[int(len(taken) * 0.99)], 1),
            "max": round(1000 * taken[-1], 1),
        },
    }


def worker_of(service: int) -> int:
    """The worker process that the service has started."""
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    return int(next(pid for pid in children if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes()))


if __name__ == "__main__":
    raise SystemExit(main())

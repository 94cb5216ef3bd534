"""Many clients that wait, and how long others wait for an answer meanwhile.

python benchmarks/load.py                                          # SQLite
python benchmarks/load.py --database postgresql+psycopg://...      # a PostgreSQL server; makes and drops a database

No worker runs: the jobs wait. The answers of ``GET /jobs/{id}`` are timed first with nobody else there, then beside the
long polls and event streams, on one keep-alive connection. At the end all jobs are cancelled, and every client must have
heard of it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from typing import Any

from stage import Stage, stage

POLLERS, STREAMS, JOBS = 200, 40, 50
ASKED = 2000
THREADS = 256
"""Of the server: one for every client that waits, and some to spare."""
WAIT = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="sqlite", help="sqlite, or the URL of a PostgreSQL server")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"threads of the web server (default {THREADS})")
    arguments = parser.parse_args()
    with stage(arguments.database, web_threads=arguments.threads, event_streams=STREAMS, reap_seconds=1000) as on:
        on.start_web()
        print(json.dumps(measure(on), indent=1))
    return 0


class Client:
    """One keep-alive connection."""

    def __init__(self, on: Stage) -> None:
        self._connection = http.client.HTTPConnection(on.settings.host, on.settings.port, timeout=2 * WAIT)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        data = None if body is None else json.dumps(body)
        self._connection.request(method, f"/api/v1{path}", data, {"Content-Type": "application/json", **headers})
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def stream(self, path: str) -> list[str]:
        """The types of all events up to the end of a stream."""
        self._connection.request("GET", f"/api/v1{path}", headers={"Accept": "text/event-stream"})
        answer = self._connection.getresponse()
        return [line.split(b":", 1)[1].strip().decode() for line in answer if line.startswith(b"event:")]


def measure(on: Stage) -> dict[str, Any]:
    """Submit, time the answers in quiet and under load, cancel, and see who heard of it."""
    client = Client(on)
    ids = [
        client.ask("POST", "/jobs", {"script": f"print({n})", "filename": "a.py", "force": True})[1]["id"]
        for n in range(JOBS)
    ]
    quiet = seconds(client, ids)
    heard: list[str] = []
    waiting = [threading.Thread(target=poll, args=(on, ids[n % JOBS], heard)) for n in range(POLLERS)]
    waiting += [threading.Thread(target=follow, args=(on, ids[n % JOBS], heard)) for n in range(STREAMS)]
    for thread in waiting:
        thread.start()
    time.sleep(3)  # until all of them wait; a client cannot see that
    loaded = seconds(client, ids)
    for job in ids:
        client.ask("POST", f"/jobs/{job}/cancel")
    for thread in waiting:
        thread.join()
    kept = [client.ask("GET", f"/jobs/{job}")[1]["status"] for job in ids]
    return {
        "clients": {"long polls": POLLERS, "event streams": STREAMS, "heard of the end": heard.count("cancelled")},
        "jobs": {"submitted": JOBS, "cancelled": kept.count("cancelled")},
        "ms_quiet": figures(quiet),
        "ms_loaded": figures(loaded),
        "p99_ratio": round(percentile(loaded, 0.99) / percentile(quiet, 0.99), 2),
    }


def seconds(client: Client, ids: list[str]) -> list[float]:
    """How long each of many answers took."""
    taken = []
    for number in range(ASKED):
        begun = time.perf_counter()
        status, _ = client.ask("GET", f"/jobs/{ids[number % len(ids)]}")
        taken.append(time.perf_counter() - begun)
        if status != 200:
            raise SystemExit(f"GET was answered with {status}")
    return taken


def poll(on: Stage, job: str, heard: list[str]) -> None:
    """Wait for the end of a job, as a patient client does: above the server's limit it is told when to come back."""
    client = Client(on)
    while True:
        _, found = client.ask("GET", f"/jobs/{job}?wait={WAIT}")
        if found["status"] not in ("queued", "running"):
            heard.append(found["status"])
            return
        time.sleep(2)


def follow(on: Stage, job: str, heard: list[str]) -> None:
    """Read a job's events to the end."""
    if Client(on).stream(f"/jobs/{job}/events")[-1:] == ["end"]:
        heard.append("cancelled")


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def figures(values: list[float]) -> dict[str, float]:
    shown = {"median": statistics.median(values), "p99": percentile(values, 0.99), "max": max(values)}
    return {name: round(1000 * value, 2) for name, value in shown.items()}


if __name__ == "__main__":
    sys.exit(main())

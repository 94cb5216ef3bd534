"""How long a page takes while connections are held that ask for nothing to the end, against none held.

python benchmarks/connections.py                       # the embedded server, 500 connections
python benchmarks/connections.py --server gunicorn     # gunicorn, as documented

The connections are silent, half-open, slow in their header or body, or idle after an answer, a fifth of each. Rounds with
and without them take turns, and every page is asked for on a connection of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from stage import Stage, stage

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from held import Held

HELD, ROUNDS, ASKED, JOBS = 500, 10, 100, 20
PAGE = "/jobs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["serve", "gunicorn"], default="serve", help="default: serve")
    parser.add_argument("--held", type=int, default=HELD, help=f"connections that are held (default {HELD})")
    parser.add_argument("--database", default="sqlite", help="sqlite, or the URL of a PostgreSQL server")
    arguments = parser.parse_args()
    with stage(arguments.database, reap_seconds=1000) as on:
        on.start_web(*(gunicorn(on) if arguments.server == "gunicorn" else ()))
        print(json.dumps({"server": arguments.server, **measure(on, arguments.held)}, indent=1))
    return 0


def gunicorn(on: Stage) -> list[str]:
    """Its command, as in docs/deploy.md."""
    bind = f"--bind={on.settings.host}:{on.settings.port}"
    return [sys.executable, "-m", "gunicorn", "--config=python:web.gunicorn", bind, "web.wsgi:app"]


def measure(on: Stage, count: int) -> dict[str, Any]:
    """Time the page in turn with nobody else there, and beside the held connections."""
    for number in range(JOBS):
        ask(on, "POST", "/api/v1/jobs", json.dumps({"script": f"print({number})", "filename": "a.py", "force": True}))
    quiet, beside = [], []
    open_ = []
    for _ in range(ROUNDS):
        quiet += [ask(on, "GET", PAGE) for _ in range(ASKED)]
        with Held(on.settings.host, on.settings.port, count) as held:
            for _ in range(ASKED):
                beside.append(ask(on, "GET", PAGE))
                held.trickle()
            open_.append(held.open())
    return {"held": count, "fewest_still_held": min(open_), "ms_quiet": figures(quiet), "ms_held": figures(beside)}


def ask(on: Stage, method: str, path: str, body: str | None = None) -> float:
    """The seconds that an answer took."""
    begun = time.perf_counter()
    with closing(http.client.HTTPConnection(on.settings.host, on.settings.port, timeout=60)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    if answer.status not in (200, 202):
        raise SystemExit(f"{method} {path} was answered with {answer.status}")
    return time.perf_counter() - begun


def figures(values: list[float]) -> dict[str, float]:
    cut = statistics.quantiles(values, n=100)
    shown = {"p50": cut[49], "p99": cut[98], "max": max(values)}
    return {"answers": len(values), **{name: round(1000 * value, 2) for name, value in shown.items()}}


if __name__ == "__main__":
    sys.exit(main())

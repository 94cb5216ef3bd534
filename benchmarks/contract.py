"""Every operation of the OpenAPI document under schemathesis, against a web server with its embedded database and queue.

    python benchmarks/contract.py                    # 200 requests for each operation: a quarter of an hour or more
    python benchmarks/contract.py --examples 20

Requests that the schemas allow and ones that they forbid, each operation by itself and several that follow each other, sent by an admin of
a service with access control. No worker runs, so that what is submitted waits; the stream of events, which ends with its job, is left to the
tests. What the command does not know (`--include-operation-id submit_job`) goes to schemathesis. Exits with 1 where an answer is not as the
document says.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stage import Stage, stage

from minimizer.options import Options
from minimizer.report.model import Failure, Report
from minimizer.store import Store
from minimizer.vocabulary import Kind, Role, Scope, Status

HERE = str(Path(__file__).resolve().parent)
SCRIPT = b"import torch\ntorch.compile(lambda x: x)(torch.ones(2))\n"
MANY = 10**6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200, help="requests for each operation (default 200)")
    arguments, more = parser.parse_known_args()
    limits: dict[str, Any] = dict.fromkeys(("requests_per_minute", "max_open_jobs", "max_queued_jobs"), MANY)
    with stage("sqlite", access="on", reap_seconds=1000, **limits) as on:
        token, job, signature = seed(on)
        on.start_web(log=Path(os.devnull))
        environment = os.environ | {
            "SCHEMATHESIS_HOOKS": "contract_hooks", "PYTHONPATH": os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH")))),
            "CONTRACT_JOB": job, "CONTRACT_SIGNATURE": signature,
        }  # fmt: skip
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "run", f"{on.address}/api/v1/openapi.json",
            "-H", f"Authorization: Bearer {token}", "--max-examples", str(arguments.examples), "--continue-on-failure",
            "--generation-deterministic", "--request-timeout", "100", "--suppress-health-check", "all",
            "--warnings", "off", "--no-color", "--exclude-operation-id", "get_events",
        ]  # fmt: skip
        return subprocess.run([*command, *more], env=environment, cwd=on.settings.data_dir, check=False).returncode


def seed(on: Stage) -> tuple[str, str, str]:
    """An admin's token, and the ids of a job that has ended and of its group."""
    store = Store.open(on.settings.resolved_database_url)
    store.users.create("root", Role.ADMIN)
    token = store.tokens.create("root", "contract", Scope.WRITE)[1]
    job = store.submissions.submit(SCRIPT, "model.py", Options())[0]
    claim = store.leases.claim_job(job.id, "worker-1", lease_seconds=60)
    assert claim is not None
    failure = Failure(kind=Kind.WRONG_OUTPUT, message="2 of 2 differ", signature="relu")
    for name in ("repro.py", "run.log", "report.md", "issue.md"):
        store.results.put_artifact(claim, name, b"x = 1\n")
    store.results.finish(
        claim, Report(status=Status.MINIMIZED, summary="torch.relu returns wrong values.", failure=failure)
    )
    return token, job.id, store.groups.of_jobs([job.id])[job.id]


if __name__ == "__main__":
    raise SystemExit(main())

"""For tests of the web side: a client on an application, a worker's hands, and what a problem looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from sqlalchemy import Connection, event
from werkzeug.test import TestResponse

from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import Failure, HistoryStep, Reduction, Report, Verification
from minimizer.settings import Settings
from minimizer.store import Claim, Job, Store
from minimizer.vocabulary import Kind, Stage, Status
from web import create_app

SCRIPT = b"import torch\nprint(torch.compile(torch.relu)(torch.ones(2)))\n"
REPRO = b"import torch\n\n\ndef f(x):\n    return torch.relu(x)\n"


class _CompiledOnce(BytecodeCache):
    """The templates of all applications of this process: to compile them takes longer than most requests."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if (code := self._code.get((bucket.key, bucket.checksum))) is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


TEMPLATES = _CompiledOnce()


@contextmanager
def client_of(
    settings: Settings, store: Store, ring: Callable[[Job], None] = lambda job: None
) -> Iterator[FlaskClient]:
    """A client of an application on this store."""
    app = create_app(settings, store, ring)
    app.jinja_env.bytecode_cache = TEMPLATES
    yield app.test_client()
    app.extensions["minimizer"].close()


class Hands:
    """A worker that does what the test says."""

    def __init__(self, store: Store, job: Job, worker: str = "worker-1") -> None:
        claim = store.leases.claim_job(job.id, worker, lease_seconds=60)
        assert claim is not None
        self.store = store
        self.claim: Claim = claim

    def event(self, type_: str, **data: object) -> None:
        self.store.results.record_event(self.claim, type_, dict(data))

    def artifact(self, name: str, content: bytes) -> None:
        self.store.results.put_artifact(self.claim, name, content)

    def finish(self, report: Report) -> None:
        self.store.results.finish(self.claim, report)

    def minimize(self) -> Job:
        """Do the whole job, and well."""
        self.event("step", step="reduce", state="started")
        self.event("progress", nodes=40, nodes_before=40, trials=0, elapsed=1.0)
        self.event("progress", nodes=1, nodes_before=40, trials=7, elapsed=2.5)
        self.event("step", step="reduce", state="finished", seconds=1.5)
        self.artifact("repro.py", REPRO)
        self.artifact("run.log", b"all of it\n")
        self.artifact("report.md", b"# Report\n")
        self.artifact("issue.md", b"### Issue\n")
        self.finish(minimized_report())
        return self.store.jobs.get(self.claim.job_id)


@contextmanager
def no_writes(store: Store) -> Iterator[None]:
    """The store's database can be read only, like one that is full or a standby."""
    engine = store._database.engine
    read_only = "PRAGMA query_only = ON" if engine.dialect.name == "sqlite" else "SET TRANSACTION READ ONLY"

    def forbid(connection: Connection) -> None:
        connection.exec_driver_sql(read_only)

    event.listen(engine, "begin", forbid)
    try:
        yield
    finally:
        event.remove(engine, "begin", forbid)
        engine.dispose()  # SQLite keeps the pragma for the connection


def minimized_report() -> Report:
    """The report of a wrong relu."""
    return Report(
        status=Status.MINIMIZED,
        summary="torch.relu returns wrong values.",
        failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, message="2 of 2 differ", signature="relu"),
        culprits=[Culprit(module="blocks.7", ops=["aten.relu"], source=Source(file="model.py", line=2, code="f(x)"))],
        reduction=Reduction(
            nodes_before=40,
            nodes_after=1,
            trials=7,
            one_minimal=True,
            history=[
                HistoryStep(trial=0, seconds=0.0, nodes=40, by="capture"),
                HistoryStep(trial=7, seconds=2.5, nodes=1, by="ddmin"),
            ],
        ),
        verification=Verification(
            runs=3, failed_same=3, clean_process=True, public_api=True, passes_with_compiler_off=True
        ),
    )


def refused(response: TestResponse, status: int, words: str) -> None:
    """The response is a problem of this status that says these words and shows no traceback."""
    assert response.status_code == status, response.text
    assert response.mimetype == "application/problem+json"
    problem = response.get_json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:minimizer:problem:")
    assert words in problem["detail"]
    assert "Traceback" not in response.text

"""A client that openapi-python-client makes of the served document: it sends a script, and reads jobs, reports and errors as types."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, Hands, minimized_report
from werkzeug.serving import make_server

from minimizer.report.culprit import Layer
from minimizer.settings import Settings
from minimizer.store import Store

NAME = "generated_client"
CONFIG = {
    "post_hooks": [],  # nobody reads it
    # The generator knows no zip and no stream; either is bytes.
    "content_type_overrides": {"application/zip": "application/octet-stream", "text/event-stream": "application/octet-stream"},
}  # fmt: skip


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: a client knows nothing of databases."""
    return sqlite_url


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, database_url=sqlite_url)


@pytest.fixture
def generated(client: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, made anew and importable."""
    (tmp_path / "openapi.json").write_text(client.get("/api/v1/openapi.json").text)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    where = ["--path", "openapi.json", "--config", "config.json", "--output-path", NAME]
    made = subprocess.run([*command, *where], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


@pytest.fixture
def caller(generated: None, client: FlaskClient) -> Iterator[Any]:
    """A client of the generated package, on a server of its own."""
    server = make_server("127.0.0.1", 0, client.application, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with importlib.import_module(NAME).Client(base_url=f"http://127.0.0.1:{server.server_port}") as caller:
        yield caller
    server.shutdown()
    thread.join()
    server.server_close()


def call(name: str) -> Any:
    """The function of an operation that returns the whole answer: ``jobs.get_job``."""
    return importlib.import_module(f"{NAME}.api.{name}").sync_detailed


def test_a_generated_client_is_usable(caller: Any, store: Store, tmp_path: Path) -> None:
    models = importlib.import_module(f"{NAME}.models")
    body = models.ScriptBody(script=SCRIPT.decode(), filename="model.py", options=models.Options(budget=60, steps=3))
    sent = call("jobs.submit_job")(client=caller, body=body)
    assert sent.status_code == 202 and isinstance(sent.parsed, models.JobBody)
    assert sent.parsed.options.budget == 60 and sent.parsed.options.steps == 3
    assert sent.headers["Location"] == f"/api/v1/jobs/{sent.parsed.id}"

    hands = Hands(store, store.jobs.get(sent.parsed.id))
    report = minimized_report()
    report.layers = [Layer(path="blocks.7", cls="Block", order=0, local_error=1.5, verdict="bad")]
    hands.event("progress", nodes=40, nodes_before=40, trials=1, elapsed=1.0)
    under_way = call("jobs.get_job")(sent.parsed.id, client=caller)
    assert (under_way.parsed.progress.nodes, under_way.parsed.report) == (40, None)
    hands.finish(report)

    ended = call("jobs.get_job")(sent.parsed.id, client=caller)
    job = ended.parsed
    assert job.status is models.Status.MINIMIZED and job.final
    assert job.failure.kind is models.Kind.WRONG_OUTPUT and job.failure.stage is models.Stage.INDUCTOR
    assert isinstance(job.report, models.Report)
    (culprit,), (layer,) = job.report.culprits, job.report.layers
    assert (culprit.module, culprit.ops, culprit.source.line) == ("blocks.7", ["aten.relu"], 2)
    assert (layer.class_, layer.local_error, layer.verdict) == ("Block", 1.5, models.LayerVerdict.BAD)
    assert job.report.reduction.history[-1].nodes == 1 and job.report.health.compile_seconds is None
    again = call("jobs.get_job")(sent.parsed.id, client=caller, if_none_match=ended.headers["ETag"])
    assert again.status_code == 304

    (listed,) = call("jobs.list_jobs")(client=caller, status=models.Status.MINIMIZED).parsed.jobs
    assert (listed.id, listed.report) == (job.id, None)

    unknown = call("jobs.get_job")("nothing", client=caller)
    assert unknown.status_code == 404 and isinstance(unknown.parsed, models.ProblemBody)
    assert unknown.parsed.type_ == "urn:minimizer:problem:unknown-job" and unknown.parsed.status == 404
    refused = call("jobs.submit_job")(client=caller, body=models.ScriptBody(script="def f("))
    assert refused.status_code == 422 and "is not Python" in refused.parsed.detail

    types = importlib.import_module(f"{NAME}.types")
    with (tmp_path / "other.py").open("w+b") as file:
        file.write(b"x = 1\n")
        file.seek(0)
        upload = models.UploadBody(
            script=types.File(payload=file, file_name="other.py"), witness=False, args=["-x", "1"]
        )
        uploaded = call("jobs.submit_job")(client=caller, body=upload).parsed
    assert (uploaded.filename, uploaded.options.witness, uploaded.options.args) == ("other.py", False, ["-x", "1"])

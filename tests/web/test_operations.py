"""Probes, metrics, workers, the API's description, and errors nobody planned."""

from __future__ import annotations

import json
import secrets
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from psycopg.errors import DiskFull
from sqlalchemy import event, exc
from webtest import SCRIPT, Hands, refused

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import GpuInfo, Hardware, Job, Store
from minimizer.store.tables import database
from minimizer.store.tables.database import open_engine
from web import create_app, workers
from web.access import limits
from web.problems import Problem


def test_probes(client: FlaskClient) -> None:
    assert client.get("/healthz").get_json() == {"status": "ok"}
    assert client.get("/readyz").get_json() == {"status": "ok"}


def test_not_ready_without_a_database(tmp_path: Path) -> None:
    # A folder where the file should be: SQLite cannot open it.
    settings = Settings(data_dir=tmp_path, database_url=f"sqlite:///{tmp_path}")
    client = create_app(settings, ring=lambda job_id: None).test_client()
    assert client.get("/healthz").status_code == 200
    refused(client.get("/readyz"), 503, "database")
    refused(client.get("/api/v1/jobs"), 503, "database")


def test_a_full_database_is_said_to_be_one(client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if store._database.engine.dialect.name == "sqlite":
        last = "PRAGMA max_page_count = 1"  # and never less than there are
        event.listen(store._database.engine, "begin", lambda connection: connection.exec_driver_sql(last))
    else:

        def full(*_: Any, **__: Any) -> Any:
            raise exc.OperationalError("INSERT", None, DiskFull("could not extend file"))

        monkeypatch.setattr(store.submissions, "submit_many", full)
    for _ in range(20):
        body = {"script": f"a = '{secrets.token_hex(1900)}'", "filename": "a.py"}
        response = client.post("/api/v1/jobs", json=body)
        if response.status_code != 202:
            break
    refused(response, 503, "disk of the database is full")
    assert response.get_json()["type"].endswith(":disk-full")


def test_the_database_is_not_written_to_for_everybody_who_asks(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    monkeypatch.setattr(client.application.extensions["minimizer"].readiness, "_look", lambda: looks.append(True))
    assert {client.get("/readyz").status_code for _ in range(5)} == {200}
    assert len(looks) == 1


def test_a_service_whose_connections_are_all_taken_is_unavailable(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object) -> Any:
        raise exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached, connection timed out")

    monkeypatch.setattr(store._database.engine.pool, "connect", taken)
    for path in ("/readyz", "/api/v1/jobs"):
        refused(client.get(path), 503, "database")


def test_a_postgres_that_falls_silent_is_an_error_before_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a request, or the heartbeat of a job, would wait for ever for an answer that is not on its way."""
    monkeypatch.setitem(database._PATIENCE, "connect_timeout", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = open_engine(f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/nothing")
        with pytest.raises(exc.OperationalError, match="timeout"):
            engine.connect()


def test_a_redis_that_falls_silent_is_asked_once_and_not_by_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.access.limits._REDIS_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        counters = limits.Limits(Settings(broker_url=broker, requests_per_minute=2))
        asked: list[bool] = []

        def ask(limiter: Any, *given: Any) -> int | None:
            asked.append(limiter is counters._shared)
            return wait(limiter, *given)

        wait = limits._wait
        monkeypatch.setattr(limits, "_wait", ask)
        for _ in range(2):
            counters.count("anna")
        with pytest.raises(Problem, match="asked too often"):
            counters.count("anna")
    assert asked == [True, False, False, False]


def test_metrics_count_jobs_and_requests(client: FlaskClient, queued: Job) -> None:
    client.get(f"/api/v1/jobs/{queued.id}")
    text = client.get("/metrics").text
    assert 'minimizer_jobs{status="queued"} 1.0' in text
    assert 'minimizer_http_requests_total{endpoint="api.get_job",method="GET",status="200"} 1.0' in text
    assert queued.id not in text


def test_metrics_grow_by_no_made_up_method(client: FlaskClient) -> None:
    for number in range(3):
        client.open("/api/v1/jobs", method=f"MADEUP{number}")
    text = client.get("/metrics").text
    assert 'method="other",status="405"} 3.0' in text and "MADEUP" not in text


def test_workers(client: FlaskClient, store: Store) -> None:
    store.workers.register("w1", device="cpu", torch="2.13.0")
    (worker,) = client.get("/api/v1/workers").get_json()["workers"]
    assert (worker["name"], worker["torch"], worker["job_id"]) == ("w1", "2.13.0", None)


def test_a_worker_that_takes_no_jobs_says_why(client: FlaskClient, store: Store) -> None:
    store.workers.register("w1", device="cpu", torch="2.13.0")
    store.submissions.submit(SCRIPT, "model.py", Options())
    store.workers.seen("w1", "3 MiB are free on the disk of /tmp")

    answer = client.get("/api/v1/workers").get_json()
    assert answer["workers"][0]["trouble"] == "3 MiB are free on the disk of /tmp"
    assert answer["queues"][0]["workers"] == 0, "it can take nothing at present"
    assert 'minimizer_worker_trouble{worker="w1"} 1.0' in client.get("/metrics").text
    page = client.get("/workers").text
    assert "takes no jobs" in page and "3 MiB are free on the disk of /tmp" in page


def test_queues_say_who_can_take_what_waits(client: FlaskClient, store: Store) -> None:
    store.workers.register("w1", device="cpu", torch="2.13.0")
    store.workers.register("w2", device="cuda", torch="2.13.0", toolchains=["nightly"])
    for options in ({}, {"device": "cuda"}, {"device": "cuda"}, {"device": "cuda", "toolchain": "old"}):
        store.submissions.submit(SCRIPT, "model.py", Options(**options))
    queues = client.get("/api/v1/workers").get_json()["queues"]
    assert [tuple(queue[name] for name in ("device", "toolchain", "jobs", "workers")) for queue in queues] == [
        (None, None, 1, 2),
        (None, "nightly", 0, 1),
        ("cuda", None, 2, 1),
        ("cuda", "nightly", 0, 1),
        ("cuda", "old", 1, 0),
    ]
    assert [queue["oldest"] is None for queue in queues] == [False, True, False, True, False]
    text = client.get("/metrics").text
    assert 'minimizer_waiting_jobs{device="any",toolchain="default"} 1.0' in text
    assert 'minimizer_waiting_jobs{device="cuda",toolchain="old"} 1.0' in text


def test_the_page_of_the_workers(client: FlaskClient, store: Store, queued: Job) -> None:
    page = client.get("/workers").text
    assert "No worker is there, so jobs wait" in page and "python -m worker" in page
    store.workers.register("w1", device="cuda", torch="2.13.0", toolchains=["nightly"])
    page = client.get("/workers").text
    assert "idle" in page and "nightly" in page and "python -m worker" not in page
    hands = Hands(store, queued, worker="w1")
    hands.event("step", step="reduce", state="started")
    page = client.get("/workers").text
    assert "at work" in page and f"/jobs/{queued.id}" in page and "reduce" in page


def test_a_worker_that_fell_silent_counts_no_more(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.workers.register("w1", device="cpu", torch="2.13.0")
    monkeypatch.setattr(workers, "SILENCE", timedelta(seconds=-60))
    page = client.get("/workers").text
    assert "silent" in page and "python -m worker" in page
    assert [queue["workers"] for queue in client.get("/api/v1/workers").get_json()["queues"]] == [0]


def test_openapi_describes_every_route(client: FlaskClient) -> None:
    document = client.get("/api/v1/openapi.json").get_json()
    assert document["openapi"] == "3.1.0"
    documented = {(path, method) for path, item in document["paths"].items() for method in item}
    for path, method in [
        ("/api/v1/jobs", "post"),
        ("/api/v1/jobs", "get"),
        ("/api/v1/jobs/{job_id}", "get"),
        ("/api/v1/jobs/{job_id}", "delete"),
        ("/api/v1/jobs/{job_id}/events", "get"),
        ("/api/v1/jobs/{job_id}/cancel", "post"),
        ("/api/v1/jobs/{job_id}/retry", "post"),
        ("/api/v1/jobs/{job_id}/artifacts", "get"),
        ("/api/v1/jobs/{job_id}/artifacts/{name}", "get"),
        ("/api/v1/workers", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
    ]:
        assert (path, method) in documented
    references = {text.split('"')[0] for text in json.dumps(document).split('"$ref": "#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])
    errors = [
        content
        for item in document["paths"].values()
        for operation in item.values()
        for status, answer in operation["responses"].items()
        if status >= "400"
        for content in answer["content"]
    ]
    assert set(errors) == {"application/problem+json"}


def test_documentation_is_served_from_here(client: FlaskClient) -> None:
    page = client.get("/docs").text
    assert "http://" not in page and "https://" not in page
    assert client.get("/docs/swagger/js/swagger-ui-bundle.js").status_code == 200
    assert client.get("/docs/swagger/../../plugins.py").status_code == 404


def test_root_of_the_api_leads_to_its_documentation(client: FlaskClient) -> None:
    assert client.get("/api/v1", follow_redirects=True).text == client.get("/docs").text


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/jobs/x/y/z", "/nothing"])
def test_unknown_address_is_404(client: FlaskClient, path: str) -> None:
    refused(client.get(path), 404, "")


def test_wrong_method_is_405_and_says_which(client: FlaskClient) -> None:
    response = client.put("/api/v1/jobs")
    refused(response, 405, "")
    assert "POST" in response.headers["Allow"]


def test_our_own_fault_is_500_without_a_traceback(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(job_id: str) -> Job:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(store.jobs, "get", fail)
    response = client.get("/api/v1/jobs/abcdefgh")
    refused(response, 500, response.headers["X-Request-Id"])
    assert "secret" not in response.text
    # What is kept from the client is in the log, under the same name.
    assert response.headers["X-Request-Id"] in caplog.text and "a secret of the inside" in caplog.text


def test_people_get_pages_and_programs_get_problems(client: FlaskClient) -> None:
    page = client.get("/nothing", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 404 and page.mimetype == "text/html"
    problem = client.get("/api/v1/nothing", headers={"Accept": "text/html"})
    assert problem.mimetype == "application/problem+json"


H100 = Hardware(
    gpus=(GpuInfo("GPU-1a2b", "NVIDIA H100 80GB HBM3", 81559),), driver="580.82.07", cuda="13.0", triton="3.7.1"
)


def test_a_gpu_worker_says_what_it_has(client: FlaskClient, store: Store) -> None:
    store.workers.register("w1", device="cuda", torch="2.13.0+cu130", hardware=H100)
    (worker,) = client.get("/api/v1/workers").get_json()["workers"]
    assert worker["gpus"] == [{"uuid": "GPU-1a2b", "name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559}]
    assert (worker["driver"], worker["cuda"], worker["triton"], worker["gpu_trouble"]) == (
        "580.82.07",
        "13.0",
        "3.7.1",
        "",
    )
    page = client.get("/workers").text
    for said in ("NVIDIA H100 80GB HBM3", "81,559", "GPU-1a2b", "580.82.07", "13.0", "3.7.1", "2.13.0+cu130"):
        assert said in page, said
    assert "Takes no GPU job" not in page
    labels = (
        'driver="580.82.07",gpu="NVIDIA H100 80GB HBM3",torch="2.13.0+cu130",triton="3.7.1",uuid="GPU-1a2b",worker="w1"'
    )
    assert f"minimizer_worker_gpu{{{labels}}} 1.0" in client.get("/metrics").text


def test_a_worker_that_should_have_a_gpu_and_has_none_says_why(client: FlaskClient, store: Store) -> None:
    trouble = "torch 2.13.0+cpu is not built for CUDA"
    store.workers.register("w1", device="cpu", torch="2.13.0+cpu", hardware=replace(H100, trouble=trouble))
    store.submissions.submit(SCRIPT, "model.py", Options(device="cuda"))
    body = client.get("/api/v1/workers").get_json()
    assert body["workers"][0]["gpu_trouble"] == trouble
    assert [queue["workers"] for queue in body["queues"] if queue["device"] == "cuda"] == [0]
    page = client.get("/workers").text
    assert "Takes no GPU job" in page and trouble in page
    assert 'worker="w1"} 0.0' in client.get("/metrics").text

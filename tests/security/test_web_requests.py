"""Which requests the web side answers: its own machine's, under its own name, from its own pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, client_of, refused
from werkzeug.test import TestResponse

from minimizer.errors import UserError
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Job, Store
from minimizer.vocabulary import Status
from web import create_app
from web.access.security import check_listen_address
from web.server.serve import serve


@pytest.fixture
def client(store: Store) -> Iterator[FlaskClient]:
    with client_of(Settings(), store) as client:
        yield client


@pytest.fixture
def job(store: Store) -> Job:
    return store.submissions.submit(SCRIPT, "model.py", Options())[0]


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "", "127.0.0.1.example.org", "::ffff:1.2.3.4"]
)
def test_listens_on_loopback_only(host: str, tmp_path: Path) -> None:
    settings = Settings(host=host, data_dir=tmp_path)
    with pytest.raises(UserError, match="loopback"):
        check_listen_address(settings)
    with pytest.raises(UserError, match="loopback"):
        create_app(settings)
    with pytest.raises(UserError, match="loopback"):
        serve(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"])
def test_loopback_is_accepted(host: str) -> None:
    check_listen_address(Settings(host=host))


def test_access_control_opens_the_address(tmp_path: Path, store: Store) -> None:
    settings = Settings(host="0.0.0.0", access="on", data_dir=tmp_path)
    check_listen_address(settings)
    with client_of(settings, store) as client:
        far = {"REMOTE_ADDR": "192.168.1.9"}
        assert client.get("/healthz", environ_base=far).status_code == 200
        refused(client.get("/api/v1/jobs", environ_base=far), 401, "token")


def test_container_setting_opens_the_address(store: Store) -> None:
    settings = Settings(host="0.0.0.0", published_on_loopback=True)
    with client_of(settings, store) as client:
        # The bridge of the container engine is the client then, and the Host header still guards.
        assert client.get("/healthz", environ_base={"REMOTE_ADDR": "172.17.0.1"}).status_code == 200
        refused(client.get("/healthz", headers={"Host": "evil.example"}), 403, "Host")


def test_strangers_address_is_refused_whatever_the_server_listens_on(client: FlaskClient) -> None:
    refused(client.get("/healthz", environ_base={"REMOTE_ADDR": "192.168.1.9"}), 403, "own machine")
    assert client.get("/healthz", environ_base={"REMOTE_ADDR": "::1"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "[::2]", "localhost@evil"]
)
def test_rebound_host_is_refused(client: FlaskClient, host: str) -> None:
    refused(client.get("/api/v1/jobs", headers={"Host": host}), 403, "Host")
    refused(client.get("/", headers={"Host": host, "Accept": "application/json"}), 403, "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:9", "[::1]:8000"])
def test_own_host_is_answered(client: FlaskClient, host: str) -> None:
    assert client.get("/api/v1/jobs", headers={"Host": host}).status_code == 200


def test_allowed_hosts_are_a_setting(store: Store) -> None:
    with client_of(Settings(allowed_hosts="box.internal, localhost"), store) as client:
        assert client.get("/healthz", headers={"Host": "box.internal:80"}).status_code == 200
        refused(client.get("/healthz", headers={"Host": "127.0.0.1"}), 403, "MINIMIZER_ALLOWED_HOSTS")


STRANGERS = [
    {"Origin": "https://evil.example"},
    {"Origin": "http://localhost:9999"},  # another port of this machine
    {"Origin": "null"},  # a sandboxed frame, a file
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://["},  # nothing that can be read
]
FRIENDS: list[dict[str, str]] = [
    {},  # curl, our own command line
    {"Origin": "http://localhost"},
    {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
]


def writes(client: FlaskClient, job: Job, headers: dict[str, str]) -> Iterator[TestResponse]:
    """Every request that changes something."""
    upload: dict[str, Any] = {"script": (io.BytesIO(SCRIPT), "model.py")}
    yield client.post("/api/v1/jobs", data=upload, headers=headers)
    yield client.post("/api/v1/jobs", json={"script": SCRIPT.decode()}, headers=headers)
    yield client.post("/jobs", data={"source": SCRIPT.decode()}, headers=headers)
    yield client.post(f"/jobs/{job.id}/cancel", headers=headers)
    yield client.post(f"/jobs/{job.id}/skip", headers=headers)
    yield client.post(f"/jobs/{job.id}/retry", headers=headers)
    yield client.post(f"/api/v1/jobs/{job.id}/cancel", headers=headers)
    yield client.post(f"/api/v1/jobs/{job.id}/skip", headers=headers)
    yield client.post(f"/api/v1/jobs/{job.id}/retry", headers=headers)
    yield client.post("/api/v1/batches", json={"jobs": [{"script": SCRIPT.decode()}]}, headers=headers)
    yield client.put(f"/api/v1/jobs/{job.id}/pin", headers=headers)
    yield client.delete(f"/api/v1/jobs/{job.id}/pin", headers=headers)
    yield client.post("/login", headers=headers)
    yield client.post("/logout", headers=headers)
    yield client.post("/tokens", data={"name": "mine"}, headers=headers)
    yield client.post("/tokens/5f1b9a3c2d4e/revoke", headers=headers)
    yield client.post("/api/v1/tokens", json={"name": "mine"}, headers=headers)
    yield client.delete("/api/v1/tokens/5f1b9a3c2d4e", headers=headers)
    yield client.post("/api/v1/webhooks", json={"url": "https://ci.example/hook"}, headers=headers)
    yield client.delete("/api/v1/webhooks/0f3c5a7b9d1e", headers=headers)
    group = "/api/v1/failures/no-group"
    yield client.patch(group, json={"note": "known"}, headers=headers)
    yield client.post(f"{group}/merge", json={"other": "other"}, headers=headers)
    yield client.post(f"{group}/split", json={"jobs": [job.id]}, headers=headers)
    yield client.post(f"{group}/retest", json={}, headers=headers)
    yield client.post("/failures/no-group", data={"action": "describe"}, headers=headers)
    yield client.post(f"/jobs/{job.id}/delete", headers=headers)
    yield client.delete(f"/api/v1/jobs/{job.id}", headers=headers)


@pytest.mark.parametrize("headers", STRANGERS)
def test_writes_of_other_pages_change_nothing(
    client: FlaskClient, store: Store, job: Job, headers: dict[str, str]
) -> None:
    for response in writes(client, job, headers):
        refused(response, 403, "another origin")
    assert store.jobs.get(job.id) == job
    assert store.jobs.counts()[Status.QUEUED] == 1


@pytest.mark.parametrize("headers", FRIENDS)
def test_own_writes_are_taken(client: FlaskClient, job: Job, headers: dict[str, str]) -> None:
    statuses = [response.status_code for response in writes(client, job, headers)]
    # A job that waits has nothing to skip, there are no users and hence no tokens here, and the last one finds the job deleted by the one before.
    jobs, keys, webhooks, groups, deletions = (
        [202, 202, 303, 303, 303, 303, 202, 409, 202, 202, 200, 200],
        [303, 303, 409, 404, 409, 404],
        [201, 404],
        [404] * 5,
        [303, 404],
    )
    assert statuses == jobs + keys + webhooks + groups + deletions


def test_every_route_that_writes_is_in_the_list_above(client: FlaskClient, job: Job) -> None:
    written = {
        response.request.path.replace(job.id, "<job_id>")
        .replace("5f1b9a3c2d4e", "<token_id>")
        .replace("0f3c5a7b9d1e", "<webhook_id>")
        .replace("no-group", "<signature>")
        for response in writes(client, job, STRANGERS[0])
    }
    rules = {
        rule.rule
        for rule in client.application.url_map.iter_rules()
        if rule.methods & {"POST", "PUT", "PATCH", "DELETE"}
    }
    assert written == rules


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_may_link_here_but_not_load(client: FlaskClient, job: Job, site: str) -> None:
    stolen = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    refused(client.get(f"/api/v1/jobs/{job.id}/events", headers=stolen), 403, "load")
    framed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    refused(client.get(f"/jobs/{job.id}", headers=framed), 403, "load")
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get(f"/jobs/{job.id}", headers=link).status_code == 200


def test_there_is_no_cors(client: FlaskClient, job: Job) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for response in (
        client.options("/api/v1/jobs", headers=asked),
        client.get("/api/v1/jobs", headers=asked),
        client.get(f"/api/v1/jobs/{job.id}", headers=asked),
    ):
        assert not [name for name, _ in response.headers if name.startswith("Access-Control")]

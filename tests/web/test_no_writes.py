"""What the service still does while its database takes no writes."""

from __future__ import annotations

import pytest
from flask import Response
from flask.testing import FlaskClient
from webtest import client_of, no_writes, refused

import web.service
from minimizer.settings import Settings
from minimizer.store import Store
from minimizer.vocabulary import Role, Scope


def test_it_is_not_ready(client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.service, "READY_SECONDS", 0.0)
    with no_writes(store):
        assert client.get("/api/v1/jobs").status_code == 200
        refused(client.get("/readyz"), 503, "database")


def test_a_token_opens_what_can_be_read(settings: Settings, store: Store) -> None:
    store.users.create("anna", Role.MEMBER, ["default"])
    token, secret = store.tokens.create("anna", "ci", Scope.WRITE)
    headers = {"Authorization": f"Bearer {secret}"}
    with client_of(settings.model_copy(update={"access": "on"}), store) as client:
        with no_writes(store):
            assert [client.get("/api/v1/jobs", headers=headers).status_code for _ in range(2)] == [200, 200]
            refused(client.post("/api/v1/jobs", json={"script": "x = 1"}, headers=headers), 503, "database")
            assert store.tokens.all("anna") == [token]
        assert client.post("/api/v1/jobs", json={"script": "x = 1"}, headers=headers).status_code == 202
    assert store.tokens.all("anna")[0].last_used_at is not None


def test_a_change_whose_audit_entry_fails_is_told_as_made_and_its_entries_are_logged(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = store.audit.record
    tried: list[str] = []

    def fail(actor: str, action: str, subject: str, address: str) -> None:
        tried.append(subject)
        with no_writes(store):
            record(actor, action, subject, address)

    monkeypatch.setattr(store.audit, "record", fail)

    made = client.post("/api/v1/batches", json={"jobs": [{"script": "x = 1"}, {"script": "x = 2"}]})

    assert made.status_code == 202
    jobs = [job["id"] for job in made.get_json()["jobs"]]
    assert {job.id for job in store.jobs.page()[0]} == set(jobs)
    assert tried == jobs[:1], "one that fails is enough to wait for"
    said = [entry for entry in caplog.records if entry.name == "web.access.audit"]
    assert {entry.levelname for entry in said} == {"ERROR"}
    for job, line in zip(jobs, (entry.getMessage() for entry in said[1:]), strict=True):
        assert all(word in line for word in ("action api.submit_batch", f"subject {job}", "address 127.0.0.1"))


def test_what_fails_behind_a_view_is_told_like_what_fails_in_it(client: FlaskClient, store: Store) -> None:
    @client.application.after_request
    def write(response: Response) -> Response:
        if response.status_code < 400:
            with no_writes(store):
                store.audit.record("anna", "look")
        return response

    answer = client.get("/api/v1/jobs")

    refused(answer, 503, "database")
    assert answer.headers["Retry-After"] == "5"

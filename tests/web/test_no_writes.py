"""What the service still does while its database takes no writes."""

from __future__ import annotations

import pytest
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
    store.create_user("anna", Role.MEMBER, ["default"])
    token, secret = store.create_token("anna", "ci", Scope.WRITE)
    headers = {"Authorization": f"Bearer {secret}"}
    with client_of(settings.model_copy(update={"access": "on"}), store) as client:
        with no_writes(store):
            assert [client.get("/api/v1/jobs", headers=headers).status_code for _ in range(2)] == [200, 200]
            refused(client.post("/api/v1/jobs", json={"script": "x = 1"}, headers=headers), 503, "database")
            assert store.tokens("anna") == [token]
        assert client.post("/api/v1/jobs", json={"script": "x = 1"}, headers=headers).status_code == 202
    assert store.tokens("anna")[0].last_used_at is not None

"""The OpenAPI document is true: whatever it allows is answered as it says, whoever asks; and it says what all is for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)
from webtest import SCRIPT, Hands

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Store
from minimizer.vocabulary import Role, Scope

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 5

# What the document says by a format (web/formats.py).
schemathesis.openapi.format("python", st.integers(0, 10**6).map("x = {}".format))
schemathesis.openapi.format("project", st.just("default"))
schemathesis.openapi.format("cursor", st.just("YmVmb3JlIDc"))


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    options = {"requests_per_minute": 10**6, "max_open_jobs": 10**6, "max_queued_jobs": 10**6}
    return Settings(data_dir=tmp_path, database_url=sqlite_url, access="on", **options)


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: the document says nothing of databases."""
    return sqlite_url


@pytest.fixture
def ask_all(client: FlaskClient, store: Store) -> Callable[[str | None], set[int]]:
    """Sends generated requests to every operation; half of those for a job are for one that there is."""
    job = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options())[0]).minimize()

    def ask_all(token: str | None) -> set[int]:
        schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", client.application)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        seen: set[int] = set()
        numbers = itertools.count()
        for result in schema.get_all_operations():
            operation = result.ok()

            @hypothesis_settings(
                max_examples=EXAMPLES,
                database=None,
                suppress_health_check=list(HealthCheck),
                derandomize=True,
            )
            @given(case=operation.as_strategy())
            def send(case: Any) -> None:
                wanted = case.path_parameters.get("job_id")
                if wanted is not None and len(wanted) % 2 and case.method != "DELETE":
                    case.path_parameters["job_id"] = job.id
                if (
                    "Idempotency-Key" in case.headers
                ):  # each its own: for another request under one there is an answer of its own
                    case.headers["Idempotency-Key"] = f"{case.headers['Idempotency-Key'][:100]}-{next(numbers)}"
                response = case.call(headers=headers)
                seen.add(response.status_code)
                # A file is any bytes to a schema, and a script or an archive to us.
                has_file = case.media_type == "multipart/form-data"
                checks = [*CHECKS, *([] if has_file else [positive_data_acceptance])]
                case.validate_response(response, checks=checks)

            send()
        return seen

    return ask_all


def test_an_admin_is_answered_as_documented(ask_all: Callable[[str | None], set[int]], store: Store) -> None:
    store.users.create("root", Role.ADMIN)
    seen = ask_all(store.tokens.create("root", "test", Scope.WRITE)[1])
    assert {200, 202, 404, 422} <= seen and not seen & {401, 403}


def test_a_read_only_token_is_answered_as_documented(ask_all: Callable[[str | None], set[int]], store: Store) -> None:
    store.users.create("anna", Role.MEMBER, ["default"])
    before = store.jobs.counts()
    seen = ask_all(store.tokens.create("anna", "test", Scope.READ)[1])
    assert {200, 403, 404} <= seen and not seen & {201, 202, 204}
    assert store.jobs.counts() == before


def test_nobody_is_answered_as_documented(ask_all: Callable[[str | None], set[int]], store: Store) -> None:
    before = store.jobs.counts()
    assert ask_all(None) <= {200, 401, 404, 422}
    assert store.jobs.counts() == before


def test_every_operation_says_what_it_is_for(client: FlaskClient) -> None:
    document = client.get("/api/v1/openapi.json").get_json()
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert operation["summary"] and operation["tags"]
        assert {"401", "403", "422", "429"} <= set(operation["responses"])
        for parameter in operation.get("parameters", []):
            assert parameter["description"], parameter
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_the_whole_api_is_in_the_document(client: FlaskClient) -> None:
    document = client.get("/api/v1/openapi.json").get_json()
    documented = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {
        (method, re.sub(r"<(?:[^:>]*:)?(\w+)>", r"{\1}", rule.rule))
        for rule in client.application.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith("/api/") and rule.endpoint.partition(".")[0] != "documentation"
    }
    assert {call for call in documented if call[1].startswith("/api/")} == served

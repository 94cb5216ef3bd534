"""POST /api/v1/jobs: what is taken, what is refused, and that nothing is lost."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, client_of, refused
from werkzeug.test import TestResponse

from minimizer import script_text
from minimizer.settings import Settings
from minimizer.store import Store


def upload(client: FlaskClient, content: bytes = SCRIPT, filename: str = "model.py", **kwargs: Any) -> TestResponse:
    headers = kwargs.pop("headers", None)
    data = {"script": (io.BytesIO(content), filename), **kwargs}
    return client.post("/api/v1/jobs", data=data, headers=headers)


def test_multipart_upload_is_stored_and_rung_for(client: FlaskClient, store: Store, rung: list[str]) -> None:
    response = upload(client, budget="60", args=["--size", "8"], witness="false")
    body = response.get_json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/api/v1/jobs/{body['id']}"
    assert body["status"] == "queued" and not body["final"]
    assert rung == [body["id"]]
    assert store.jobs.script(body["id"]) == SCRIPT
    options = store.jobs.get(body["id"]).options
    assert (options.budget, options.args, options.witness) == (60, ["--size", "8"], False)


def test_json_is_stored(client: FlaskClient, store: Store) -> None:
    body = {"script": SCRIPT.decode(), "filename": "model.py", "options": {"expect": "crash", "env": ["HOME"]}}
    response = client.post("/api/v1/jobs", json=body)
    assert response.status_code == 202
    job = store.jobs.get(response.get_json()["id"])
    assert (job.filename, job.options.expect, job.options.env) == ("model.py", "crash", ["HOME"])


@pytest.fixture
def roomy(settings: Settings, store: Store) -> Iterator[FlaskClient]:
    """Takes scripts as long as by default."""
    with client_of(settings.model_copy(update={"max_script_bytes": 1 << 20}), store, lambda job: None) as client:
        yield client


def test_a_script_that_is_too_much_to_parse_is_refused(roomy: FlaskClient, store: Store) -> None:
    """Its tree took a gigabyte of the server, which did nothing else meanwhile."""
    refused(upload(roomy, b"a;" * (1 << 19)), 422, "takes more than 512 MiB")
    assert store.jobs.counts() == dict.fromkeys(store.jobs.counts(), 0)


def test_whoever_gets_no_turn_with_a_long_script_is_to_come_back(
    roomy: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimizer.script_text._TURN_SECONDS", 0.01)
    monkeypatch.setattr("minimizer.script_text._turns", threading.BoundedSemaphore(1))
    with script_text._turns:
        response = upload(roomy, b"a = 1\n" * 10_000)
    refused(response, 503, "Try again soon")
    assert response.headers["Retry-After"] == "5"
    assert store.jobs.counts() == dict.fromkeys(store.jobs.counts(), 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"def f(:\n", "is not Python"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"x = '\x00'", "is not Python"),
        (b"(" * 2000, "is not Python"),
        (b"x" + b".a" * 1500 + b"\n" + b"-" * 1000 + b"1", ""),
    ],
)
def test_what_is_no_script_is_refused(client: FlaskClient, store: Store, content: bytes, words: str) -> None:
    response = upload(client, content)
    if words:
        refused(response, 422, words)
        assert store.jobs.counts() == dict.fromkeys(store.jobs.counts(), 0)
    else:  # odd, but Python
        assert response.status_code in (202, 422)


def test_too_large_is_413_in_every_form(client: FlaskClient) -> None:
    large = b"x = 1\n" * 1000
    refused(upload(client, large), 413, "at most 4,096")
    refused(client.post("/api/v1/jobs", json={"script": large.decode()}), 413, "at most 4,096")
    huge = b"#" * 2_000_000
    for setting in ("MINIMIZER_MAX_SCRIPT_BYTES", "MINIMIZER_MAX_ARCHIVE_BYTES"):
        refused(upload(client, bytes(26_000_000)), 413, setting)
    refused(upload(client, huge), 413, "MINIMIZER_MAX_SCRIPT_BYTES")
    refused(client.post("/api/v1/jobs", json={"script": huge.decode()}), 413, "MINIMIZER_MAX_SCRIPT_BYTES")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budgt": "60"}, "unknown option 'budgt'; known are budget"),
        ({"budget": "1"}, "'budget'"),
        ({"budget": "soon"}, "'budget'"),
        ({"device": "tpu"}, "'device'"),
        ({"env": "A=B"}, "'env.0'"),
        ({"args": "a\0b"}, "NUL"),
        ({"toolchain": "nightly"}, "there is no 'nightly'"),
    ],
)
def test_options_are_checked(client: FlaskClient, options: dict[str, str], words: str) -> None:
    refused(upload(client, **options), 422, words)


def test_unknown_field_of_the_body_is_refused(client: FlaskClient) -> None:
    refused(client.post("/api/v1/jobs", json={"script": "x = 1", "optoins": {}}), 422, "optoins")


def test_broken_requests_are_told_apart(client: FlaskClient) -> None:
    refused(client.post("/api/v1/jobs", data={"budget": "60"}, content_type="multipart/form-data"), 400, "'script'")
    refused(client.post("/api/v1/jobs", json=[1]), 422, "body")
    refused(client.post("/api/v1/jobs", json={"script": "x = '\ud800'"}), 400, "surrogate")
    refused(client.post("/api/v1/jobs", data="x = 1", content_type="text/x-python"), 415, "multipart/form-data")
    refused(client.post("/api/v1/jobs"), 415, "multipart/form-data")


def test_two_scripts_are_not_one_job(client: FlaskClient, store: Store) -> None:
    two = {"script": [(io.BytesIO(SCRIPT), "a.py"), (io.BytesIO(b"x = 2"), "b.py")]}
    refused(
        client.post("/api/v1/jobs", data=two),
        400,
        "2 files named 'script', and a job has one. Send many scripts to /api/v1/batches",
    )
    two = {"archive": [(io.BytesIO(b"a"), "a.zip"), (io.BytesIO(b"b"), "b.zip")]}
    refused(client.post("/api/v1/jobs", data=two), 400, "2 files named 'archive'")
    assert store.jobs.page()[0] == []


def test_an_archive_that_is_sent_as_a_script_is_told_where_it_goes(client: FlaskClient) -> None:
    refused(upload(client, b"PK\x03\x04" + bytes(8000), "a.zip"), 422, "a.zip is a zip archive")


def test_idempotency_key_makes_one_job(client: FlaskClient, rung: list[str]) -> None:
    headers = {"Idempotency-Key": "build-17"}
    first = upload(client, headers=headers).get_json()
    again = upload(client, headers=headers)
    assert again.status_code == 202 and again.get_json()["id"] == first["id"]
    assert rung == [first["id"]]
    refused(upload(client, b"x = 2\n", headers=headers), 422, "Idempotency-Key")
    refused(upload(client, headers={"Idempotency-Key": "k" * 201}), 422, "Idempotency-Key")


def test_full_queue_says_come_back(client: FlaskClient) -> None:
    for _ in range(20):
        assert upload(client, force="true").status_code == 202
    response = upload(client, force="true")
    refused(response, 429, "waiting")
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd.py", "passwd.py"),
        ("C:\\Users\\me\\model.py", "model.py"),
        ("evil\u202egnp.py", "evilgnp.py"),
        ("a\r\nSet-Cookie: x=1.py", "aSet-Cookie: x=1.py"),
        (".hidden.py", "hidden.py"),
        ("m" * 300 + ".py", "m" * 116 + ".py"),
        ("/", "script.py"),
    ],
)
def test_file_names_are_made_harmless(client: FlaskClient, sent: str, kept: str) -> None:
    response = client.post("/api/v1/jobs", json={"script": "x = 1", "filename": sent})
    body = response.get_json()
    assert body["filename"] == kept
    raw = client.get(body["links"]["script.py"])
    assert raw.status_code == 200 and "Set-Cookie" not in raw.headers


def test_a_notebook_is_taken_as_the_script_of_its_cells(client: FlaskClient, store: Store) -> None:
    """However large: those with pictures in them are larger than scripts may be."""
    cells = [{"cell_type": "code", "source": "%time x = 1", "outputs": [{"data": "x" * 2_000_000}]}]
    notebook = json.dumps({"cells": cells, "nbformat": 4}).encode()
    for response in (
        upload(client, notebook, "train.ipynb"),
        client.post("/api/v1/jobs", json={"script": notebook.decode(), "filename": "a.ipynb"}),
    ):
        assert response.status_code in (201, 202), response.text
        assert client.get(response.get_json()["links"]["script.py"]).data == b"# %% cell 1\nx = 1\n"
    assert response.get_json()["filename"] == "a.py"


def test_a_notebook_without_code_is_refused(client: FlaskClient, store: Store) -> None:
    refused(
        upload(client, b'{"cells": [], "nbformat": 4}', "train.ipynb"),
        422,
        "train.ipynb is a Jupyter notebook without code",
    )
    assert store.jobs.counts() == dict.fromkeys(store.jobs.counts(), 0)


def test_syntax_is_judged_by_the_python_that_is_asked_for(settings: Settings, store: Store) -> None:
    """One that only the workers have judges later."""
    pythons = f"here={sys.executable},away=/no/such/python"
    with client_of(settings.model_copy(update={"toolchains": pythons}), store, lambda job: None) as client:
        assert upload(client, b"x = = 1\n", toolchain="away").status_code == 202
        refused(upload(client, b"x = = 2\n", toolchain="here"), 422, "is not Python")
        refused(upload(client, b"x = = 3\n"), 422, "is not Python")

"""What is accepted is what the document says, and nothing else; both sides of each of its rules are asked of it."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator
from webtest import SCRIPT, client_of, refused

from minimizer.settings import Settings
from minimizer.store import Store


def schema(client: FlaskClient, name: str) -> dict[str, Any]:
    document = client.get("/api/v1/openapi.json").get_json()
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


def is_valid(client: FlaskClient, name: str, body: object) -> bool:
    return bool(Draft202012Validator(schema(client, name)).is_valid(body))


JOB = {"script": SCRIPT.decode()}


@pytest.mark.parametrize(
    "more",
    [
        {"priority": 0.0},
        {"options": {"budget": 60.0}},
        {"options": {"steps": None, "target": None, "toolchain": None}},
        {"options": {"args": ["", "-x", "\N{SNOWMAN}"], "env": ["HOME"]}},
        {"filename": None, "project": "default", "force": True},
        {"filename": "../../etc/passwd"},
    ],
)
def test_what_the_schema_allows_is_accepted(client: FlaskClient, more: dict[str, Any]) -> None:
    assert is_valid(client, "ScriptBody", {**JOB, **more})
    assert client.post("/api/v1/jobs", json={**JOB, **more}).status_code == 202


@pytest.mark.parametrize(
    "body",
    [
        {**JOB, "force": 0},
        {**JOB, "force": "true"},
        {**JOB, "priority": False},
        {**JOB, "priority": "1"},
        {**JOB, "priority": 0.5},
        {**JOB, "options": {"budget": "60"}},
        {**JOB, "options": {"budget": True}},
        {**JOB, "options": {"witness": 1}},
        {**JOB, "options": {"witness": "yes"}},
        {**JOB, "options": {"budgt": 60}},
        {**JOB, "options": {"args": "-x"}},
        {**JOB, "options": {"args": ["a\0b"]}},
        {**JOB, "options": {"env": ["A=B"]}},
        {**JOB, "options": {"toolchain": "nightly"}},
        {**JOB, "options": None},
        {"script": ""},
        {"script": " \n"},
        {"script": None},
    ],
)
def test_what_the_schema_forbids_is_refused(client: FlaskClient, store: Store, body: dict[str, Any]) -> None:
    assert not is_valid(client, "ScriptBody", body)
    refused(client.post("/api/v1/jobs", json=body), 422, "")
    assert not is_valid(client, "BatchBody", {"jobs": [body]})
    batch = {"jobs": [{name: value for name, value in body.items() if name != "force"}]}
    batch |= {"force": body["force"]} if "force" in body else {}
    refused(client.post("/api/v1/batches", json=batch), 422, "")
    assert store.jobs.page()[0] == []


def test_an_interpreter_that_is_configured_can_be_asked_for(settings: Settings, store: Store) -> None:
    with client_of(settings.model_copy(update={"toolchains": "nightly=/opt/nightly/bin/python"}), store) as client:
        body = {**JOB, "options": {"toolchain": "nightly"}}
        assert is_valid(client, "ScriptBody", body)
        assert client.post("/api/v1/jobs", json=body).status_code == 202
        assert not is_valid(client, "RetestBody", {"toolchain": "other"})


@pytest.mark.parametrize(
    ("name", "value", "is_taken"),
    [
        ("force", "true", True),
        ("force", "False", True),
        ("force", "0", False),
        ("force", "yes", False),
        ("witness", "1", False),
        ("budget", "60", True),
        ("budget", "true", False),
        ("budget", "60 s", False),
        ("steps", "null", True),
        ("steps", "", False),
        ("steps", "None", True),
        ("toolchain", "null", True),
        ("toolchain", "None", True),
        ("toolchain", "nightly", False),
        ("target", "null", True),
        ("budget", "null", False),
        ("priority", "-3", True),
        ("priority", "false", False),
        ("filename", "a.py", False),
        *((name, "[" * 100_000, False) for name in ("budget", "priority", "force", "nproc")),
    ],
)
def test_a_field_of_a_form_is_a_number_or_a_truth_value_or_neither(
    client: FlaskClient, name: str, value: str, is_taken: bool
) -> None:
    response = client.post("/api/v1/jobs", data={"script": (io.BytesIO(SCRIPT), "a.py"), name: value})
    assert response.status_code == (202 if is_taken else 422), response.text
    if value in ("null", "None") and is_taken:
        assert response.get_json()["options"][name] is None


def test_a_form_has_a_script_or_an_archive(client: FlaskClient) -> None:
    for fields, valid in (
        ({}, False),
        ({"script": ""}, True),
        ({"archive": "", "main": "a.py"}, True),
        ({"script": "", "archive": ""}, False),
        ({"script": "", "main": "a.py"}, False),
    ):
        assert is_valid(client, "UploadBody", fields) is valid, fields
    refused(client.post("/api/v1/jobs", data={"script": (io.BytesIO(SCRIPT), "a.py"), "main": "a.py"}), 422, "main")


ADDRESSES = {
    "https://ci.example/hook?x=1": True,
    "HTTP://[::1]:65535/": True,
    "http://[1:2:3:4:5:6:7:8]": True,
    "http://[fe80:0:0:1::1]/": True,
    "http://[1:2:3:4:5:6:7::]/": True,
    "http://[1:2:3:4:5:6:7:8:9]/": False,
    "http://[1::2::3]/": False,
    "http://[0]/": False,
    "http://[::1]x/": False,
    "http://[::1.2.3.4]/": False,
    "http://ci[::1]/": False,
    "http://ci.example:8080": True,
    "": False,
    "ci.example": False,
    "ftp://ci.example/": False,
    "http://": False,
    "http://user@ci.example/": False,
    "http://ci.example:65536/": False,
    "http://ci.example:0/": False,
    "http://ci.example/\N{SNOWMAN}": False,
    "http://ci.example/ x": False,
}


@pytest.mark.parametrize(("address", "is_taken"), ADDRESSES.items())
def test_an_address_is_one_that_the_document_allows(client: FlaskClient, address: str, is_taken: bool) -> None:
    assert is_valid(client, "NewWebhookBody", {"url": address}) is is_taken
    response = client.post("/api/v1/webhooks", json={"url": address})
    assert response.status_code == (201 if is_taken else 422), response.text


def test_a_cursor_is_said_to_come_from_an_answer(client: FlaskClient) -> None:
    document = client.get("/api/v1/openapi.json").get_json()
    (cursor,) = [one for one in document["paths"]["/api/v1/jobs"]["get"]["parameters"] if one["name"] == "cursor"]
    assert cursor["schema"]["anyOf"][0]["format"] == "cursor" and "next_cursor" in cursor["description"]
    refused(client.get("/api/v1/jobs?cursor=made-up"), 422, "take it from the Link header")


def test_every_problem_is_the_same_schema_and_every_answer_has_its_headers(client: FlaskClient) -> None:
    document = client.get("/api/v1/openapi.json").get_json()
    for item in document["paths"].values():
        for operation in item.values():
            assert re.fullmatch(r"[a-z_]+", operation["operationId"])
            for status, response in operation["responses"].items():
                assert "X-Request-Id" in response["headers"], operation["operationId"]
                if status >= "400":
                    (content,) = response["content"].values()
                    assert content["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
    submit = document["paths"]["/api/v1/jobs"]["post"]["responses"]["202"]["headers"]
    assert {"Location", "Retry-After"} <= set(submit) <= set(document["components"]["headers"])

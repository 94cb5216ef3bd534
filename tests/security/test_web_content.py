"""What the web side sends: a hostile script stays text, whatever it, its name or its results hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib import resources

import pytest
from flask.testing import FlaskClient
from webtest import Hands, client_of

from minimizer.options import Options
from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import AlsoSeen, Failure, Report, Rung, Workaround
from minimizer.settings import Settings
from minimizer.store import Job, Store
from minimizer.vocabulary import Kind, Status

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>{{ 7 * 7 }}"
SCRIPT = f"# </code></pre>{ATTACK}\nx = '''{ATTACK.replace(chr(39), '')}'''\n".encode()

PLAIN = ("/failures", "/workers", "/docs", "/docs/rest", "/nothing")


@pytest.fixture
def client(store: Store) -> Iterator[FlaskClient]:
    with client_of(Settings(), store) as client:
        yield client


@pytest.fixture
def hostile(store: Store) -> Job:
    """A job that tries to become a page of ours in every field it can reach."""
    job, _ = store.submissions.submit(SCRIPT, f"{ATTACK}.py", Options(args=[ATTACK], target=ATTACK))
    hands = Hands(store, job)
    hands.event("note", message=ATTACK)
    hands.event("progress", nodes=3, nodes_before=9, message=ATTACK, elapsed=1.0)
    hands.artifact("repro.py", SCRIPT)
    hands.artifact("report.md", SCRIPT)
    hands.artifact("run.log", SCRIPT)
    hands.artifact("page.html", b"<!doctype html>" + SCRIPT)
    hands.artifact("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    hands.finish(
        Report(
            status=Status.MINIMIZED,
            summary=ATTACK,
            failure=Failure(kind=Kind.CRASH, message=ATTACK, exception_type=ATTACK, signature=ATTACK),
            culprits=[
                Culprit(module=ATTACK, ops=[ATTACK], what=ATTACK, source=Source(file=ATTACK, line=1, code=ATTACK))
            ],
            ladder=[Rung(backend=ATTACK, outcome=ATTACK, seconds=1, raised=ATTACK)],
            workaround=Workaround(code=ATTACK, verified=False),
            also_seen=[AlsoSeen(kind=Kind.HANG, signature=ATTACK)],
            notes=[ATTACK],
            environment={ATTACK: ATTACK},
        )
    )
    return store.jobs.get(job.id)


def test_pages_show_hostile_text_as_text(client: FlaskClient, store: Store, hostile: Job) -> None:
    (group,) = store.groups.newest()
    store.workers.register("w", device=ATTACK, torch=ATTACK, toolchains=[ATTACK])
    paths = ("/", "/jobs", f"/jobs/{hostile.id}", f"/jobs/{hostile.id}/script", f"/failures/{group.signature}")
    for path in (*paths, "/failures", "/workers"):
        page = client.get(path).text
        assert "<script>alert" not in page and "<img" not in page, path
        assert "alert(1)" in page, path
    assert "{{ 7 * 7 }}" in client.get(f"/jobs/{hostile.id}").text


def test_refused_form_shows_hostile_text_as_text(client: FlaskClient) -> None:
    page = client.post("/jobs", data={"source": f"</textarea>{ATTACK}", "filename": ATTACK, "target": ATTACK})
    assert page.status_code == 422
    assert "<script>alert" not in page.text and "</textarea><" not in page.text


def test_pages_have_nothing_inline(client: FlaskClient, store: Store, hostile: Job) -> None:
    (group,) = store.groups.newest()
    for path in ("/", "/jobs", f"/jobs/{hostile.id}", f"/failures/{group.signature}", *PLAIN):
        page = client.get(path, headers={"Accept": "text/html"}).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page.replace("onerror=alert(2)", "")), path
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page)), path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jobs",
        "/docs",
        "/docs/cli",
        "/failures",
        "/workers",
        "/api/v1/jobs",
        "/healthz",
        "/nothing",
        "/static/app.css",
    ],
)
def test_every_answer_carries_the_headers(client: FlaskClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "same-origin"


def test_files_never_become_pages(client: FlaskClient, hostile: Job) -> None:
    base = f"/api/v1/jobs/{hostile.id}"
    names = [one["url"] for one in client.get(f"{base}/artifacts").get_json()["artifacts"]]
    for url in [*names, f"{base}/repro.py", f"{base}/report.md", f"{base}/run.log", f"{base}/script.py"]:
        response = client.get(url, headers={"Accept": "text/html"})
        assert response.mimetype in ("text/plain", "application/octet-stream", "application/json"), url
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in response.headers["Content-Security-Policy"]
        assert "script-src" not in response.headers["Content-Security-Policy"]


def test_hostile_file_name_stays_inside_its_header(client: FlaskClient, hostile: Job) -> None:
    disposition = client.get(f"/api/v1/jobs/{hostile.id}/script.py").headers["Content-Disposition"]
    assert disposition.startswith("inline; filename")
    assert "\n" not in disposition


def test_vendored_files_are_what_was_published() -> None:
    vendor = resources.files("web") / "static" / "vendor"
    listed = dict(line.split()[::-1] for line in (vendor / "CHECKSUMS").read_text().splitlines())
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in vendor.iterdir()}
    del found["CHECKSUMS"]
    assert found == listed

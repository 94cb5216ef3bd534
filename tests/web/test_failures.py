"""Groups of failures over REST and on their pages."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from webtest import SCRIPT, Hands, client_of, minimized_report, refused
from werkzeug.test import TestResponse

from minimizer.options import Options
from minimizer.report.culprit import Culprit, GraphNode
from minimizer.report.identity import fingerprint
from minimizer.report.model import Failure, Report
from minimizer.service import archive
from minimizer.settings import Settings
from minimizer.store import Job, NewJob, Store
from minimizer.store.tables.models import DeliveryRow
from minimizer.vocabulary import Kind, Reason, Status

Fail = Callable[..., Job]
API = "/api/v1/failures"
RELU = fingerprint(minimized_report().to_json()) or ""


@pytest.fixture
def fail(store: Store) -> Fail:
    """Run a job that ends with a report, by default that of a wrong relu."""

    def run(report: Report | None = None, filename: str = "model.py", project: str = "default") -> Job:
        ((job, _),) = store.submissions.submit_many([NewJob(SCRIPT, filename, Options())], project=project, force=True)
        hands = Hands(store, job)
        hands.artifact("repro.py", f"# of {filename}\n".encode())
        hands.finish(report or minimized_report())
        return store.jobs.get(hands.claim.job_id)

    return run


def lowering(message: str, operator: str = "aten.relu", nodes: int = 1) -> Report:
    """The report of an exception while compiling."""
    report = minimized_report()
    assert report.reduction is not None
    report.failure = Failure(kind=Kind.COMPILE_ERROR, exception_type="KeyError", message=message, signature=message)
    report.culprits = [Culprit(ops=[operator])]
    report.graph = [GraphNode(name="x", op=operator)]
    report.reduction = report.reduction.model_copy(update={"nodes_after": nodes})
    return report


def get(client: FlaskClient, signature: str) -> Any:
    response = client.get(f"{API}/{signature}")
    assert response.status_code == 200, response.text
    return response.get_json()


def listed(client: FlaskClient) -> list[str]:
    return [group["signature"] for group in client.get(API).get_json()["failures"]]


def test_the_same_failure_is_one_group(client: FlaskClient, fail: Fail) -> None:
    first, second = fail(), fail(filename="other.py")
    other = fail(lowering("no lowering"))
    assert listed(client) == [fingerprint(lowering("no lowering").to_json()), RELU]
    group = get(client, RELU)
    assert (group["kind"], group["jobs"], group["latest"], group["operators"]) == (
        "wrong_output",
        2,
        second.id,
        ["aten.relu"],
    )
    assert [(member["job"]["id"], member["because"]) for member in group["members"]] == [
        (second.id, "the same fingerprint"),
        (first.id, "the first of its kind"),
    ]
    assert group["first_seen"] == group["members"][1]["job"]["created_at"]
    assert other.id not in str(group)
    refused(client.get(f"{API}/other"), 404, API)


def test_a_job_without_a_failure_is_in_no_group(client: FlaskClient, fail: Fail) -> None:
    fail(Report(status=Status.HEALTHY))
    fail(Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER))
    assert listed(client) == []


def test_a_similar_failure_joins_and_the_figures_are_shown(client: FlaskClient, fail: Fail) -> None:
    fail(lowering("no lowering for this operator in this version of it"))
    fail(lowering("no lowering for this operator in that version of it"))
    fail(lowering("no lowering for this operator in that version of it", "aten.gelu"))
    gelu, relu = listed(client)
    assert [member["because"] for member in get(client, relu)["members"]] == [
        "97% alike: operators 100%, message 90%, graph 100%",
        "the first of its kind",
    ]
    assert get(client, gelu)["jobs"] == 1


def test_the_best_repro_is_the_smallest(client: FlaskClient, fail: Fail) -> None:
    fail(lowering("m", nodes=5))
    fail(lowering("m", nodes=2))
    small = fail(lowering("m", nodes=2))
    last = fail(lowering("m", nodes=10))
    unverified = lowering("m", nodes=1)
    unverified.status, unverified.reason = Status.PARTIAL, Reason.NOT_VERIFIED
    newest = fail(unverified)
    group = get(client, listed(client)[0])
    assert (group["jobs"], group["best"], group["latest"]) == (5, small.id, newest.id), last.id


def test_a_signature_means_a_group_of_one_project(client: FlaskClient, fail: Fail, store: Store) -> None:
    store.projects.create("other")
    ours, theirs = fail(), fail(project="other")
    fail(lowering("m", "aten.gelu"))
    gelu = fail(lowering("m", "aten.gelu"), project="other")
    assert get(client, RELU)["project"] == "other", "the newest"
    for project, job in (("default", ours), ("other", theirs)):
        group = get(client, f"{RELU}?project={project}")
        assert [member["job"]["id"] for member in group["members"]] == [job.id]
        assert client.get(group["url"]).get_json() == group
        page = client.get(f"/failures/{RELU}?project={project}").text
        assert job.id in page and f'action="/failures/{RELU}?project={project}"' in page
        assert f'href="/failures/{RELU}?project={project}"' in client.get("/failures").text
    known = client.patch(f"{API}/{RELU}?project=default", json={"note": "ours"}).get_json()
    assert (known["project"], known["note"], get(client, RELU)["note"]) == ("default", "ours", "")
    client.post(f"/failures/{RELU}?project=default", data={"action": "describe", "note": "still ours"})
    assert (get(client, f"{RELU}?project=default")["note"], get(client, RELU)["note"]) == ("still ours", "")
    other = store.groups.newest(projects=["default"])[0].signature
    merged = client.post(f"{API}/{RELU}/merge?project=default", json={"other": other}).get_json()
    assert (merged["project"], merged["jobs"]) == ("default", 2)
    assert gelu.id in str(get(client, f"{other}?project=other"))
    retest = client.post(f"{API}/{RELU}/retest?project=default", json={}).get_json()
    assert retest["project"] == "default"
    for name in ("none", "%00", "n" * 64):
        refused(client.get(f"{API}/{RELU}?project={name}"), 404, API)
    assert client.get(f"/failures/{RELU}?project=%00").status_code == 404


def test_merge_and_split_keep_history_and_what_follows(client: FlaskClient, fail: Fail) -> None:
    one, gelu = fail(), fail(lowering("m", "aten.gelu"))
    other = listed(client)[0]
    client.patch(f"{API}/{other}", json={"note": "seen in nightly"})
    merged = client.post(f"{API}/{RELU}/merge", json={"other": other}).get_json()
    assert (merged["jobs"], merged["note"]) == (2, "seen in nightly")
    assert [line["what"] for line in merged["history"]] == [f"merged with {other}", "note: seen in nightly"]
    assert get(client, other)["signature"] == RELU, "its old name leads to it"
    assert other not in listed(client)
    assert fail(lowering("m", "aten.gelu")).id in str(get(client, RELU)), "the next one follows"

    split = client.post(f"{API}/{RELU}/split", json={"jobs": [one.id]}).get_json()
    assert split["signature"] == f"{RELU}-2"
    assert [member["job"]["id"] for member in split["members"]] == [one.id]
    assert split["history"][0]["what"] == f"split from {RELU}: {one.id}"
    assert fail().id in str(get(client, f"{RELU}-2")), "the next one follows"
    refused(client.post(f"{API}/{RELU}/split", json={"jobs": [one.id]}), 409, "some of the jobs")
    everything = [member["job"]["id"] for member in get(client, RELU)["members"]]
    assert gelu.id in everything
    refused(client.post(f"{API}/{RELU}/split", json={"jobs": everything}), 409, "not all")


def test_a_job_leads_to_its_group(client: FlaskClient, fail: Fail, store: Store) -> None:
    """The signature in a report is no name of a group: a client follows the link."""
    store.projects.create("other")
    hook, _ = store.webhooks.create("default", "https://ci.example/hook")
    healthy = fail(Report(status=Status.HEALTHY))
    queued = client.post("/api/v1/jobs", json={"script": "x = 1"}).get_json()
    theirs, ours = fail(project="other"), fail()

    def link(job: Job) -> str | None:
        found = client.get(f"/api/v1/jobs/{job.id}").get_json()["links"].get("failure")
        assert found is None or client.get(found).status_code == 200
        listed = next(one for one in client.get("/api/v1/jobs").get_json()["jobs"] if one["id"] == job.id)
        assert listed["links"].get("failure") == found
        return found if found is None else str(found)

    assert (link(healthy), link(store.jobs.get(queued["id"]))) == (None, None)
    assert (link(theirs), link(ours)) == (
        f"/api/v1/failures/{RELU}?project=other",
        f"/api/v1/failures/{RELU}?project=default",
    )
    assert get(client, RELU)["members"][0]["job"]["links"]["failure"].startswith(f"/api/v1/failures/{RELU}")
    with store._database.read() as session:
        bodies = session.scalars(select(DeliveryRow.body).where(DeliveryRow.webhook_id == hook.id))
        told = {job["id"]: job for job in (json.loads(body)["job"] for body in bodies)}
    assert (told[ours.id]["group"], told[ours.id]["signature"], told[healthy.id]["group"]) == (RELU, "relu", None)

    second = fail()
    known = client.get(f"/api/v1/jobs/{second.id}").headers["ETag"]
    client.post(f"{API}/{RELU}/split?project=default", json={"jobs": [second.id]})
    assert link(second) == f"/api/v1/failures/{RELU}-2?project=default"
    changed = client.get(f"/api/v1/jobs/{second.id}", headers={"If-None-Match": known})
    assert changed.status_code == 200, "a client that has the old link is told"
    client.post(f"{API}/{RELU}/merge?project=default", json={"other": f"{RELU}-2"})
    assert link(second) == link(ours)
    merged = client.get(f"/api/v1/jobs/{second.id}", headers={"If-None-Match": changed.headers["ETag"]})
    assert merged.status_code == 200

    store.submissions.retry(second.id)
    assert link(second) is None, "it has not failed again yet"
    store.jobs.request_cancel(second.id)
    with store._database.read() as session:
        newest = select(DeliveryRow.body).where(DeliveryRow.job_id == second.id).order_by(DeliveryRow.number.desc())
        assert json.loads(session.scalars(newest.limit(1)).one())["job"]["group"] is None


def test_a_second_run_stays_where_it_was_put(client: FlaskClient, fail: Fail, store: Store) -> None:
    one, two = fail(), fail()
    client.post(f"{API}/{RELU}/split", json={"jobs": [one.id]})
    for report, where in ((minimized_report(), f"{RELU}-2"), (Report(status=Status.HEALTHY), None)):
        store.submissions.retry(one.id)
        Hands(store, store.jobs.get(one.id)).finish(report)
        groups = {name: str(get(client, name)["members"]) for name in listed(client)}
        assert [name for name, members in groups.items() if one.id in members] == ([where] if where else [])
    assert two.id in str(get(client, RELU))


def test_what_is_known_is_kept_and_checked(client: FlaskClient, fail: Fail) -> None:
    fail()
    issue = "https://github.com/pytorch/pytorch/issues/1"
    group = client.patch(f"{API}/{RELU}", json={"issue_url": issue, "fixed_in": "2.14.0"}).get_json()
    assert (group["issue_url"], group["fixed_in"], group["note"]) == (issue, "2.14.0", "")
    assert client.patch(f"{API}/{RELU}", json={"fixed_in": ""}).get_json()["fixed_in"] is None
    refused(client.patch(f"{API}/{RELU}", json={"issue_url": "javascript:alert(1)"}), 422, "issue_url")
    refused(client.patch(f"{API}/{RELU}", json={"owner": "me"}), 422, "owner")


def test_a_retest_tells_the_group(client: FlaskClient, fail: Fail, store: Store, rung: list[str]) -> None:
    fail(filename="best.py")
    for report, fixed_in, said in (
        (minimized_report(), None, "still fails in torch 2.13.1"),
        (Report(status=Status.HEALTHY), "2.13.1", "fixed in torch 2.13.1"),
    ):
        report.environment = {"torch": "2.13.1"}
        response = client.post(f"{API}/{RELU}/retest", json={})
        assert response.status_code == 202, response.text
        job = response.get_json()
        assert rung[-1] == job["id"]
        assert store.jobs.script(job["id"]) == b"# of best.py\n"
        hands = Hands(store, store.jobs.get(job["id"]))
        hands.artifact("repro.py", b"# of best.py\n")
        hands.finish(report)
        group = get(client, RELU)
        assert group["fixed_in"] == fixed_in
        assert group["history"][0]["what"].startswith(said)
    assert fail().id
    assert get(client, RELU)["history"][0]["what"].startswith("seen again, in job")
    refused(client.post(f"{API}/{RELU}/retest", json={"toolchain": "nightly"}), 422, "nightly")


def test_a_retest_that_is_over_at_once_tells_the_group(settings: Settings, store: Store, fail: Fail) -> None:
    """A worker may take a job before whoever has rung goes on."""
    fail()
    well = Report(status=Status.HEALTHY, environment={"torch": "2.13.1"})
    with client_of(settings, store, lambda job: Hands(store, job).finish(well)) as client:
        assert client.post(f"{API}/{RELU}/retest", json={}).status_code == 202
        assert get(client, RELU)["fixed_in"] == "2.13.1"


def test_a_retest_that_is_cancelled_tells_the_group_that_nobody_knows(
    client: FlaskClient, fail: Fail, store: Store
) -> None:
    fail()
    job = client.post(f"{API}/{RELU}/retest", json={}).get_json()
    store.jobs.request_cancel(job["id"])
    assert "was inconclusive" in get(client, RELU)["history"][0]["what"]


def test_without_a_repro_there_is_nothing_to_retest(client: FlaskClient, fail: Fail) -> None:
    report = minimized_report()
    report.status, report.reason = Status.PARTIAL, Reason.NOT_VERIFIED
    fail(report)
    refused(client.post(f"{API}/{RELU}/retest", json={}), 409, "verified repro")


def test_a_retest_needs_no_body(client: FlaskClient, fail: Fail) -> None:
    fail()
    path = f"{API}/{RELU}/retest"
    for sent in ({}, {"content_type": "application/json"}, {"data": b"", "content_type": "application/json"}):
        response = client.post(path, **sent)
        assert response.status_code == 202, response.text
        refused(client.post(f"{API}/none/retest", **sent), 404, API)
    refused(client.post(path, data="toolchain=nightly"), 422, "body: send a JSON object")
    refused(client.post(path, data="toolchain=nightly", content_type="application/x-www-form-urlencoded"), 422, "body")
    refused(client.post(path, data="null", content_type="application/json"), 422, "body: send a JSON object")
    document = client.get("/api/v1/openapi.json").get_json()["paths"][f"{API}/{{signature}}/retest"]["post"]
    assert not document["requestBody"].get("required")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/jobs"),
        ("POST", "/api/v1/batches"),
        ("PATCH", f"{API}/{RELU}"),
        ("POST", f"{API}/{RELU}/merge"),
        ("POST", f"{API}/{RELU}/split"),
        ("POST", f"{API}/{RELU}/retest"),
        ("POST", "/api/v1/tokens"),
        ("POST", "/api/v1/webhooks"),
    ],
)
def test_a_body_that_is_no_json_is_answered_everywhere_alike(
    client: FlaskClient, fail: Fail, method: str, path: str
) -> None:
    fail()

    def send(body: bytes) -> TestResponse:
        return client.open(path, method=method, data=body, content_type="application/json")

    for body, words in (
        (b"{", "The body is not JSON (line 1, column 2): "),
        (b'{\n"x": }', "(line 2, column 6): Expecting value."),
        (b'{"x": "\xff"}', "The body is not JSON: it is not UTF-8 text (byte 7)."),
        (b"[" * 60_000, "The body is not JSON: it is nested too deeply."),
    ):
        refused(send(body), 400, words)
    for body in (b"[]", b'"x"', b"1"):
        refused(send(body), 422, "body: send a JSON object")
    document = client.get("/api/v1/openapi.json").get_json()["paths"][path.replace(RELU, "{signature}")]
    assert "400" in document[method.lower()]["responses"]


def test_no_class_of_ours_is_named(client: FlaskClient) -> None:
    refused(client.post("/api/v1/batches", json={"jobs": [1]}), 422, "jobs.0: send a JSON object")
    assert "Body" not in client.post("/api/v1/batches", json={"jobs": [1]}).get_json()["detail"]


def test_a_repro_with_too_many_bytes_is_not_retested(client: FlaskClient, fail: Fail, store: Store) -> None:
    job = fail()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data.pt", bytes(archive.MAX_BYTES + 1))
    hands = Hands(store, store.submissions.retry(job.id))
    hands.artifact("repro.py", b"import torch\n")
    hands.artifact("repro.zip", packed.getvalue())
    hands.finish(minimized_report())
    refused(client.post(f"{API}/{RELU}/retest", json={}), 409, "unpacks to more than the 64 MiB")
    assert store.jobs.counts()[Status.QUEUED] == 0


def test_a_group_is_not_listed_without_jobs_and_comes_back_with_the_next(
    client: FlaskClient, fail: Fail, store: Store
) -> None:
    job = fail()
    client.patch(f"{API}/{RELU}", json={"note": "ours"})
    store.jobs.delete(job.id)
    assert listed(client) == []
    again = fail()
    assert (get(client, RELU)["note"], get(client, RELU)["latest"]) == ("ours", again.id), (
        "what is known of it is not forgotten"
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("kind=compile_error", ["aten.gelu"]),
        ("q=GELU", ["aten.gelu"]),
        ("q=no lowering", ["aten.gelu"]),
        ("q=pytorch/issues/1", ["aten.relu"]),
        ("q=nightly only", ["aten.relu"]),
        ("q=%25", []),
        ("q=relu&kind=compile_error", []),
        ("q=aten", ["aten.gelu", "aten.relu"]),
        ("q=operators", []),
    ],
)
def test_the_list_is_searched(client: FlaskClient, fail: Fail, asked: str, found: list[str]) -> None:
    fail()
    fail(lowering("no lowering", "aten.gelu"))
    client.patch(
        f"{API}/{RELU}", json={"note": "nightly only", "issue_url": "https://github.com/pytorch/pytorch/issues/1"}
    )
    groups = client.get(f"{API}?{asked}").get_json()["failures"]
    assert [group["operators"] for group in groups] == [[name] for name in found]
    page = client.get(f"/failures?{asked}").text
    assert [name for name in ("aten.gelu", "aten.relu") if f"<code>{name}</code>" in page] == found
    assert ("No failure fits" in page) == (not found)
    # A bookmark with a word we do not know any more still opens.
    assert client.get("/failures?kind=gone").status_code == 200


def test_a_merge_that_is_asked_twice_merges_once(client: FlaskClient, fail: Fail) -> None:
    """The second time the name has gone, and leads to whatever bears its fingerprint now."""
    first, second = fail(), fail()
    gelu = fail(lowering("m", "aten.gelu"))
    other = next(name for name in listed(client) if name != RELU)
    split = client.post(f"{API}/{RELU}/split", json={"jobs": [second.id]}).get_json()["signature"]
    for status in (200, 404):
        assert client.post(f"{API}/{other}/merge", json={"other": RELU}).status_code == status
    assert [member["job"]["id"] for member in get(client, split)["members"]] == [second.id]
    assert get(client, other)["jobs"] == 2
    assert {first.id, gelu.id} == {member["job"]["id"] for member in get(client, other)["members"]}
    again = fail(lowering("m", "aten.gelu"))
    assert client.post(f"{API}/{other}/merge", json={"other": other}).status_code == 200, "with itself"
    assert again.id in str(get(client, other))


def test_a_form_changes_what_was_changed_in_it(client: FlaskClient, fail: Fail) -> None:
    fail()
    fail(lowering("m", "aten.gelu"))
    other = next(name for name in listed(client) if name != RELU)
    for name, letter in ((RELU, "a"), (other, "b")):
        client.patch(f"{API}/{name}", json={"note": f"{letter}\n" + letter * 2500})
    note = client.post(f"{API}/{RELU}/merge", json={"other": other}).get_json()["note"]
    assert len(note) > 4000
    form = {"action": "describe", "note": note.replace("\n", "\r\n"), "fixed_in": "2.14.0"}
    assert client.post(f"/failures/{RELU}", data=form).status_code == 303, "it may stay as long as it is"
    known = get(client, RELU)
    assert (known["note"], known["fixed_in"]) == (note, "2.14.0")
    assert known["history"][0]["what"] == "fixed_in: 2.14.0"
    assert not any(line["what"].startswith("note") for line in known["history"][:2])
    longer = client.post(f"/failures/{RELU}", data={**form, "note": note + "!"})
    assert longer.status_code == 422 and "note" in longer.text


def test_the_pages(client: FlaskClient, fail: Fail) -> None:
    job, other = fail(), fail(lowering("<script>alert(1)</script>", "aten.gelu"))
    index = client.get("/failures").text
    assert "wrong output" in index and "aten.relu" in index and "<script>alert" not in index
    page = client.get(f"/failures/{RELU}").text
    assert job.id in page and "the first of its kind" in page and "aten.gelu" in page
    assert "# of model.py" in page and f"/api/v1/jobs/{job.id}/repro.py?download=1" in page
    path = f"/failures/{RELU}"
    issue = "https://github.com/pytorch/pytorch/issues/1"
    described = client.post(path, data={"action": "describe", "note": "ours", "issue_url": issue, "fixed_in": "2.14.0"})
    assert (described.status_code, described.headers["Location"]) == (303, path)
    for text in (client.get(path).text, client.get("/failures").text):
        assert "ours" in text and f'href="{issue}"' in text and "pytorch/pytorch#1" in text and "2.14.0" in text
    gelu = next(name for name in listed(client) if name != RELU)
    client.post(path, data={"action": "merge", "other": gelu})
    assert get(client, RELU)["jobs"] == 2
    split = client.post(path, data={"action": "split", "jobs": other.id})
    assert split.headers["Location"] == f"/failures/{gelu}"
    retest = client.post(path, data={"action": "retest"})
    assert retest.headers["Location"].startswith("/jobs/")
    assert client.post(path, data={"action": "explode"}).status_code == 422
    assert client.get("/failures/none").status_code == 404

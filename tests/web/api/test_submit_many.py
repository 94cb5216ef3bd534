"""What a submission may be besides one new script: one that was asked before, an archive, a batch, another try."""

from __future__ import annotations

import io
import threading

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, Hands, client_of, minimized_report, refused
from werkzeug.test import TestResponse
from zips import zipped

from minimizer.report.model import Failure, Report
from minimizer.settings import Settings
from minimizer.store import Job, Store
from minimizer.vocabulary import Kind, Reason, Stage, Status

BODY = {"script": SCRIPT.decode(), "filename": "model.py"}


def report_of(store: Store, job_id: str) -> Report:
    report = store.results.report(job_id)
    assert report is not None
    return report


def send_archive(client: FlaskClient, content: bytes, **fields: str) -> TestResponse:
    return client.post("/api/v1/jobs", data={"archive": (io.BytesIO(content), "model.zip"), **fields})


def test_the_same_question_has_one_job(client: FlaskClient, store: Store, rung: list[str]) -> None:
    first = client.post("/api/v1/jobs", json=BODY)
    again = client.post("/api/v1/jobs", json=BODY)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.get_json()["id"] == first.get_json()["id"] and len(rung) == 1
    Hands(store, store.jobs.get(rung[0])).finish(minimized_report())
    ended = client.post("/api/v1/jobs", json=BODY)
    assert (ended.status_code, ended.get_json()["id"]) == (200, rung[0])
    assert ended.headers["Location"] == f"/api/v1/jobs/{rung[0]}"
    for other in ({"script": "x = 2"}, {"filename": "other.py"}, {"options": {"budget": 60}}, {"force": True}):
        assert client.post("/api/v1/jobs", json=BODY | other).get_json()["id"] not in rung[:-1]
    assert len(set(rung)) == 5


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
def test_an_end_that_answers_nothing_is_asked_again(client: FlaskClient, store: Store, status: Status) -> None:
    first = client.post("/api/v1/jobs", json=BODY).get_json()
    Hands(store, store.jobs.get(first["id"])).finish(Report(status=status, reason=Reason.INTERNAL_ERROR))
    assert client.post("/api/v1/jobs", json=BODY).get_json()["id"] != first["id"]


def test_a_key_that_is_being_worked_on_is_a_conflict(settings: Settings, store: Store) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow_doorbell(job: Job) -> None:
        begun.set()
        assert go_on.wait(60)

    headers = {"Idempotency-Key": "one"}
    with client_of(settings, store, slow_doorbell) as client:
        answers: list[TestResponse] = []
        first = threading.Thread(target=lambda: answers.append(client.post("/api/v1/jobs", json=BODY, headers=headers)))
        first.start()
        assert begun.wait(60)
        second = client.application.test_client().post("/api/v1/jobs", json=BODY, headers=headers)
        refused(second, 409, "being worked on")
        assert second.headers["Retry-After"] == "1"
        go_on.set()
        first.join(60)
        again = client.post("/api/v1/jobs", json=BODY, headers=headers)
        assert again.get_json()["id"] == answers[0].get_json()["id"]


def test_an_archive_brings_what_the_script_needs(client: FlaskClient, store: Store) -> None:
    content = zipped({"train/run.py": "import ops\n", "train/ops.py": "x = 1\n"})
    response = send_archive(client, content, main="train/run.py", budget="60", priority="3")
    job = store.jobs.get(response.get_json()["id"])
    assert (job.filename, job.options.budget, job.priority, job.has_archive) == ("train/run.py", 60, 3, True)
    assert (store.jobs.script(job.id), store.jobs.archive(job.id)) == (b"import ops\n", content)
    assert client.get(f"/api/v1/jobs/{job.id}/script.py").text == "import ops\n"
    assert client.get(f"/jobs/{job.id}").status_code == 200
    store.jobs.request_cancel(job.id)
    store.jobs.delete(job.id)


def test_archives_that_cannot_be_taken_say_why(client: FlaskClient, settings: Settings, store: Store) -> None:
    refused(send_archive(client, b"no zip"), 422, "not a zip file")
    refused(send_archive(client, zipped({"../x.py": "x = 1"})), 422, "name that is not accepted")
    refused(send_archive(client, zipped({"a.py": "x", "b.py": "x"})), 422, "field 'main'")
    refused(send_archive(client, zipped({"main.py": "def f(:"})), 422, "not Python")
    refused(send_archive(client, zipped({"main.py": "x = 1"}), priority="99"), 422, "priority")
    both = {"archive": (io.BytesIO(b""), "a.zip"), "script": (io.BytesIO(SCRIPT), "a.py")}
    refused(client.post("/api/v1/jobs", data=both), 400, "'script' or 'archive'")
    with client_of(settings.model_copy(update={"max_archive_bytes": 1024}), store) as small:
        refused(send_archive(small, b"x" * 1025), 413, "at most 1,024")


def test_a_batch_is_taken_as_a_whole(client: FlaskClient, store: Store, rung: list[str]) -> None:
    jobs = [{"script": f"x = {number}", "filename": f"{number}.py"} for number in range(3)]
    response = client.post("/api/v1/batches", json={"jobs": jobs}, headers={"Idempotency-Key": "nightly"})
    made = response.get_json()["jobs"]
    assert response.status_code == 202 and [job["filename"] for job in made] == ["0.py", "1.py", "2.py"]
    assert rung == [job["id"] for job in made]
    again = client.post("/api/v1/batches", json={"jobs": jobs}, headers={"Idempotency-Key": "nightly"})
    assert [job["id"] for job in again.get_json()["jobs"]] == rung


def test_a_batch_with_one_bad_job_makes_none(client: FlaskClient, store: Store) -> None:
    jobs = [{"script": "x = 1"}, {"script": "def f(:"}]
    refused(client.post("/api/v1/batches", json={"jobs": jobs}), 422, "jobs.1: script.py is not Python")
    many = [{"script": f"x = {number}"} for number in range(21)]  # one more than may wait
    refused(client.post("/api/v1/batches", json={"jobs": many}), 429, "waiting")
    refused(client.post("/api/v1/batches", json={"jobs": []}), 422, "jobs")
    refused(client.post("/api/v1/batches", data="jobs"), 422, "body: send a JSON object")
    assert store.jobs.counts()[Status.QUEUED] == 0


def test_a_larger_budget_goes_on_from_the_checkpoint(client: FlaskClient, store: Store, hands: Hands) -> None:
    job_id = hands.claim.job_id
    hands.artifact("checkpoint.json", b"so far")
    hands.artifact("repro.py", b"so far")
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="known")
    hands.finish(Report(status=Status.PARTIAL, reason=Reason.BUDGET, summary="Time was up.", failure=failure))
    body = client.post(f"/api/v1/jobs/{job_id}/retry?budget=1800").get_json()
    assert (body["status"], body["options"]["budget"]) == ("queued", 1800)
    assert body["failure"]["signature"] == "known" and body["finished_at"] is None
    assert client.get(f"/api/v1/jobs/{job_id}/repro.py").data == b"so far", "until there is a smaller one"
    assert report_of(store, job_id).status is Status.RUNNING
    assert "what it has found so far is kept" in store.jobs.request_cancel(job_id).summary
    assert [info.name for info in store.results.artifacts(job_id)] == ["checkpoint.json", "report.json", "repro.py"]
    body = client.post(f"/api/v1/jobs/{job_id}/retry").get_json()
    assert store.results.artifacts(job_id) == [] and body["failure"] is None, (
        "without a budget it begins at the beginning"
    )
    refused(client.post(f"/api/v1/jobs/{job_id}/retry?budget=5"), 422, "budget")


def test_a_job_is_pinned_and_let_go(client: FlaskClient, minimized: Job) -> None:
    url = f"/api/v1/jobs/{minimized.id}/pin"
    assert client.put(url).get_json()["pinned"] and client.put(url).get_json()["pinned"]
    assert not client.delete(url).get_json()["pinned"]

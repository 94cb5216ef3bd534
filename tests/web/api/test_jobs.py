"""Looking at jobs: one, many, waiting for one, and ending it."""

from __future__ import annotations

import threading

import pytest
from flask.testing import FlaskClient
from webtest import SCRIPT, Hands, minimized_report, refused

from minimizer.options import Options
from minimizer.store import Job, Store


def test_job_shows_what_is_known(client: FlaskClient, minimized: Job) -> None:
    response = client.get(f"/api/v1/jobs/{minimized.id}")
    body = response.get_json()
    assert body["status"] == "minimized" and body["final"]
    assert body["failure"]["kind"] == "wrong_output"
    assert body["culprit"]["ops"] == ["aten.relu"]
    assert body["reduction"]["nodes_after"] == 1
    assert body["report"]["schema"] == 1
    assert "Retry-After" not in response.headers
    for link in ("self", "html", "events", "repro.py", "report.json", "artifacts"):
        assert client.get(body["links"][link]).status_code == 200, link


def test_job_under_way_says_when_to_look_again(client: FlaskClient, hands: Hands) -> None:
    hands.event("step", step="survey", state="started")
    response = client.get(f"/api/v1/jobs/{hands.claim.job_id}")
    assert response.get_json()["stage"] == "survey"
    assert int(response.headers["Retry-After"]) > 0


def test_etag_follows_the_job(client: FlaskClient, hands: Hands) -> None:
    url = f"/api/v1/jobs/{hands.claim.job_id}"
    etag = client.get(url).headers["ETag"]
    unchanged = client.get(url, headers={"If-None-Match": etag})
    assert unchanged.status_code == 304 and unchanged.data == b""
    hands.event("step", step="survey", state="started")
    changed = client.get(url, headers={"If-None-Match": etag})
    assert changed.status_code == 200 and changed.headers["ETag"] != etag


def until_it_waits(client: FlaskClient, poll: threading.Thread) -> None:
    """What happens before a poll has its place would be in its first answer."""
    polls = client.application.extensions["minimizer"].polls
    while not polls.taken and poll.is_alive():
        poll.join(timeout=0.01)


def test_long_poll_wakes_when_the_job_ends(client: FlaskClient, hands: Hands) -> None:
    url = f"/api/v1/jobs/{hands.claim.job_id}"
    answers: list[str] = []
    poll = threading.Thread(target=lambda: answers.append(client.get(f"{url}?wait=60").get_json()["status"]))
    poll.start()
    until_it_waits(client, poll)
    hands.event("note", message="a change that is no end does not wake it")
    hands.finish(minimized_report())
    poll.join(timeout=30)
    assert answers == ["minimized"]


@pytest.mark.parametrize("prefix", ["", "W/"], ids=["strong", "weakened by a proxy"])
def test_long_poll_with_etag_wakes_on_any_change(client: FlaskClient, hands: Hands, prefix: str) -> None:
    url = f"/api/v1/jobs/{hands.claim.job_id}"
    etag = prefix + client.get(url).headers["ETag"]
    answers: list[int] = []
    poll = threading.Thread(
        target=lambda: answers.append(client.get(f"{url}?wait=60", headers={"If-None-Match": etag}).status_code)
    )
    poll.start()
    until_it_waits(client, poll)
    hands.event("step", step="survey", state="started")
    poll.join(timeout=30)
    assert answers == [200]


def test_long_poll_ends_when_its_time_is_up(client: FlaskClient, queued: Job) -> None:
    url = f"/api/v1/jobs/{queued.id}?wait=0.3"
    response = client.get(url)
    assert response.status_code == 200 and response.get_json()["status"] == "queued"
    assert client.get(url, headers={"If-None-Match": response.headers["ETag"]}).status_code == 304


def test_long_poll_of_a_deleted_job_ends(client: FlaskClient, store: Store, queued: Job) -> None:
    answers: list[int] = []
    poll = threading.Thread(target=lambda: answers.append(client.get(f"/api/v1/jobs/{queued.id}?wait=60").status_code))
    poll.start()
    until_it_waits(client, poll)
    store.jobs.delete(queued.id)
    poll.join(timeout=30)
    assert answers == [404]


def test_polls_beyond_the_limit_are_answered_at_once(client: FlaskClient, queued: Job) -> None:
    polls = client.application.extensions["minimizer"].polls
    for _ in range(polls.size):
        assert polls.take()
    response = client.get(f"/api/v1/jobs/{queued.id}?wait=60")
    assert response.status_code == 200 and response.headers["Retry-After"]


def test_list_is_paged_newest_first(client: FlaskClient, store: Store) -> None:
    ids = [store.submissions.submit(SCRIPT, f"{i}.py", Options())[0].id for i in range(5)]
    seen: list[str] = []
    url: str | None = "/api/v1/jobs?limit=2&q=.py"
    while url:
        response = client.get(url)
        seen += [job["id"] for job in response.get_json()["jobs"]]
        link = response.headers.get("Link")
        assert (link is None) == (response.get_json()["next_cursor"] is None)
        url = link.partition(">")[0].lstrip("<") if link else None
    assert seen == ids[::-1]


def test_list_filters(client: FlaskClient, store: Store, minimized: Job) -> None:
    other = store.submissions.submit(SCRIPT, "other.py", Options())[0]

    def ids(query: str) -> list[str]:
        return [job["id"] for job in client.get(f"/api/v1/jobs?{query}").get_json()["jobs"]]

    assert ids("status=minimized") == ids("kind=wrong_output") == ids("q=MODEL") == [minimized.id]
    assert ids("status=queued") == ids("q=other") == [other.id]
    assert ids("kind=crash") == ids("q=%25") == []


@pytest.mark.parametrize("query", ["status=done", "kind=odd", "limit=0", "limit=x", "cursor=!", "colour=red"])
def test_list_refuses_what_it_does_not_know(client: FlaskClient, query: str) -> None:
    refused(client.get(f"/api/v1/jobs?{query}"), 422, "")


def test_cancel_is_idempotent(client: FlaskClient, queued: Job) -> None:
    for _ in range(2):
        response = client.post(f"/api/v1/jobs/{queued.id}/cancel")
        assert response.status_code == 202 and response.get_json()["status"] == "cancelled"


def test_cancel_asks_a_running_job_to_stop(client: FlaskClient, store: Store, hands: Hands) -> None:
    response = client.post(f"/api/v1/jobs/{hands.claim.job_id}/cancel")
    assert response.get_json()["status"] == "running" and response.get_json()["cancel_requested"]
    assert store.leases.heartbeat(hands.claim, 60).cancel


def test_cancel_leaves_an_ended_job_alone(client: FlaskClient, minimized: Job) -> None:
    assert client.post(f"/api/v1/jobs/{minimized.id}/cancel").get_json()["status"] == "minimized"


def test_a_step_behind_the_repro_is_skipped(client: FlaskClient, store: Store, hands: Hands) -> None:
    url = f"/api/v1/jobs/{hands.claim.job_id}"
    refused(client.post(f"{url}/skip"), 409, "at no step that can be skipped")
    hands.event("progress", elapsed=9.0, decided=True, skippable="witness")
    body = client.get(url).get_json()
    assert (body["skippable"], body["progress"]["skippable"], body["links"]["skip"]) == (
        "witness",
        "witness",
        f"{url}/skip",
    )
    refused(client.post(f"{url}/skip?step=layers"), 409, "not at the step layers, but at witness")
    refused(client.post(f"{url}/skip?step=odd"), 422, "step")
    for _ in range(2):
        response = client.post(f"{url}/skip?step=witness")
        assert (response.status_code, response.get_json()["skip_requested"]) == (202, "witness")
    assert store.leases.heartbeat(hands.claim, 60).skip == "witness"


def test_there_is_nothing_to_skip_in_a_job_that_waits_or_has_ended(client: FlaskClient, minimized: Job) -> None:
    refused(client.post(f"/api/v1/jobs/{minimized.id}/skip"), 409, "at no step that can be skipped")
    client.post(f"/api/v1/jobs/{minimized.id}/retry")
    refused(client.post(f"/api/v1/jobs/{minimized.id}/skip"), 409, "at no step that can be skipped")


def test_retry_queues_again_and_rings(client: FlaskClient, minimized: Job, rung: list[str]) -> None:
    response = client.post(f"/api/v1/jobs/{minimized.id}/retry")
    assert response.status_code == 202 and response.get_json()["status"] == "queued"
    assert rung == [minimized.id]


def test_a_running_job_is_not_run_again(client: FlaskClient, store: Store, hands: Hands, rung: list[str]) -> None:
    job_id = hands.claim.job_id
    refused(client.post(f"/api/v1/jobs/{job_id}/retry"), 409, "cancel it, and run it again when it has ended")
    refused(client.post(f"/api/v1/jobs/{job_id}/retry?budget=600"), 409, "is running")
    assert rung == [] and store.jobs.get(job_id).options == Options()
    stale = client.post(f"/jobs/{job_id}/retry")
    assert (stale.status_code, stale.headers["Location"]) == (303, f"/jobs/{job_id}"), "a page leads to it"


def test_a_job_that_waits_is_run_once(client: FlaskClient, queued: Job) -> None:
    assert client.post(f"/api/v1/jobs/{queued.id}/retry").get_json()["status"] == "queued"


def test_delete_takes_all_of_it(client: FlaskClient, minimized: Job) -> None:
    url = f"/api/v1/jobs/{minimized.id}"
    assert client.delete(url).status_code == 204
    refused(client.get(url), 404, "no job")
    refused(client.delete(url), 404, "no job")


def test_delete_refuses_a_running_job(client: FlaskClient, hands: Hands) -> None:
    refused(client.delete(f"/api/v1/jobs/{hands.claim.job_id}"), 409, "cancel it")


@pytest.mark.parametrize("job_id", ["nope", "-", "%00", "a" * 500, "..%2F..%2Fetc", "💥"])
@pytest.mark.parametrize("rest", ["", "/events", "/repro.py", "/artifacts", "/artifacts/x"])
def test_unknown_id_is_404(client: FlaskClient, job_id: str, rest: str) -> None:
    refused(client.get(f"/api/v1/jobs/{job_id}{rest}"), 404, "")

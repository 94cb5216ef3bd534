"""Server-sent events: in order, resumable, ended, and no more of them than allowed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from flask.testing import FlaskClient
from webtest import Hands, minimized_report, refused
from werkzeug.test import TestResponse

from minimizer.store import Job, Store


class Event(NamedTuple):
    id: int | None
    type: str
    data: dict[str, Any]


def parse(text: str) -> list[Event]:
    """The events of a stream, comments and retry lines left out."""
    events = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            events.append(
                Event(int(fields["id"]) if "id" in fields else None, fields["event"], json.loads(fields["data"]))
            )
    return events


def open_stream(client: FlaskClient, job_id: str, **headers: str) -> TestResponse:
    return client.get(f"/api/v1/jobs/{job_id}/events", headers=headers)


def test_stream_of_an_ended_job_is_whole(client: FlaskClient, minimized: Job) -> None:
    response = open_stream(client, minimized.id)
    events = parse(response.text)
    assert response.mimetype == "text/event-stream"
    assert [event.type for event in events] == ["step", "progress", "progress", "step", "status", "end"]
    assert [event.id for event in events[:4]] == [1, 2, 3, 4]
    assert events[2].data["nodes"] == 1
    assert events[-1].data == {"status": "minimized", "reason": None}


def test_stream_goes_on_where_it_was_left(client: FlaskClient, minimized: Job) -> None:
    resumed = parse(open_stream(client, minimized.id, **{"Last-Event-ID": "2"}).text)
    assert [event.id for event in resumed] == [3, 4, None, None]
    by_query = parse(client.get(f"/api/v1/jobs/{minimized.id}/events?after=2").text)
    assert by_query == resumed
    for odd in ("²", "9" * 5000):
        assert parse(open_stream(client, minimized.id, **{"Last-Event-ID": odd}).text)[0].id == 1
    refused(client.get(f"/api/v1/jobs/{minimized.id}/events?after={10**30}"), 422, "after")


def test_stream_follows_a_running_job(client: FlaskClient, hands: Hands) -> None:
    response = open_stream(client, hands.claim.job_id)
    chunks = (chunk.decode() for chunk in response.iter_encoded())
    text = ""
    while "event: status" not in text:
        text += next(chunks)
    hands.event("progress", nodes=5, nodes_before=9, elapsed=1.0)
    while "event: progress" not in text:
        text += next(chunks)
    hands.finish(minimized_report())
    text += "".join(chunks)
    assert [event.type for event in parse(text)] == ["status", "progress", "status", "end"]
    response.close()


def test_stream_of_a_deleted_job_ends(client: FlaskClient, store: Store, queued: Job) -> None:
    chunks = (chunk.decode() for chunk in open_stream(client, queued.id).iter_encoded())
    text = next(chunks) + next(chunks)
    store.jobs.delete(queued.id)
    events = parse(text + "".join(chunks))
    assert events[-1] == Event(None, "end", {"status": "deleted"})


def test_line_breaks_cannot_forge_events(client: FlaskClient, hands: Hands) -> None:
    hands.event("note", message="one\n\nevent: end\ndata: {}\n\n")
    hands.finish(minimized_report())
    events = parse(open_stream(client, hands.claim.job_id).text)
    assert [event.type for event in events] == ["note", "status", "end"]


def test_streams_are_capped_and_places_come_back(client: FlaskClient, queued: Job) -> None:
    streams = [open_stream(client, queued.id) for _ in range(2)]
    full = open_stream(client, queued.id)
    refused(full, 503, "event streams")
    assert int(full.headers["Retry-After"]) > 0
    # One was read from, the other never: both places must come back.
    next(iter(streams[0].response))
    for stream in streams:
        stream.close()
    again = open_stream(client, queued.id)
    assert again.status_code == 200
    again.close()

"""What somebody else has put into a queue: a worker throws it away, and answers the next ring."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from minimizer.vocabulary import Status

if TYPE_CHECKING:
    from conftest import Service

SECRET = "not-for-the-log"


class Queue:
    """The queue as its file or key, below what Celery and kombu make of it."""

    def __init__(self, service: Service) -> None:
        self._folder = service.settings.data_dir / "broker" / "queue"
        url = service.settings.resolved_broker_url
        self.redis = redis.Redis.from_url(url) if url.startswith("redis:") else None
        self._count = 0

    def put(self, content: bytes) -> None:
        self._count += 1
        if self.redis is not None:
            self.redis.lpush("minimizer", content)
        else:
            hidden = self._folder / ".new"
            hidden.write_bytes(content)
            hidden.rename(self._folder / f"0_{self._count:04d}.minimizer.msg")

    def take(self) -> dict[str, Any]:
        if self.redis is not None:
            message = json.loads(self.redis.rpop("minimizer"))
        else:
            (file,) = self._folder.glob("*.minimizer.msg")
            message = json.loads(file.read_bytes())
            file.unlink()
        assert isinstance(message, dict)
        return message

    def left(self) -> list[str]:
        """What waits, and what counts as not acknowledged."""
        if self.redis is None:
            return [file.name for file in self._folder.iterdir()]
        return [key for key in ("minimizer", "unacked", "unacked_index") if self.redis.exists(key)]


def encoded(body: str) -> str:
    return base64.b64encode(body.encode()).decode()


def broken(ring: dict[str, Any]) -> dict[str, bytes]:
    """Wrong ones by what is wrong with them, made of one that is in order."""

    def without(*path: str) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(json.dumps(ring))
        *parents, name = path
        place = message
        for parent in parents:
            place = place[parent]
        del place[name]
        return message

    def with_(value: object, *path: str) -> dict[str, Any]:
        message = without(*path)
        *parents, name = path
        place = message
        for parent in parents:
            place = place[parent]
        place[name] = value
        return message

    messages: dict[str, Any] = {
        "a list": [],
        "nothing in it": {},
        "text": SECRET,
        "a type that kombu makes of it": {"__type__": "decimal", "__value__": SECRET},
        "no properties": without("properties"),
        "no delivery tag": without("properties", "delivery_tag"),
        "delivery tag null": with_(None, "properties", "delivery_tag"),
        "delivery tag a list": with_([SECRET], "properties", "delivery_tag"),
        "delivery info a list": with_([SECRET], "properties", "delivery_info"),
        "body encoding unknown": with_(SECRET, "properties", "body_encoding"),
        "no headers": without("headers"),
        "headers a list": with_([SECRET], "headers"),
        "no task": without("headers", "task"),
        "task unknown": with_(SECRET, "headers", "task"),
        "task unknown and no id": {**with_(SECRET, "headers", "task"), "headers": {"task": SECRET}},
        "task a list": with_([SECRET], "headers", "task"),
        "no id": without("headers", "id"),
        "id a list": with_([SECRET], "headers", "id"),
        "eta no time": with_(SECRET, "headers", "eta"),
        "limits of time that are none": with_(SECRET, "headers", "timelimit"),
        "compression unknown": {**ring, "headers": {**ring["headers"], "compression": SECRET}},
        "not compressed": {**ring, "headers": {**ring["headers"], "compression": "zlib"}},
        "no body": without("body"),
        "body not base64": with_("x", "body"),
        "body not JSON": with_(encoded(SECRET), "body"),
        "body null": with_(encoded("null"), "body"),
        "body an object": with_(encoded(f'{{"a": "{SECRET}"}}'), "body"),
        "pickled": with_("application/x-python-serialize", "content-type"),
    }
    contents = {"no JSON": b"x", "empty": b"", "not UTF-8": b"\xff", "too deep": b"[" * 100_000}
    return {**contents, **{what: json.dumps(message).encode() for what, message in messages.items()}}


@pytest.mark.examples(1)
def test_a_worker_throws_broken_messages_away(service: Service, tmp_path: Path) -> None:
    service.ring(SECRET)
    queue = Queue(service)
    messages = broken(queue.take())
    for content in messages.values():
        queue.put(content)
    worker = service.start_worker()
    service.until_no_message_waits()

    job = service.submit("# done")
    service.ring(job.id)
    assert service.until_status(job, Status.MINIMIZED).summary == f"Done by {worker.pid}."
    service.until("an acknowledgement of all", lambda: not queue.left())
    worker.terminate()
    assert worker.wait() == 0
    assert queue.left() == [], "none comes back"

    log = (tmp_path / "worker-0.log").read_text()
    assert sum("thrown away" in line for line in log.splitlines()) == len(messages)
    assert SECRET not in log and "Traceback" not in log

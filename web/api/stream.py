"""Waiting for a job: server-sent events and long polls, both fed by the watcher.

Either occupies a thread of the web server, so both are counted; above the limit a client is told when to retry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from http import HTTPStatus

from flask import Response

from minimizer.store import Job, Store, UnknownJob
from web.problems import Problem
from web.service.watch import Slots, Watcher

MAX_WAIT = 60.0
# A client that has gone is noticed at the next write, and holds its place until then.
KEEP_ALIVE_SECONDS = 5.0
RETRY_SECONDS = 2
_BATCH = 500


def wait_for_job(store: Store, watcher: Watcher, polls: Slots, job: Job, seconds: float, known: int | None) -> Job:
    """Delay the answer until the job is final or, if the client knows a version of it, until it has changed.

    If all slots are taken, the job is answered unchanged: the client polls a little faster, and nobody is refused.
    """
    deadline = time.monotonic() + min(seconds, MAX_WAIT)
    if not polls.take():
        return job
    try:
        with watcher.watching(job.id):
            while not job.status.is_final and (known is None or job.version == known):
                left = deadline - time.monotonic()
                if left <= 0 or watcher.closing:
                    break
                watcher.wait(job.id, job.version, left)
                job = store.jobs.get(job.id)
    finally:
        polls.give_back()
    return job


def event_stream(
    store: Store, watcher: Watcher, streams: Slots, who: str, job: Job, after: int, still_sees: Callable[[], bool]
) -> Response:
    """A stream of the job's events after a sequence number, ended by ``end`` when the job is final.

    Args:
        who: the user; nobody may take all slots.
        still_sees: whether the client still has access to the job; checked continuously, and the stream stops when not.
    """
    if not streams.take(who):
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "too-many-streams",
            "All event streams of this process, or those of one user, are taken. Poll the job instead, or come back later.",
            {"Retry-After": str(RETRY_SECONDS)},
        )
    return Response(
        _Stream(_events(store, watcher, job, after, still_sees), lambda: streams.give_back(who)),
        mimetype="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


class _Stream(Iterator[str]):
    """Gives the place back at the end, or when the server closes the response: also if nothing was ever read from it."""

    def __init__(self, events: Generator[str], give_back: Callable[[], None]) -> None:
        self._events = events
        self._give_back = give_back
        self._open = True

    def __next__(self) -> str:
        try:
            return next(self._events)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._open:
            self._open = False
            self._events.close()
            self._give_back()


def _events(store: Store, watcher: Watcher, job: Job, after: int, still_sees: Callable[[], bool]) -> Generator[str]:
    yield f"retry: {RETRY_SECONDS * 1000}\n\n"
    told: tuple[str, str | None] | None = None
    with watcher.watching(job.id):
        while not watcher.closing and still_sees():
            try:
                # The job before its events: a final job then has no later events.
                job = store.jobs.get(job.id)
            except UnknownJob:
                yield _message("end", {"status": "deleted"})
                return
            rows = store.results.events(job.id, after=after, limit=_BATCH)
            for row in rows:
                yield _message(row.type, {"time": row.time.timestamp(), **row.data}, row.seq)
                after = row.seq
            if len(rows) == _BATCH:
                continue  # a client may read them slowly, so everything is read anew
            state = (job.status.value, job.step)
            if state != told:
                told = state
                yield _message("status", {"status": job.status.value, "stage": job.step})
            if job.status.is_final:
                yield _message("end", {"status": job.status.value, "reason": job.reason})
                return
            if not watcher.wait(job.id, job.version, KEEP_ALIVE_SECONDS):
                yield ": keep-alive\n\n"


def _message(event: str, data: dict[str, object], seq: int | None = None) -> str:
    # JSON has no raw line breaks, so one data line is enough.
    number = f"id: {seq}\n" if seq is not None else ""
    return f"{number}event: {event}\ndata: {json.dumps(data)}\n\n"

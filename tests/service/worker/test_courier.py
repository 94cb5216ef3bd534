"""Webhooks from the end of a job to a receiver: a real server that checks signatures, refuses, and comes back."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from sqlalchemy import update

from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.store import Claim, Store
from minimizer.store.errors import InvalidUrl
from minimizer.store.tables.models import DeliveryRow, WebhookRow
from minimizer.store.work.messages import MAX_ATTEMPTS
from minimizer.vocabulary import Status
from worker.courier import Courier


class Receiver:
    """Answers as it is told, and keeps what came."""

    def __init__(self) -> None:
        self.answer = 204
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.answer)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


@pytest.fixture
def courier(store: Store) -> Courier:
    return Courier(store, 0.1, threading.Event())


def claimed(store: Store, project: str = "default") -> Claim:
    job, _ = store.submissions.submit(b"x = 1\n", "a.py", Options(), project=project)
    claim = store.leases.claim_job(job.id, "w", lease_seconds=60)
    assert claim is not None
    return claim


def let_time_pass(store: Store) -> None:
    with store._database.write() as session:
        past = store._database.now(session) - timedelta(seconds=1)
        session.execute(update(DeliveryRow).where(DeliveryRow.next_at.is_not(None)).values(next_at=past))


def test_the_end_of_a_job_is_told_signed_and_once(store: Store, courier: Courier, receiver: Receiver) -> None:
    store.projects.create("other")
    hook, secret = store.webhooks.create("default", receiver.url)
    store.results.finish(claimed(store, "other"), Report(status=Status.HEALTHY))
    claim = claimed(store)
    courier.round()
    assert receiver.got == [], "another project's job, and one that has not ended"
    store.results.finish(claim, Report(status=Status.HEALTHY, summary="All is well."))
    courier.round()
    courier.round()
    ((headers, body),) = receiver.got
    signed = headers["x-minimizer-timestamp"].encode() + b"." + body
    assert headers["x-minimizer-signature"] == "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    told = json.loads(body)
    assert (told["event"], told["job"]["id"], told["job"]["status"]) == ("job.ended", claim.job_id, "healthy")
    (delivery,) = store.webhooks.deliveries(hook.id)
    assert (delivery.attempts, delivery.answer, delivery.next_at) == (1, "204 No Content", None)
    assert delivery.delivered_at is not None and str(delivery.number) == headers["x-minimizer-delivery"]


def test_what_does_not_arrive_is_tried_again(store: Store, courier: Courier, receiver: Receiver) -> None:
    hook, _ = store.webhooks.create("default", receiver.url)
    store.jobs.request_cancel(store.submissions.submit(b"x = 1\n", "a.py", Options())[0].id)
    for answer in (500, 302):
        receiver.answer = answer
        courier.round()
        assert store.webhooks.deliveries(hook.id)[0].answer.startswith(str(answer))
        courier.round()  # it is not due yet
        let_time_pass(store)
    receiver.answer = 200
    courier.round()
    (delivery,) = store.webhooks.deliveries(hook.id)
    assert (delivery.attempts, delivery.answer, len(receiver.got)) == (3, "200 OK", 3)


def test_a_receiver_that_never_answers_is_given_up(store: Store, courier: Courier, receiver: Receiver) -> None:
    hook, _ = store.webhooks.create("default", "http://127.0.0.1:1/nobody")
    store.results.finish(claimed(store), Report(status=Status.HEALTHY))
    for _ in range(MAX_ATTEMPTS + 2):
        courier.round()
        let_time_pass(store)
    (delivery,) = store.webhooks.deliveries(hook.id)
    assert (delivery.attempts, delivery.next_at, delivery.delivered_at) == (MAX_ATTEMPTS, None, None)
    assert "refused" in delivery.answer


def test_what_is_no_answer_stops_no_other_message(store: Store, courier: Courier, receiver: Receiver) -> None:
    """A server that speaks something else, and an address from before addresses were looked at closely."""
    with socket.create_server(("127.0.0.1", 0)) as babbler:
        thread = threading.Thread(target=babble, args=(babbler,))
        thread.start()
        odd, _ = store.webhooks.create("default", f"http://127.0.0.1:{babbler.getsockname()[1]}/")
        old, _ = store.webhooks.create("default", "http://127.0.0.1/")
        with store._database.write() as session:
            session.execute(update(WebhookRow).where(WebhookRow.id == old.id).values(url="http://127.0.0.1:x/ y"))
        fine, _ = store.webhooks.create("default", receiver.url)
        store.results.finish(claimed(store), Report(status=Status.HEALTHY))
        courier.round()
        thread.join()
    assert len(receiver.got) == 1
    answers = {hook.id: store.webhooks.deliveries(hook.id)[0].answer for hook in (odd, old, fine)}
    assert answers[odd.id].startswith("gibberish") and "port" in answers[old.id] and answers[fine.id].startswith("204")


def babble(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"gibberish\r\n\r\n")


def test_an_answer_without_end_stops_no_other_message(
    store: Store, courier: Courier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte of it comes in time."""
    monkeypatch.setattr("worker.courier._TIMEOUT_SECONDS", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as trickle:
        thread = threading.Thread(target=drip, args=(trickle, over))
        thread.start()
        slow, _ = store.webhooks.create("default", f"http://127.0.0.1:{trickle.getsockname()[1]}/")
        fine, _ = store.webhooks.create("default", receiver.url)
        store.results.finish(claimed(store), Report(status=Status.HEALTHY))
        courier.round()
        over.set()
        thread.join()
    assert store.webhooks.deliveries(slow.id)[0].answer == "no whole answer within 0.5 s"
    assert store.webhooks.deliveries(fine.id)[0].answer.startswith("204")


def test_a_slow_receiver_gets_one_message_a_round_and_others_do_not_wait_for_it(
    store: Store, courier: Courier, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.courier._TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("worker.courier._SLOW_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow, _ = store.webhooks.create("default", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        fine, _ = store.webhooks.create("default", receiver.url)
        for _ in range(3):
            store.results.finish(claimed(store), Report(status=Status.HEALTHY))
        courier.round()
        assert [one.attempts for one in store.webhooks.deliveries(slow.id)] == [0, 0, 1]
        assert [one.attempts for one in store.webhooks.deliveries(fine.id)] == [1, 1, 1]
        courier.round()
        assert [one.attempts for one in store.webhooks.deliveries(slow.id)] == [0, 1, 1]


def test_the_number_of_a_message_is_never_given_twice(store: Store, courier: Courier, receiver: Receiver) -> None:
    """A secret is changed by making the webhook anew; the receiver still knows what it has had."""
    for _ in range(2):
        hook, _ = store.webhooks.create("default", receiver.url)
        store.results.finish(claimed(store), Report(status=Status.HEALTHY))
        courier.round()
        store.webhooks.delete(hook.id)
    first, second = (int(headers["x-minimizer-delivery"]) for headers, _ in receiver.got)
    assert second > first


def drip(listener: socket.socket, over: threading.Event) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not over.wait(0.05):
            connection.sendall(b"x")


def test_a_courier_that_stops_sends_no_further_message(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    told: list[int] = []

    def settle(number: int, *, arrived: bool, answer: str) -> None:
        told.append(number)
        stopping.set()

    for _ in range(2):
        store.webhooks.create("default", "http://127.0.0.1:1/nobody")
    store.results.finish(claimed(store), Report(status=Status.HEALTHY))
    monkeypatch.setattr(store.messages, "settle", settle)
    Courier(store, 0.1, stopping).round()
    assert len(told) == 1


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ci.example/",
        "https:///hook",
        "https://ci.example:port/",
        "https://ci.example:70000/",
        "https://ci.example:0/",
        "https://ci.example/a hook",
        "https://ci.exa mple/",
        "https://anna:secret@ci.example/",
        "https://[::1/",
        "https://ci.example/h\n",
        "https://ci.example/\N{LATIN SMALL LETTER U WITH DIAERESIS}",
    ],
)
def test_an_address_that_cannot_be_asked_is_refused(store: Store, url: str) -> None:
    with pytest.raises(InvalidUrl):
        store.webhooks.create("default", url)


def test_a_webhook_takes_its_messages_with_it(store: Store, courier: Courier, receiver: Receiver) -> None:
    hook, _ = store.webhooks.create("default", receiver.url)
    store.results.finish(claimed(store), Report(status=Status.HEALTHY))
    store.webhooks.delete(hook.id)
    courier.round()
    assert receiver.got == [] and store.webhooks.all() == []

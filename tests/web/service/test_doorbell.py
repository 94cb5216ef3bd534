"""The doorbell: a message that a worker understands on either broker, and no harm when there is none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kombu import Connection

from minimizer.options import Options
from minimizer.service.broker import broker_config, queue_name, queue_names
from minimizer.settings import Settings
from minimizer.store import Job, Store
from web.service.doorbell import celery_doorbell


@pytest.fixture
def job(sqlite_url: str) -> Iterator[Callable[..., Job]]:
    store = Store.open(sqlite_url)
    yield lambda **options: store.submissions.submit(b"x = 1\n", "a.py", Options(**options))[0]
    store.close()


@pytest.mark.parametrize("broker", ["filesystem", "redis"])
@pytest.mark.parametrize(
    ("options", "needs"),
    [({}, (None, None)), ({"device": "cuda"}, ("cuda", None)), ({"toolchain": "old/ä"}, (None, "old/ä"))],
)
def test_ring_reaches_the_queue_of_those_who_can(
    broker: str,
    options: dict[str, str],
    needs: tuple[str | None, str | None],
    tmp_path: Path,
    job: Callable[..., Job],
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue("redis_url") if broker == "redis" else None
    settings = Settings(data_dir=tmp_path, broker_url=url)
    config = broker_config(settings)
    waiting = job(**options)
    assert queue_name(*needs) in queue_names(["cuda"], ["old/ä"])
    with (
        Connection(str(config["broker_url"]), transport_options=config["broker_transport_options"]) as connection,
        connection.SimpleQueue(queue_name(*needs)) as queue,
    ):
        celery_doorbell(settings)(waiting)
        message = queue.get(timeout=30)
        message.ack()
    assert message.headers["task"] == "minimizer.run"
    assert message.payload[0] == [waiting.id]


def test_ring_without_a_broker_is_a_warning(tmp_path: Path, job: Callable[..., Job]) -> None:
    waiting = job()
    warned = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING and waiting.id in record.getMessage():
                warned.set()

    listener = Listener()
    logging.getLogger("minimizer.service.broker").addHandler(listener)
    try:
        # Port 1 of loopback: refused at once, so that nothing waits for a timeout.
        celery_doorbell(Settings(data_dir=tmp_path, broker_url="redis://127.0.0.1:1/0"))(waiting)
        assert warned.wait(timeout=60)
    finally:
        logging.getLogger("minimizer.service.broker").removeHandler(listener)

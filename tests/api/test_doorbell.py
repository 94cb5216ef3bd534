"""The doorbell: a message that a worker understands on either broker, and no harm when there is none."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from kombu import Connection

from minimizer.broker import broker_config
from minimizer.settings import Settings
from web.doorbell import celery_doorbell


@pytest.mark.parametrize("broker", ["filesystem", "redis"])
def test_ring_reaches_the_workers_queue(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("redis_url") if broker == "redis" else None
    settings = Settings(data_dir=tmp_path, broker_url=url)
    config = broker_config(settings)
    celery_doorbell(settings)("job-17")
    with (
        Connection(str(config["broker_url"]), transport_options=config["broker_transport_options"]) as connection,
        connection.SimpleQueue(str(config["task_default_queue"])) as queue,
    ):
        message = queue.get(timeout=30)
        message.ack()
    assert message.headers["task"] == "minimizer.run"
    assert message.payload[0] == ["job-17"]


def test_ring_without_a_broker_is_a_warning(tmp_path: Path) -> None:
    warned = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING and "job-17" in record.getMessage():
                warned.set()

    listener = Listener()
    logging.getLogger("web.doorbell").addHandler(listener)
    try:
        # Port 1 of loopback: refused at once, so that nothing waits for a timeout.
        celery_doorbell(Settings(data_dir=tmp_path, broker_url="redis://127.0.0.1:1/0"))("job-17")
        assert warned.wait(timeout=60)
    finally:
        logging.getLogger("web.doorbell").removeHandler(listener)

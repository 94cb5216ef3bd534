"""The embedded broker, and the configuration that both ends of a broker share."""

from __future__ import annotations

import errno
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from celery import Celery
from kombu import Connection
from kombu.simple import SimpleQueue

from minimizer.options import Options
from minimizer.service.broker import broker_config, ring
from minimizer.settings import Settings
from minimizer.store import Store


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection]:
    with _client(settings) as client, client.connection_for_write() as connection:
        yield connection


def _client(settings: Settings) -> Celery:
    client = Celery("test")
    client.conf.update(broker_config(settings))
    return client


def take_all(settings: Settings) -> list[int]:
    taken = []
    with _client(settings) as client, client.connection_for_read() as connection:
        queue = SimpleQueue(connection, "numbers")
        while True:
            try:
                message = queue.get(block=False)
            except queue.Empty:
                return taken
            message.ack()
            taken.append(message.payload)


def test_the_folders_are_for_nobody_else(settings: Settings) -> None:
    broker_config(settings)
    made = [settings.data_dir, *(path for path in settings.data_dir.rglob("*") if path.is_dir())]
    assert len(made) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


def test_messages_arrive_in_order(settings: Settings, connection: Connection) -> None:
    queue = SimpleQueue(connection, "numbers")
    for number in range(20):
        queue.put(number)
    assert take_all(settings) == list(range(20))
    assert list((settings.data_dir / "broker" / "queue").iterdir()) == []


def test_every_message_reaches_one_of_many(settings: Settings, connection: Connection) -> None:
    queue = SimpleQueue(connection, "numbers")
    for number in range(100):
        queue.put(number)
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take_all, [settings] * 4))
    assert sorted(number for numbers in taken for number in numbers) == list(range(100))


def test_a_message_that_is_being_written_is_not_read(settings: Settings, connection: Connection) -> None:
    SimpleQueue(connection, "numbers").put(1)
    (file,) = (settings.data_dir / "broker" / "queue").glob("*.msg")
    hidden = file.rename(file.with_name(f".{file.name}"))
    hidden.write_bytes(b"")
    assert take_all(settings) == []
    assert hidden.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff", b"[]", b"{}", b'{"properties": {}}'])
def test_a_file_that_is_no_message_keeps_nobody_from_the_next(
    settings: Settings, connection: Connection, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss of power may leave an empty one, at which every worker in turn would end."""
    SimpleQueue(connection, "numbers").put(1)
    queue = settings.data_dir / "broker" / "queue"
    (queue / "0_forged.numbers.msg").write_bytes(content)
    assert take_all(settings) == [1]
    assert list(queue.iterdir()) == [] and "0_forged.numbers.msg is no message" in caplog.text


def test_a_message_for_which_there_is_no_room_leaves_nothing(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = SimpleQueue(connection, "numbers")
    write_bytes = Path.write_bytes

    def write_text(path: Path, text: str) -> int:
        write_bytes(path, text.encode()[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_text)
        with pytest.raises(OSError, match="No space"):
            queue.put(1)
    assert list((settings.data_dir / "broker" / "queue").iterdir()) == []


def test_redis_gives_messages_of_a_killed_worker_back_within_seconds() -> None:
    config = broker_config(Settings(broker_url="redis://broker:6379/1"))
    assert config["broker_url"] == "redis://broker:6379/1"
    options = config["broker_transport_options"]
    assert isinstance(options, dict)
    assert (options["unacked_restore_interval"], options["unacked_restore_throttle"]) == (2, 1)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "filesystem://"])
def test_a_broker_that_is_away_is_no_failure(
    settings: Settings, url: str, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(sqlite_url)
    job, _ = store.submissions.submit(b"x = 1\n", "a.py", Options())
    store.close()
    with _client(settings.model_copy(update={"broker_url": url})) as client:
        shutil.rmtree(settings.data_dir, ignore_errors=True)
        ring(client, job)
    assert f"job {job.id} waits until a worker looks for it" in caplog.text


def test_another_broker_is_taken_as_it_is() -> None:
    config = broker_config(Settings(broker_url="amqp://broker//"))
    assert (config["broker_url"], config["broker_transport_options"]) == ("amqp://broker//", {})


def test_only_json_is_accepted(settings: Settings) -> None:
    assert broker_config(settings)["accept_content"] == ["json"]

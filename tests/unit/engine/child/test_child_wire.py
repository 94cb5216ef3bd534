"""Lines to and from a child that may stop reading, or never stop talking."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from minimizer.engine.child import wire
from minimizer.engine.child.wire import Inbox


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_line_longer_than_the_pipe_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    message = {"id": 1, "message": {"text": "x" * 1_000_000}}
    with ThreadPoolExecutor(1) as pool, os.fdopen(os.dup(reader), "rb") as stream:
        line = pool.submit(stream.readline)
        wire.write(writer, message)
        assert wire.parse(line.result()) == message


def test_who_does_not_read_is_not_waited_for(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CHILD_WRITE_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match="nothing was read"):
        wire.write(pipe[1], {"text": "x" * 1_000_000})


def test_who_is_gone_is_an_error(pipe: tuple[int, int]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        wire.write(writer, {})
    os.close(writer)
    with pytest.raises((OSError, ValueError)):
        wire.write(-1, {})


def test_an_inbox_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_WAITING", 100)
    inbox = Inbox()
    inbox.put_nowait(b"x" * 60)
    inbox.put_nowait(b"y" * 60)
    with pytest.raises(queue.Full):
        inbox.put_nowait(b"z")
    assert inbox.get_nowait() == b"x" * 60
    inbox.put_nowait(b"z")
    assert [inbox.get_nowait(), inbox.get_nowait()] == [b"y" * 60, b"z"]
    with pytest.raises(queue.Empty):
        inbox.get_nowait()


def test_no_half_of_a_surrogate_pair_comes_through() -> None:
    """A script may have one in a file's name, and so in its message; it can neither be stored nor sent."""
    message = wire.parse(b'{"id": 3, "message": {"a\\uDCff": ["\\udcff", "\\ud83d\\ude00"]}}\n')
    assert message == {"id": 3, "message": {"a?": ["?", "\N{GRINNING FACE}"]}}


@pytest.mark.parametrize("line", [b'{"id": 3, "message": {"type": "phase"}}\n', b'{"id": 0, "end": {}}\n'])
def test_messages(line: bytes) -> None:
    assert wire.parse(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage\n",
        b"null\n",
        b"5\n",
        b"[]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"9" * 10_000 + b"\n",
        b"{}\n",
        b'{"id": 3}\n',
        b'{"id": "3", "message": {}}\n',
        b'{"id": [], "message": {}}\n',
        b'{"id": 3, "message": 5}\n',
        b'{"id": 3, "message": null}\n',
        b'{"id": 3, "message": {}, "end": 5}\n',
        b'{"id": 3, "message": {"type": "phase"}',
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_no_messages(line: bytes) -> None:
    assert wire.parse(line) is None


def test_a_message_of_more_containers_than_any_has_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 64 MiB that is nothing but lists takes 2 GiB, and ten seconds in which no heartbeat is sent."""
    monkeypatch.setattr(wire, "MOST_CONTAINERS", 5)
    assert wire.parse(b'{"id": 1, "message": {"a": [[], {}]}}') is not None
    assert wire.parse(b'{"id": 1, "message": {"a": [[], {}, []]}}') is None

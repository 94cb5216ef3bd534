"""The embedded broker: messages as files in a folder, for a service without Redis.

kombu's own filesystem transport creates a message file under its final name and fills it afterwards; a worker that reads it in
between crashes on an empty file. Here a file appears complete, and is taken by a rename, which only one reader can win.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem, virtual

from minimizer.service.unreadable import thrown_away

SCHEME = "mailbox"

log = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    """Puts and gets messages atomically.

    Files whose name begins with a dot are being written or read, and others ignore them.
    """

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:  # type: ignore[override]
        name = f"{time.time_ns():020d}_{uuid.uuid4()}.{queue}.msg"
        hidden = Path(self.data_folder_out, f".{name}")
        try:
            hidden.write_text(json.dumps(message))
            hidden.rename(hidden.with_name(name))
        except OSError:  # a full disk, to which every further try would leave a file
            hidden.unlink(missing_ok=True)
            raise

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        for path in sorted(Path(self.data_folder_in).glob(f"[!.]*.{queue}.msg")):
            try:
                hidden = path.rename(path.with_name(f".{path.name}"))
            except FileNotFoundError:
                continue  # another worker was quicker
            content = hidden.read_bytes()
            hidden.unlink()
            if (message := _message(content)) is not None:
                return message
            log.warning("%s is no message, and is thrown away", path)
        raise Empty

    def _get_and_deliver(self, queue: str, callback: Callable[[dict[str, Any], str], None]) -> None:
        with thrown_away(Empty, OSError):
            super()._get_and_deliver(queue, callback)  # type: ignore[no-untyped-call]


def _message(content: bytes) -> dict[str, Any] | None:
    """The message in a file; ``None`` if incomplete: a power failure may leave an empty file."""
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(message, dict) and isinstance(message.get("properties"), dict)
    return message if is_whole and isinstance(message["properties"].get("delivery_tag"), str) else None


class Transport(filesystem.Transport):
    """The transport behind ``mailbox://``."""

    Channel = Channel

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)  # type: ignore[no-untyped-call]
        # kombu's transport shares the bound queues in the whole process, also between connections to different folders.
        self.state = virtual.BrokerState()  # type: ignore[no-untyped-call]


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:{Transport.__qualname__}"

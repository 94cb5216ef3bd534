"""The broker's configuration, shared by web and worker, and the ringing of the doorbell.

The broker is only a doorbell. Lost, doubled or late messages are corrected from the database (`minimizer.store`), so this need not
be reliable, only fast.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from minimizer.options import Options
from minimizer.service import mailbox
from minimizer.settings import Settings
from minimizer.store import Job

log = logging.getLogger(__name__)

TASK = "minimizer.run"
"""Name of the only task. Its argument, the id of a waiting job, is for the log only: a worker takes the job that is next."""

_QUEUE = "minimizer"

# Not under a separate name: kombu recognises TLS by the scheme rediss.
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "minimizer.service.redis:Transport"


def queue_name(device: str | None, toolchain: str | None) -> str:
    """The queue that is rung for jobs that need this device and interpreter; ``None``: any."""
    # Brokers restrict the characters of a name, and users do not.
    python = toolchain and f"python-{hashlib.sha256(toolchain.encode()).hexdigest()[:12]}"
    return ".".join([_QUEUE, *filter(None, [device, python])])


def queue_names(devices: Collection[str], toolchains: Collection[str]) -> list[str]:
    """The queues that a worker with these devices and interpreters listens to."""
    return [queue_name(device, toolchain) for device in (None, *devices) for toolchain in (None, *toolchains)]


def queue_of(options: Options) -> str:
    """The queue that is rung for a job."""
    return queue_name("cuda" if options.device == "cuda" else None, options.toolchain)


def broker_config(settings: Settings) -> dict[str, object]:
    """The Celery configuration that sender and receiver must share.

    Makes the folders of the embedded broker, if that is used.
    """
    url, options = _transport(settings)
    return {
        "broker_url": url,
        "broker_transport_options": options,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_default_queue": queue_name(None, None),
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
    }


def ring(client: Celery, job: Job) -> None:
    """Wake a worker that can take this job. An unreachable broker is not an error, since the reaper rings again."""
    try:
        client.send_task(TASK, args=[job.id], queue=queue_of(job.options), ignore_result=True, retry=False)
    except Exception as error:
        log.warning("the broker cannot be reached (%s); job %s waits until a worker looks for it", error, job.id)


def _transport(settings: Settings) -> tuple[str, dict[str, object]]:
    url = settings.resolved_broker_url
    match url.partition(":")[0]:
        case "filesystem":
            return f"{mailbox.SCHEME}://localhost", _folders(settings) | {"polling_interval": 0.1}
        case "redis" | "rediss":
            return url, {
                # Redeliver the message of a killed worker after seconds; kombu's defaults take minutes.
                "visibility_timeout": 30,
                "unacked_restore_interval": 2,
                "unacked_restore_throttle": 1,
                # Give up early: a request is open while this rings, and the reaper rings again. (Workers keep trying to connect.)
                "socket_connect_timeout": 5,
                "max_retries": 0,
                "interval_start": 0,
            }
        case _:
            return url, {}


def _folders(settings: Settings) -> dict[str, object]:
    settings.make_data_dir()
    root = settings.data_dir.resolve() / "broker"
    queue, control = root / "queue", root / "control"
    for folder in (root, queue, control):
        folder.mkdir(mode=0o700, exist_ok=True)
    return {"data_folder_in": str(queue), "data_folder_out": str(queue), "control_folder": str(control)}

"""How web and worker reach the broker: one configuration for both ends.

The broker is only a doorbell. What it loses, doubles or delivers late is put right from the database (`minimizer.store`), so
nothing here has to be reliable; it has to be quick.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection

from celery import Celery

from minimizer.options import Options
from minimizer.service import mailbox
from minimizer.settings import Settings
from minimizer.store import Job

log = logging.getLogger(__name__)

TASK = "minimizer.run"
"""The one task there is. Its argument, the id of a job that waits, is for the log: a worker takes whatever is its turn."""

_QUEUE = "minimizer"


def queue_name(device: str | None, toolchain: str | None) -> str:
    """The queue that is rung for jobs with such needs; ``None`` where any worker will do."""
    # Brokers are strict about names, and people are not.
    python = toolchain and f"python-{hashlib.sha256(toolchain.encode()).hexdigest()[:12]}"
    return ".".join([_QUEUE, *filter(None, [device, python])])


def queue_names(devices: Collection[str], toolchains: Collection[str]) -> list[str]:
    """The queues that a worker with these devices and interpreters listens to."""
    return [queue_name(device, toolchain) for device in (None, *devices) for toolchain in (None, *toolchains)]


def queue_of(options: Options) -> str:
    """The queue that is rung for a job."""
    return queue_name("cuda" if options.device == "cuda" else None, options.toolchain)


def broker_config(settings: Settings) -> dict[str, object]:
    """The Celery configuration that whoever sends and whoever receives must share.

    Makes the folders of the embedded broker where that is the one in use.
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
    """Wake a worker that can take this job. A broker that is away is no failure: the reaper rings again."""
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
                # A message that a killed worker has taken comes back after seconds; by kombu's defaults it takes minutes.
                "visibility_timeout": 30,
                "unacked_restore_interval": 2,
                "unacked_restore_throttle": 1,
                # Whoever rings holds a request open meanwhile, and the reaper rings again. (Workers go on trying.)
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

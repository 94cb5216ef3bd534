"""How web and worker reach the broker: one configuration for both ends.

The broker is only a doorbell. What it loses, doubles or delivers late is put right from the database (`minimizer.store`), so
nothing here has to be reliable; it has to be quick.
"""

from __future__ import annotations

from minimizer import mailbox
from minimizer.settings import Settings

TASK = "minimizer.run"
"""The one task there is; its argument is the id of a job that waits."""


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
        "task_default_queue": "minimizer",
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
    }


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
    root = settings.data_dir.resolve() / "broker"
    queue, control = root / "queue", root / "control"
    for folder in (queue, control):
        folder.mkdir(parents=True, exist_ok=True)
    return {"data_folder_in": str(queue), "data_folder_out": str(queue), "control_folder": str(control)}

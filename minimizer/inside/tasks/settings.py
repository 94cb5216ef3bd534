"""What settings a script's setup leaves behind: the torch-free side asks before it changes one."""

from __future__ import annotations

from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config

from ..wire import Channel, Message

MAX_TEXT = 200


def settings(message: Message, channel: Channel) -> None:
    """Task of a forked child: evaluate ``expressions`` (texts) after ``setup``; those that cannot be evaluated are left out.

    The outcome has ``values``: the text of each value, by expression.
    """
    namespace: dict[str, Any] = {"__name__": "candidate", "torch": torch}
    exec(compile(message["setup"], "setup", "exec"), namespace)
    values = {}
    for expression in message["expressions"]:
        try:
            values[expression] = repr(eval(expression, namespace))[:MAX_TEXT]
        except Exception:  # a flag that this version does not have
            continue
    channel.send({"type": "outcome", "outcome": "same", "values": values})

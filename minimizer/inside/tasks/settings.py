"""Evaluates settings after a script's setup, so that the torch-free side knows a value before it changes it."""

from __future__ import annotations

from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config

from ..outcome import Ending, Outcome
from ..questions import SettingsRequest
from ..wire import Channel, Message

MAX_TEXT = 200
"""Most characters of a value's ``repr`` in an answer."""


def settings(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `SettingsRequest` with the text of each value, by expression.

    Expressions that cannot be evaluated are left out.
    """
    request = SettingsRequest.read(message)
    namespace: dict[str, Any] = {"__name__": "candidate", "torch": torch}
    exec(compile(request.setup, "setup", "exec", dont_inherit=True), namespace)
    values = {}
    for expression in request.expressions:
        try:
            values[expression] = repr(eval(expression, namespace))[:MAX_TEXT]
        except Exception:  # a flag that this version does not have
            continue
    channel.send(Outcome(Ending.SAME, values=values))

"""The trace of a script: one run that records the calls of torch around its compiled graphs, as one flat program.

Dynamo compiles as usual, and eager's kernels run its graphs (`trace.graphs`). Other threads, and processes started by
the script, are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..graph import state
from ..messages import Phase
from ..outcome import Ending, Outcome
from ..questions import TraceRequest
from ..trace.mode import Noting
from ..trace.recorder import Event, Limits, Recorder
from ..trace.regions import Regions
from ..trace.text import with_names
from ..watch.attempts import Attempts
from ..watch.line import end_with
from ..wire import Channel, Message
from .random_start import RandomStart
from .script_run import what_ends

MOST_CODE = 300_000
"""Characters of the longest statement to send: a call of a graph names all of its inputs."""


def trace(message: Message, channel: Channel) -> None:
    """Task of a forked child: answer a `TraceRequest` with one `Outcome`, whose ``trace`` holds the program."""
    request = TraceRequest.read(message)
    state.remember_baseline()
    attempts = Attempts(lambda: None)
    start = RandomStart(request.state)

    def finish(error: BaseException | None = None) -> None:
        recorder.is_on = False
        outcome = Outcome(Ending.SAME) if error is None else Outcome.of_error(Ending.RUNTIME_ERROR, error)
        outcome.attempted, outcome.draws = attempts.any, start.is_left
        outcome.trace = _written(recorder, regions, request.file)
        channel.send(outcome)

    def end_early() -> None:
        """End the process here: an endless loop of the script was traced for long enough."""
        end_with(finish)

    recorder = Recorder(Limits(request.events, request.bytes, request.seconds), end_early)
    mode = Noting(recorder)
    regions = Regions(recorder, mode)
    channel.send(Phase(phase="trace"))
    with mode:
        error = what_ends(request.script, request.args, request.text)
    if not recorder.is_here:
        end_with(lambda: None)  # a fork of the script that reached its end: its parent answers
    finish(error)


def _written(recorder: Recorder, regions: Regions, file: str) -> Message:
    """The record, with the names of its values."""
    names = recorder.names.final(_functions(graph.program for graph in regions.graphs))
    inputs = recorder.inputs
    for number, value in recorder.states.items():
        inputs.values[number], inputs.grads[number] = value, False
    stored = set(inputs.save(file, names))
    events: list[Message] = []
    before = [0]
    """For each number of recorded events, how many of them are sent."""
    for event in recorder.events:
        sent = _event(event, names)
        if len(sent["code"]) <= MOST_CODE:
            events.append(sent)
        else:
            recorder.leave_out("a call with too long arguments", event.source)
        before.append(len(events))
    settings, opaque = state.setting_lines()
    return {
        "inputs": [
            {
                "name": names[number],
                "exact": inputs.exact.get(number),
                "alike": inputs.alike.get(number),
                "drawn": inputs.drawn.get(number),
                "stored": names[number] in stored,
                "requires_grad": requires_grad,
            }
            for number, requires_grad in inputs.grads.items()
        ],
        "events": events,
        "looks": [
            {"after": before[look.after], "values": [names[number] for number in look.values], "source": look.source}
            for look in recorder.looks
        ],
        "storages": dict(zip(names, recorder.names.storages, strict=True)),
        "graphs": [graph.program for graph in regions.graphs],
        "settings": settings,
        "opaque_settings": opaque,
        "left_out": [dict(zip(("what", "file", "line", "code"), told, strict=True)) for told in recorder.left_out],
        "cut": recorder.cut,
    }


def _functions(graphs: Iterable[Message | None]) -> Iterator[str]:
    """The names of graph bodies, and of functions in arguments of ``torch.compile``, such as a backend of the script's."""
    for graph in graphs:
        if graph is not None:
            yield from (body["name"] for body in graph["functions"])
            yield from re.findall(r"[^\W\d]\w*", " ".join(map(str, graph["compile_kwargs"].values())))


def _event(event: Event, names: list[str]) -> dict[str, Any]:
    return {
        "code": with_names(event.code, names),
        "kind": event.kind,
        "makes": [names[number] for number in event.makes],
        "writes": [names[number] for number in event.writes],
        "grads": [names[number] for number in event.grads],
        "under": list(event.under),
        "raises": event.raises,
        "source": event.source,
        "draws": event.draws,
    }

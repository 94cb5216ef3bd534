"""The program around compiled graphs, and how its two sides part, as sent by the child: untrusted and bounded.

Written by ``inside/tasks/trace.py`` and ``inside/tasks/side_by_side.py``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from minimizer.engine.child.bounded import Count, Line, Long, Loose, Name, Number, Text

MOST_EVENTS = 100_000
"""Most events of one trace, without those that set up others."""
MOST_VALUES = 300_000
Identifier = Annotated[str, StringConstraints(max_length=300, pattern=r"^[A-Za-z_]\w*$")]
Names = list[Identifier]


class TracedInput(Loose):
    """A tensor first used by an event: source text for its values; without it, they are in the file.

    ``alike``: source text of a tensor that differs in its values only; None unless it is floating-point. ``drawn``: the
    same with random values of a similar range; None if torch cannot draw them.
    """

    name: Identifier
    exact: Text | None = None
    alike: Text | None = None
    drawn: Text | None = None
    stored: bool = False
    requires_grad: bool = False


class TracedEvent(Loose):
    """A statement; see `inside/trace/recorder.py`."""

    code: Long
    kind: Literal["call", "graph", "backward", "state"]
    makes: Names = Field(default_factory=list, max_length=10_000)
    writes: Names = Field(default_factory=list, max_length=10_000)
    grads: Names = Field(default_factory=list, max_length=10_000)
    under: list[Name] = Field(default_factory=list, max_length=10)
    raises: Name = ""
    source: Line | None = None
    draws: bool = False


class TracedLook(Loose):
    """A place at which the script reads values: after how many events, the values' names, and its line as in an event."""

    after: Count
    values: Names = Field(default_factory=list, max_length=10_000)
    source: Line


class LeftOut(Loose):
    """An untraced action, with the script's line for it; without a line, the file is empty."""

    what: Text
    file: Name = ""
    line: Count = 0
    code: Name = ""


class Traced(Loose):
    """The trace of a script.

    ``storages``: the number of each value's storage; ``settings``: statements that set the compiler's configuration;
    ``opaque_settings``: the names of those whose values are objects; ``cut``: the limit at which it stopped.
    """

    inputs: list[TracedInput] = Field(default_factory=list, max_length=MOST_EVENTS)
    events: list[TracedEvent] = Field(default_factory=list, max_length=MOST_EVENTS)
    looks: list[TracedLook] = Field(default_factory=list, max_length=MOST_EVENTS)
    storages: dict[Identifier, int] = Field(default_factory=dict, max_length=MOST_VALUES)
    graphs: list[dict[str, Any] | None] = Field(default_factory=list, max_length=10_000)
    settings: list[Text] = Field(default_factory=list, max_length=1000)
    opaque_settings: list[Name] = Field(default_factory=list, max_length=1000)
    left_out: list[LeftOut] = Field(default_factory=list, max_length=200)
    cut: Name = ""


class Parting(Loose):
    """An event at which eager and compiled part: by a value, or by an error that only one side raises.

    ``own``: it is wrong on eager's own inputs; else it propagates the difference of an earlier event. ``sort``: the
    type of the difference, as named by the comparator (``what`` in `inside/referee/compare.py`). ``error``: the
    distance of the compiled value from eager's relative to that, in the norm. ``overwrites``: the value is the result
    of an earlier call, which this event has overwritten. ``zeros_of``: the call of a graph that flipped the sign of a
    zero on which the value depends.
    """

    event: Count
    own: bool
    what: Text
    value: Name = ""
    sort: Name = ""
    rule: Text = ""
    error: Number = None
    overwrites: bool = False
    zeros_of: Count | None = None

    @property
    def is_of_reading(self) -> bool:
        """Whether each call is right, and the fault is in what is read afterwards: an overwritten result, or the sign
        of a zero.
        """
        return self.overwrites or self.zeros_of is not None

    @property
    def is_of_values(self) -> bool:
        """Whether the referee finds a value wrong on eager's own inputs: no error, and no propagated difference."""
        return self.own and bool(self.rule)


class Distance(Loose):
    """The relative distance of the compiled values of an event: on eager's inputs, and on the compiled side's own."""

    event: Count
    own: Number = None
    carried: Number = None


class Sides(Loose):
    """A program run side by side. ``first``: the first parting; ``ran``: the number of events run.

    ``checked``: the first parting among the events that a failing check reads, if another one. ``stopped``: why no more
    events were run, or what could not be compared.
    """

    first: Parting | None = None
    checked: Parting | None = None
    distances: list[Distance] = Field(default_factory=list, max_length=MOST_EVENTS)
    ran: Count = 0
    stopped: Text = ""

"""The program around compiled graphs, and how its two sides part, as the child sends them: untrusted and bounded.

Written by ``inside/tasks/trace.py`` and ``inside/tasks/side_by_side.py``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from minimizer.engine.child.bounded import Count, Line, Long, Loose, Name, Number, Text

MOST_EVENTS = 100_000
"""Most events that one trace may have, beside those that set up others."""
MOST_VALUES = 300_000
Identifier = Annotated[str, StringConstraints(max_length=300, pattern=r"^[A-Za-z_]\w*$")]
Names = list[Identifier]


class TracedInput(Loose):
    """A tensor that an event meets first: source text for its values, else they are in the file.

    ``alike``: source text of one that differs in its values only; None for what holds no floating numbers. ``drawn``: the same with values
    from a like range; None for what torch cannot draw.
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
    """A place at which the script reads values: behind how many events, the names of the values, and its line as of an event."""

    after: Count
    values: Names = Field(default_factory=list, max_length=10_000)
    source: Line


class LeftOut(Loose):
    """What could not be noted, with the line of the script that does it; the file is empty where there is none."""

    what: Text
    file: Name = ""
    line: Count = 0
    code: Name = ""


class Traced(Loose):
    """The trace of a script.

    ``storages``: the number of each value's storage; ``settings``: statements that set the compiler's configuration, and
    ``opaque_settings`` the names of those whose values are objects; ``cut``: the limit at which it stopped.
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
    """An event at which eager and compiled part, and how: by a value, or by an error that only one side raises.

    ``own``: it is wrong on eager's own inputs; else it carries on what an earlier event has left. ``sort``: that of the difference, as
    the comparator names it (``what`` in `inside/referee/compare.py`). ``error``: the distance of the compiled value from eager's relative
    to that, in the norm. ``overwrites``: the value is the result of an earlier call, which this event has written over. ``zeros_of``: the
    call of a graph that gave a zero another sign, of which the value depends.
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
        """Whether each call is right, and what is wrong is read outside of them: an overwritten result, or the sign of a zero."""
        return self.overwrites or self.zeros_of is not None

    @property
    def is_of_values(self) -> bool:
        """Whether a value is wrong by the referee, on eager's own inputs: no error, and no difference that was carried on."""
        return self.own and bool(self.rule)


class Distance(Loose):
    """The relative distance of the compiled values of an event: on eager's inputs, and on the compiled side's own."""

    event: Count
    own: Number = None
    carried: Number = None


class Sides(Loose):
    """A program that was run side by side. ``first``: where the two part first; ``ran``: events run.

    ``checked``: where they part first of the events that a failing check reads, if that is another one. ``stopped``: why no more were run,
    or what could not be compared.
    """

    first: Parting | None = None
    checked: Parting | None = None
    distances: list[Distance] = Field(default_factory=list, max_length=MOST_EVENTS)
    ran: Count = 0
    stopped: Text = ""

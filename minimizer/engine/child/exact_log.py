"""The log of an exact run, as the child sends it: untrusted, bounded; see ``inside/tasks/exact_run.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_LOOKS, MOST_ENTRIES, MOST_GRAPHS = 5000, 250_000, 10_000
Path = Annotated[str, StringConstraints(max_length=2000)]
Word = Annotated[str, StringConstraints(max_length=1000)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Entry = dict[Word, Word]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=True)


class Look(_Loose):
    """One look: at which moment, and what has changed since the look of its sort before.

    ``unit`` counts calls and backwards together, ``number`` each for itself. ``full``: everything that can be reached was looked at, not
    the result alone. ``compiled``: how many frames Dynamo was given during the call.
    """

    event: Word
    unit: Count
    number: Count = 0
    line: Count = 0
    full: bool
    compiled: Count = 0
    changed: dict[Path, Entry] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    gone: list[Path] = Field(default_factory=list, max_length=MOST_ENTRIES)

    @property
    def moment(self) -> tuple[str, int, bool]:
        """By which looks of two runs belong together."""
        return self.event, self.unit, self.full


class ExactLog(_Loose):
    """What one run saw."""

    looks: list[Look] = Field(default_factory=list, max_length=MOST_LOOKS)
    calls: Count = 0
    backwards: Count = 0
    seconds: list[Annotated[float, Field(ge=0, le=10**6)]] = Field(default_factory=list, max_length=1000)
    truncated: Path = ""
    sampled: bool = False
    in_threads: bool = False
    otherwise: list[Word] = Field(default_factory=list, max_length=100)
    """Operators of its graphs that the backend runs otherwise than eager."""

    graph_calls: list[list[Count]] = Field(default_factory=list, max_length=MOST_GRAPHS)
    """Of each graph, in the order in which they were compiled, the outermost call that each of its calls was made in."""

    def call_of(self, graph: int | None, call: int) -> int | None:
        """The outermost call, by its number from 1, in which a graph's call was made; None where that is not known."""
        if graph is None or not 0 <= graph < len(self.graph_calls) or not 0 <= call < len(self.graph_calls[graph]):
            return None
        return self.graph_calls[graph][call]

    def states(self) -> Iterator[tuple[Look, dict[str, Entry]]]:
        """Each look with all that it saw, which holds until the next one is asked for."""
        states: dict[bool, dict[str, Entry]] = {True: {}, False: {}}
        for look in self.looks:
            state = states[look.full]
            for path in look.gone:
                state.pop(path, None)
            state.update(look.changed)
            yield look, state

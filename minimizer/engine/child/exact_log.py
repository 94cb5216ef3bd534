"""The log of an exact run, as the child sends it: untrusted and bounded (written by ``inside/tasks/exact_run.py``)."""

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
    """One look: its moment, and the changes since the previous look of the same sort.

    ``unit`` counts calls and backwards together, ``number`` each on its own. ``full``: it covers everything reachable,
    not the result alone. ``compiled``: frames that Dynamo was given during the call. ``line`` is one of the text that
    was run; where ``file`` is named, of that file, a module of the script's own, with its ``code``.
    """

    event: Word
    unit: Count
    number: Count = 0
    line: Count = 0
    file: Word = ""
    code: Word = ""
    full: bool
    compiled: Count = 0
    changed: dict[Path, Entry] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    gone: list[Path] = Field(default_factory=list, max_length=MOST_ENTRIES)

    @property
    def moment(self) -> tuple[str, int, bool]:
        """The key by which looks of two runs are matched."""
        return self.event, self.unit, self.full


class ExactLog(_Loose):
    """All looks of one exact run, and what they left out."""

    looks: list[Look] = Field(default_factory=list, max_length=MOST_LOOKS)
    calls: Count = 0
    backwards: Count = 0
    seconds: list[Annotated[float, Field(ge=0, le=10**6)]] = Field(default_factory=list, max_length=1000)
    truncated: Path = ""
    sampled: bool = False
    in_threads: bool = False
    otherwise: list[Word] = Field(default_factory=list, max_length=100)
    """Operators of its graphs that the backend runs differently from eager."""

    graph_calls: list[list[Count]] = Field(default_factory=list, max_length=MOST_GRAPHS)
    """For each graph, in order of compilation: the outermost call that made each of its calls."""

    def call_of(self, graph: int | None, call: int) -> int | None:
        """The number, from 1, of the outermost call that made a graph's call; None if it is not known."""
        if graph is None or not 0 <= graph < len(self.graph_calls) or not 0 <= call < len(self.graph_calls[graph]):
            return None
        return self.graph_calls[graph][call]

    def states(self) -> Iterator[tuple[Look, dict[str, Entry]]]:
        """Each look with all entries by path; the dict is reused, so it is valid until the next look is taken."""
        states: dict[bool, dict[str, Entry]] = {True: {}, False: {}}
        for look in self.looks:
            state = states[look.full]
            for path in look.gone:
                state.pop(path, None)
            state.update(look.changed)
            yield look, state

"""The log of an exact run, as sent by the child: untrusted and bounded (written by ``inside/tasks/exact_run.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from minimizer.engine.child.bounded import Loose, Name
from minimizer.inside.questions import MOST_DELAYS

MOST_LOOKS, MOST_ENTRIES, MOST_GRAPHS, MOST_UNSEEN = 5000, 250_000, 10_000, 500
PER_LANE = 1_000_000
"""Size of a thread's number range: 3000002 is the second call of the third thread, or task of a pool, of the script."""
Path = Annotated[str, StringConstraints(max_length=2000)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Number = Annotated[int, Field(ge=0, le=10**17)]
"""Number of a call or a unit, which encodes its thread; see `PER_LANE`."""
Entry = dict[Name, Name]


class Look(Loose):
    """One look: its moment, and the changes since the previous look of the same type.

    ``unit`` counts calls and backwards together, ``number`` counts each separately. ``full``: it covers everything
    reachable, not the result alone. ``compiled``: frames that Dynamo got during the call. ``line``: a line of the text
    that ran or, if ``file`` is given, of that file, a module of the script's own, with its ``code``. ``thread``: the
    number of the script's thread, 0 for the main one, the only one whose ``full`` looks see everything. ``finest``: a
    denser plan of looks shows no more of this moment.
    """

    event: Name
    unit: Number
    number: Number = 0
    thread: Number = 0
    finest: bool = False
    line: Count = 0
    file: Name = ""
    code: Name = ""
    full: bool
    compiled: Count = 0
    changed: dict[Path, Entry] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    gone: list[Path] = Field(default_factory=list, max_length=MOST_ENTRIES)

    @property
    def named(self) -> str:
        """The call or backward in words, by its number in its thread."""
        inside = f" in thread {self.thread}" if self.thread else ""
        return f"{self.event.partition(' ')[0]} {self.number - self.thread * PER_LANE}{inside}"

    @property
    def moment(self) -> tuple[str, int, bool]:
        """The key by which looks of two runs are matched."""
        return self.event, self.unit, self.full


class Unseen(Loose):
    """A part that a run did not look at, or not in full: the observer's rule, an object or moment, and the count.

    ``object`` is empty in a row for all unnamed ones of its rule.
    """

    rule: Name
    object: Path = ""
    count: Count = 1


class Glance(Loose):
    """A look of the script at a wrapper: its type and its line (as in `Look`). ``key`` identifies it in a request."""

    key: Path
    sort: Name
    line: Count = 0
    file: Name = ""
    code: Name = ""


class ExactLog(Loose):
    """All looks of one exact run, and what they left out."""

    looks: list[Look] = Field(default_factory=list, max_length=MOST_LOOKS)
    calls: Count = 0
    backwards: Count = 0
    seconds: list[Annotated[float, Field(ge=0, le=10**6)]] = Field(default_factory=list, max_length=MOST_DELAYS)
    unseen: list[Unseen] = Field(default_factory=list, max_length=MOST_UNSEEN)
    stacks: list[Annotated[str, StringConstraints(max_length=5000)]] = Field(default_factory=list, max_length=10)
    """Errors of the observer itself, with their stacks; the objects are in ``unseen``."""
    reads: Annotated[str, StringConstraints(max_length=4 << 20)] = ""
    """Recorded reads of the machine by the script's own code, for replay in later runs; opaque here."""
    resident: Annotated[int, Field(ge=0, le=1 << 50)] = 0
    """Peak memory of the run, in bytes."""
    written: dict[Path, Name] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    """Written by functions of the script while the compiler ran them: paths, each with the function."""
    whole: list[Annotated[str, StringConstraints(max_length=1 << 20)]] = Field(default_factory=list, max_length=10_000)
    """Elements of tensors as float64 in base64; ``whole`` of an entry is an index into it."""
    wrappers: Count = 0
    """The number of module wrappers made; the next field has the script's looks at them. Recorded in some runs only."""
    glances: list[Glance] = Field(default_factory=list, max_length=1000)
    packages: list[Name] = Field(default_factory=list, max_length=200)
    """Modules of packages whose functions Dynamo traced."""
    graph_calls: list[list[Number]] = Field(default_factory=list, max_length=MOST_GRAPHS)
    """For each graph, in order of compilation: the outermost call that made each of its calls."""

    @property
    def is_whole(self) -> bool:
        """Whether the script ran to its end, and all looks were kept."""
        return bool(self.looks) and self.looks[-1].event == "end"

    def call_of(self, graph: int | None, call: int) -> int | None:
        """The number, from 1, of the outermost call that made a graph's call; None if unknown."""
        if graph is None or not 0 <= graph < len(self.graph_calls) or not 0 <= call < len(self.graph_calls[graph]):
            return None
        return self.graph_calls[graph][call]

    @property
    def truncated(self) -> str:
        """The first object or moment at which the looks stopped; empty if they did not."""
        return next((row.object for row in self.unseen if row.rule in ("walk", "looks")), "")

    @property
    def sampled(self) -> bool:
        """Whether a large tensor was hashed by a sample only."""
        return any(row.rule == "sampled" for row in self.unseen)

    @property
    def in_threads(self) -> bool:
        """Whether calls were made in threads, which are observed less completely."""
        return any(row.rule == "in threads" for row in self.unseen)

    def states(self) -> Iterator[tuple[Look, dict[str, Entry]]]:
        """Each look with all entries by path; the dict is reused, so it is valid until the next look is taken."""
        states: dict[tuple[int, bool], dict[str, Entry]] = {}
        for look in self.looks:
            state = states.setdefault((look.thread, look.full), {})
            for path in look.gone:
                state.pop(path, None)
            state.update(look.changed)
            yield look, state

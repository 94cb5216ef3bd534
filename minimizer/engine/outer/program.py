"""A flat program: the calls of torch around compiled graphs, one statement each, with what each reads, creates and
changes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.child.traced import LeftOut, Traced, TracedEvent, TracedInput, TracedLook
from minimizer.engine.program.model import Program
from minimizer.errors import ChildFailed

CONTEXT = re.compile(r'torch\.(no_grad|inference_mode)\(\)|torch\.autocast\("[a-z]+", dtype=torch\.\w+\)')
GRAD = ".grad"
"""Suffix of a leaf's name in the name of its gradient."""
GRAPH, BACKWARD, STATE = "graph", "backward", "state"


@dataclass(frozen=True)
class Event:
    """A statement. ``reads``: names, and gradients as ``name.grad``; ``grads``: leaves whose gradient it changes.

    ``source``: the script's line, as (file, number, text).
    """

    code: str
    kind: str
    reads: frozenset[str]
    makes: tuple[str, ...]
    writes: tuple[str, ...]
    grads: tuple[str, ...]
    under: tuple[str, ...]
    raises: str
    source: tuple[str, int, str] | None
    draws: bool

    @property
    def is_setting(self) -> bool:
        """Whether it sets a switch or a random state, and no value."""
        return self.kind == STATE and not (self.makes or self.writes or self.grads)

    @property
    def values(self) -> tuple[str, ...]:
        """The values that it creates or changes, as expressions."""
        grads = (name + GRAD for name in self.grads)
        return tuple(dict.fromkeys((*self.makes, *self.writes, *grads)))


@dataclass(frozen=True)
class OuterProgram:
    """The events of a script, the inputs that they start from, and the graphs that they call, by the names of their
    functions.
    """

    inputs: Mapping[str, TracedInput]
    events: Sequence[Event]
    graphs: Mapping[str, Program]
    storages: Mapping[str, int]
    """The number of each value's storage: values with the same one share memory."""
    settings: Sequence[str] = ()
    left_out: Sequence[LeftOut] = ()
    cut: str = ""
    """The limit at which the trace stopped; empty if it came to the end of the script."""
    looks: Sequence[TracedLook] = ()
    """The places at which the script reads values, in order."""
    inline: frozenset[str] = frozenset()
    """The graphs whose backend is an object that the script does not name."""

    @cached_property
    def graph_of(self) -> Sequence[str | None]:
        """For each event, the function of the graph that it calls."""
        return [
            next(iter(event.reads & self.graphs.keys()), None) if event.kind == GRAPH else None for event in self.events
        ]

    @cached_property
    def calls(self) -> int:
        """The number of calls of graphs."""
        return sum(graph is not None for graph in self.graph_of)


def parse(traced: Traced) -> OuterProgram:
    """Check the trace sent by a child, and parse its statements.

    Raises:
        ChildFailed: a statement is malformed, or a graph.
        GraphTooLarge: a graph has too many nodes.
    """
    graphs = {f"graph_{index}": parse_program(graph) for index, graph in enumerate(traced.graphs) if graph is not None}
    inputs = {item.name: item for item in traced.inputs}
    for item in traced.inputs:
        for text in filter(None, (item.exact, item.alike, item.drawn)):
            _require("eval", text)
    for text in traced.settings:
        _require("exec", text)
    events, cut = _with_values([_event(event) for event in traced.events], traced)
    return OuterProgram(
        inputs,
        events,
        graphs,
        traced.storages,
        traced.settings,
        traced.left_out,
        cut,
        traced.looks,
        frozenset(
            f"graph_{index}" for index, graph in enumerate(traced.graphs) if (graph or {}).get("has_inline_backend")
        ),
    )


def _with_values(events: list[Event], traced: Traced) -> tuple[list[Event], str]:
    """The events before the first one that reads a missing value, and where the program is cut.

    Values are missing for inputs that take too much memory, and for events that were left out.
    """
    known = {item.name for item in traced.inputs if item.exact is not None or item.stored}
    for index, event in enumerate(events):
        missing = sorted(name for name in event.reads if name in traced.storages and name not in known)
        if missing:
            return events[:index], traced.cut or f"{index:,} events, where {missing[0]} has no value"
        known.update(event.makes)
    return events, traced.cut


def _event(event: TracedEvent) -> Event:
    tree = _require("exec", event.code)
    if any(CONTEXT.fullmatch(context) is None for context in event.under) or not re.fullmatch(r"\w*", event.raises):
        raise ChildFailed(f"the child sent an event with another context or exception: {event.code[:80]!r}")
    return Event(
        code=event.code,
        kind=event.kind,
        reads=frozenset(_reads(tree)),
        makes=tuple(event.makes),
        writes=tuple(event.writes),
        grads=tuple(event.grads),
        under=tuple(event.under),
        raises=event.raises,
        source=event.source,
        draws=event.draws,
    )


def _reads(tree: ast.AST) -> set[str]:
    """The names that a statement reads or changes; a gradient that it reads as ``name.grad``."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Attribute) and node.attr == GRAD[1:] and isinstance(node.ctx, ast.Load):
            found |= {node.value.id + GRAD} if isinstance(node.value, ast.Name) else set()
    return found


def _require(mode: str, text: str) -> ast.AST:
    try:
        tree = ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ChildFailed(f"the child sent what is no Python: {text[:80]!r}") from None
    if isinstance(tree, ast.Module) and len(tree.body) != 1:
        raise ChildFailed(f"the child sent more than one statement: {text[:80]!r}")
    return tree

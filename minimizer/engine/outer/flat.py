"""Flat scripts of some events of a program, the candidates of its slicing.

An event stays for its effect (an anchor), or because a remaining event reads a name that it binds. Inputs are ones:
what raises around graphs seldom depends on values.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from minimizer.engine.child.traced import TracedInput
from minimizer.engine.outer.program import BACKWARD, GRAPH, OuterProgram
from minimizer.engine.outer.slices import closed, direct_needs, named_needs
from minimizer.engine.outer.write import graph_function, placed_statements, setup, used_graphs, used_inputs
from minimizer.engine.user_script.bundle import Bundle
from minimizer.report.culprit import Line

IMPORTS = ("functools", "math", "operator", "torch")
FUNCTIONAL = "import torch.nn.functional as F"
DRAWN = re.compile(r"\btorch\.randn?\((?![^()]*\bgenerator=)")
WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
FUNCTIONS = "fgh"
"""Names of the first graphs; further ones keep theirs."""
WEIGHT = "w"
"""The name of an input that requires gradients."""


@dataclass(frozen=True)
class Writable:
    """A program whose inputs have short texts, and the events that can be written with them."""

    program: OuterProgram
    names: Mapping[str, str]
    """New names by old ones: of graphs, and of inputs that require gradients."""
    needs: Sequence[frozenset[int]]
    can_be_written: frozenset[int]

    @staticmethod
    def of(program: OuterProgram) -> Writable:
        """A program with the shared data of all its slices."""
        needs, missing = named_needs(program), {name for name, item in program.inputs.items() if not text_of(item)}
        written: set[int] = set()
        for index, event in enumerate(program.events):
            if not event.raises and not missing & event.reads and needs[index] <= written:
                written.add(index)
        return Writable(program, _short_names(program), needs, frozenset(written))


@dataclass(frozen=True)
class Slice:
    """The events up to ``target`` that it and these anchors need."""

    source: Writable
    target: int
    anchors: frozenset[int]

    @cached_property
    def events(self) -> list[int]:
        """The events, in order."""
        return sorted(closed(self.source.needs, {*self.anchors, self.target}))

    @property
    def size(self) -> int:
        return len(self.events)

    def fingerprint(self) -> str:
        """A hash of the events."""
        return hashlib.sha256(repr(self.events).encode()).hexdigest()

    def without(self, anchors: Sequence[int]) -> Slice:
        """The slice without these anchors, as far as no other event needs them."""
        return replace(self, anchors=self.anchors - set(anchors))

    @cached_property
    def script(self) -> Bundle:
        """The script; each event's line maps to the user's."""
        return self._written[0]

    def event_at(self, line: int) -> int | None:
        """The event at this line of the script."""
        return self._written[1].get(line)

    @cached_property
    def _written(self) -> tuple[Bundle, Mapping[int, int]]:
        program, names = self.source.program, self.source.names
        functions = [
            graph_function(program.graphs[name].renamed(), name, decorated=True)
            for name in used_graphs(program, self.events)
        ]
        inputs = []
        for name in used_inputs(program, self.events):
            item = program.inputs[name]
            inputs.append(f"{name} = {text_of(item)}{'.requires_grad_()' if item.requires_grad else ''}")
        placed = list(placed_statements(program, self.events))
        before = renamed("\n".join([*setup(program, self.events), *functions, *inputs]), names)
        body = [DRAWN.sub("torch.ones(", renamed(line, names)) for line, _ in placed]
        lines = [*import_lines("\n".join([before, *body])), *before.split("\n")]
        events = {len(lines) + number: index for number, (_, index) in enumerate(placed, 1) if index is not None}
        sources: dict[int, Line] = {
            number: source for number, index in events.items() if (source := program.events[index].source) is not None
        }
        return Bundle("\n".join([*lines, *body, ""]), sources), events


def text_of(item: TracedInput) -> str | None:
    """The short text of an input: ones if it is floating-point; None if it has none."""
    return item.alike or item.exact or item.drawn


def import_lines(text: str) -> list[str]:
    """The imports that the statements of a program need; ``import torch`` always."""
    lines = [f"import {name}" for name in IMPORTS if name == "torch" or re.search(rf"\b{name}\.", text)]
    return lines + ([FUNCTIONAL] if re.search(r"\bF\.", text) else [])


def whole(source: Writable) -> Slice:
    """All events that can be written."""
    last = max(source.can_be_written)
    return Slice(source, last, source.can_be_written)


def slices(start: Slice) -> list[Slice]:
    """Slices of a program that may fail like it, those with fewer anchors first."""
    program, target = start.source.program, start.target
    before = {index for index in start.source.can_be_written if index < target}
    runs = {index for index in before if program.events[index].kind in (GRAPH, BACKWARD)}
    effects = {
        index
        for index in closed(direct_needs(program), {target}) & before
        if program.events[index].writes or program.events[index].grads or program.events[index].is_setting
    }
    return [Slice(start.source, target, frozenset(anchors)) for anchors in (set[int](), runs, runs | effects, before)]


def _short_names(program: OuterProgram) -> dict[str, str]:
    texts = [*(event.code for event in program.events), *program.settings]
    texts += [text for item in program.inputs.values() for text in (item.alike, item.exact, item.drawn) if text]
    texts += [*setup(program, range(len(program.events)))]
    texts += [graph_function(graph, name, decorated=True) for name, graph in program.graphs.items()]
    fixed = {word for text in texts for word in _fixed_words(text)}
    taken = {name for event in program.events for name in (*event.makes, *event.reads)} | program.inputs.keys()
    taken |= {word for text in texts for word in WORD.findall(text)}
    short = iter(name for name in FUNCTIONS if name not in taken)
    names = dict(zip((name for name in program.graphs if name not in fixed), short, strict=False))
    weights = [name for name, item in program.inputs.items() if item.requires_grad and name not in fixed]
    for number, weight in enumerate(weights):
        name = WEIGHT if number == 0 else f"{WEIGHT}{number}"
        names |= {weight: name} if name not in taken else {}
    return names


def _fixed_words(text: str) -> set[str]:
    """The words of a text that must stay: names of arguments, and contents of strings."""
    nodes = [*ast.walk(ast.parse(text))]
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    named = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    return named | {word for one in strings for word in WORD.findall(one)}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with new names in place of old ones."""
    return WORD.sub(lambda found: names.get(found[0], found[0]), text)

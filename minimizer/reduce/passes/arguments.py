"""Simpler arguments and simpler values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from minimizer.program import Arg, Input, Node, Program
from minimizer.reduce.generators import generator_of, generators
from minimizer.reduce.problem import Problem


def arguments(problem: Problem) -> None:
    """Drop keyword arguments of calls, and write long numbers short.

    Invariant: when nothing changes, no single keyword argument of a call could go.
    """
    keywords = [(node.name, key) for node in problem.best.nodes for key, _ in node.kwargs]
    problem.shrink(keywords, without_keywords, "arguments")
    problem.shrink([node.name for node in problem.best.nodes if _rounded(node) != node], rounded, "arguments")


def values(problem: Problem) -> None:
    """Prefer values that are easier to read: ones, then zeros or a range, before random ones.

    Invariant: when nothing changes, no single generated input could be all ones.
    """
    for name in [i.name for i in problem.best.inputs]:
        problem.first(simpler_values(problem.best, name), "values")


def without_keywords(program: Program, keywords: Sequence[tuple[str, str]]) -> Program:
    """Without these (node, keyword) arguments."""
    gone = set(keywords)
    return replace(
        program,
        nodes=tuple(
            replace(n, kwargs=tuple(kw for kw in n.kwargs if (n.name, kw[0]) not in gone)) for n in program.nodes
        ),
    )


def rounded(program: Program, names: Sequence[str]) -> Program:
    """With the floats among these nodes' arguments replaced by 0.5."""
    return replace(program, nodes=tuple(_rounded(n) if n.name in names else n for n in program.nodes))


def simpler_values(program: Program, name: str) -> Iterator[Program]:
    """The program with this input made by each generator of simpler values, simplest first."""
    item = next((i for i in program.inputs if i.name == name), None)
    if item is None or item.meta is None or item.golden is not None:
        return
    current = generator_of(item, grad=program.grad)
    if current is None:
        return
    for generator in sorted(generators(item.meta), key=lambda g: g.rank):
        if generator.rank < min(current.rank, 3):
            changed = replace(item, code=generator.code(item.meta, grad=program.grad))
            yield _with_input(program, changed)


def _with_input(program: Program, changed: Input) -> Program:
    return replace(program, inputs=tuple(changed if i.name == changed.name else i for i in program.inputs))


def _rounded(node: Node) -> Node:
    def leaf(value: Arg) -> Arg:
        return 0.5 if isinstance(value, float) and len(repr(value)) > 3 else value

    return node.mapped(leaf)

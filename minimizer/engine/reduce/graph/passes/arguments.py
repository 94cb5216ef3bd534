"""Passes for simpler arguments of calls, and simpler values and dtypes of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from minimizer.engine.program.arguments import Arg, Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.generators import FLOAT, NONFINITE, UNUSUAL_FLOATS, generator_of, generators
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def arguments(problem: ProgramProblem) -> None:
    """Drop keyword arguments of calls, and replace long floats by 0.5.

    Invariant: when nothing changes, no single keyword argument of a call could go.
    """
    keywords = [(node.name, key) for node in problem.best.nodes for key, _ in node.kwargs]
    problem.shrink(keywords, without_keywords, "arguments")
    problem.shrink([node.name for node in problem.best.nodes if _rounded(node) != node], rounded, "arguments")


def operands(problem: ProgramProblem) -> None:
    """Drop optional operands of calls (the weight of a ``layer_norm``), and replace a second operand by 1.

    Invariant: when nothing changes, no single last argument of a call could go.
    """
    for name in [node.name for node in problem.best.nodes]:
        problem.exhaust(partial(fewer_operands, name=name), "operands")


def values(problem: ProgramProblem) -> None:
    """Replace values by simpler ones: ones, then zeros, a range or -2, before random; float32 before other floats.

    Invariant: when nothing changes, no single generated input could be all ones, nor float32.
    """
    unusual = [i.name for i in problem.best.inputs if as_float32(problem.best, [i.name]) is not None]
    problem.shrink(unusual, as_float32, "dtypes")
    for name in [i.name for i in problem.best.inputs]:
        problem.first(simpler_values(problem.best, name), "values")


def without_keywords(program: Program, keywords: Sequence[tuple[str, str]]) -> Program:
    """The program without these (node, keyword) arguments."""
    gone = set(keywords)
    nodes = [replace(n, kwargs=tuple(kw for kw in n.kwargs if (n.name, kw[0]) not in gone)) for n in program.nodes]
    return replace(program, nodes=tuple(nodes)).without_dead_code(cut.is_pure)


def fewer_operands(program: Program, name: str) -> Iterator[Program]:
    """The program with one operand less in this call: the last one dropped, an inner one None, or the second one 1."""
    node = next((n for n in program.nodes if n.name == name), None)
    if node is None:
        return
    args = node.args
    # Python's operators have no optional operands.
    shorter = [args[:-1]] if len(args) > 1 and not node.target.startswith("operator.") else []
    shorter += [(*args[:i], None, *args[i + 1 :]) for i in range(2, len(args) - 1) if isinstance(args[i], Ref)]
    shorter += [(args[0], 1)] if len(args) == 2 and isinstance(args[1], Ref) else []
    for changed in shorter:
        nodes = tuple(replace(n, args=changed) if n.name == name else n for n in program.nodes)
        yield replace(program, nodes=nodes).without_dead_code(lambda n: n.name != name and cut.is_pure(n))


def as_float32(program: Program, names: Sequence[str]) -> Program | None:
    """The program with these generated inputs in float32; None if none of them is of another float dtype."""
    inputs: list[Input] = []
    for item in program.inputs:
        made_by = generator_of(item) if item.name in names else None
        if made_by is None or item.meta is None or item.meta.dtype not in UNUSUAL_FLOATS:
            inputs.append(item)
            continue
        meta = replace(item.meta, dtype="torch.float32")
        twin = next(g for g in (*FLOAT, *NONFINITE) if g.name == made_by.name)
        inputs.append(replace(item, meta=meta, code=twin.code(meta, grad=program.grad)))
    if tuple(inputs) == program.inputs:
        return None
    return replace(program, inputs=tuple(inputs), nodes=tuple(replace(n, meta=None) for n in program.nodes))


def rounded(program: Program, names: Sequence[str]) -> Program:
    """The program with long floats among these nodes' arguments replaced by 0.5."""
    return replace(program, nodes=tuple(_rounded(n) if n.name in names else n for n in program.nodes))


def simpler_values(program: Program, name: str) -> Iterator[Program]:
    """The program with this input made by each generator of simpler values, simplest first."""
    item = next((i for i in program.inputs if i.name == name), None)
    if item is None or item.meta is None or item.golden is not None:
        return
    current = generator_of(item)
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

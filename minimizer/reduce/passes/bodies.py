"""Higher-order operators opened: a branch of ``cond`` in place of the call, one round in place of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.arguments import Arg, Code, Ref, map_leaves, refs_in
from minimizer.program import Body, Node, Program
from minimizer.reduce import cut
from minimizer.reduce.program_problem import ProgramProblem

HIGHER_ORDER = "torch.ops.higher_order."
GETITEM = "operator.getitem"


def bodies(problem: ProgramProblem) -> None:
    """Put what a body computes in the place of the operator that it was given to.

    Invariant: when nothing changes, no body could be opened.
    """
    while problem.first(opened(problem.best), "open bodies"):
        pass


def opened(program: Program) -> Iterator[Program | None]:
    """The program with one body in place of the operator that it was given to, in every way there is."""
    functions = {body.name: body for body in program.called}
    for node in program.nodes:
        for call in _calls(node):
            if isinstance(call.function, Code) and call.function.text in functions:
                yield _spliced(program, node, functions[call.function.text], call)


@dataclass(frozen=True)
class _Call:
    """One call that an operator makes, as Dynamo hands it what it needs; ``before`` makes operands."""

    function: Arg
    operands: Sequence[Arg]
    before: Sequence[Node] = ()


def _calls(node: Node) -> Iterator[_Call]:
    """The branches; of a loop the first round, which takes the first row of what is scanned or mapped."""
    match node.target.removeprefix(HIGHER_ORDER), node.args:
        case "cond", (_, yes, no, [*operands]):
            yield _Call(yes, operands)
            yield _Call(no, operands)
        case "while_loop", (condition, body, [*carried], *more):
            operands = [*carried, *(operand for operands in more for operand in operands)]
            yield _Call(body, operands)
            yield _Call(condition, operands)
        case "scan", (body, [*carried], [*scanned], [*more]):
            rows = _first_rows(node, scanned)
            yield _Call(body, [*carried, *(Ref(row.name) for row in rows), *more], rows)
        case "map_impl", (body, [*mapped], [*more]):
            rows = _first_rows(node, mapped)
            yield _Call(body, [*(Ref(row.name) for row in rows), *more], rows)


def _first_rows(node: Node, values: Sequence[Arg]) -> list[Node]:
    return [Node(f"{node.name}_row_{index}", GETITEM, (value, 0)) for index, value in enumerate(values)]


def _spliced(program: Program, node: Node, body: Body, call: _Call) -> Program | None:
    """The program with the nodes of a body in the place of a node; None if it is not called like that.

    What its values were is not known, so that no later cut can start from one: no node keeps its meta.
    """
    if len(body.parameters) != len(call.operands):
        return None
    values: dict[str, Arg] = dict(zip(body.parameters, call.operands, strict=True))
    values |= {inner.name: Ref(f"{node.name}_{inner.name}") for inner in body.nodes}
    opened = [replace(inner.mapped(_given(values)), name=f"{node.name}_{inner.name}") for inner in body.nodes]
    results = {node.name: map_leaves(body.result, _given(values))}
    rest: list[Node] = []
    position = program.nodes.index(node)
    for user in program.nodes[position + 1 :]:
        if (item := _item_of(user, results)) is not None:
            results[user.name] = item
        else:
            rest.append(user.mapped(_given(results)))
    nodes = [*program.nodes[:position], *call.before, *opened, *rest]
    made = {inner.name for inner in nodes}
    outputs = [name for old in program.outputs for name in refs_in(results.get(old, Ref(old))) if name in made]
    if not outputs:
        return None
    spliced = replace(
        program, nodes=tuple(replace(inner, meta=None) for inner in nodes), outputs=tuple(dict.fromkeys(outputs))
    )
    return spliced.without_dead_code(cut.is_pure)


def _given(values: Mapping[str, Arg]) -> Callable[[Arg], Arg]:
    return lambda leaf: values.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf


def _item_of(node: Node, results: Mapping[str, Arg]) -> Arg | None:
    """What a node takes out of a result that is known item by item."""
    match node.target, node.args:
        case "operator.getitem", (Ref(name), int(index)) if name in results:
            result = results[name]
            if not isinstance(result, tuple | list):  # the condition of a loop has one
                return result
            return result[index] if index < len(result) else None
    return None

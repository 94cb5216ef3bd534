"""Higher-order operators opened: a branch of ``cond`` in place of the call, one round in place of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.program.arguments import Arg, Code, Ref, map_leaves, refs_in, substitution
from minimizer.engine.program.model import BOUND, Body, Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.generators import Generator, generators
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

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
        prefix = _prefix(program, node)
        for call in (*_calls(node, prefix), *_scored(program, node, prefix)):
            if isinstance(call.function, Code) and call.function.text in functions:
                yield _spliced(program, node, functions[call.function.text], call, prefix)


def _prefix(program: Program, node: Node) -> str:
    """What the names of all that comes from opening a node begin with, and no other name does."""
    prefix = f"{node.name}_"
    while any(name.startswith(prefix) for name in program.metas):
        prefix += "_"
    return prefix


@dataclass(frozen=True)
class _Call:
    """One call that an operator makes, as Dynamo hands it what it needs; ``before`` and ``inputs`` make operands."""

    function: Arg
    operands: Sequence[Arg]
    before: Sequence[Node] = ()
    inputs: Sequence[Input] = ()


def _calls(node: Node, prefix: str) -> Iterator[_Call]:
    """The branches; of a loop the first round, which takes the first row of what is scanned or mapped."""
    match node.target.removeprefix(HIGHER_ORDER), node.args:
        case "cond", (_, yes, no, [*operands]):
            yield _Call(yes, operands)
            yield _Call(no, operands)
        case "while_loop", (condition, body, [*carried], [*more]):
            yield _Call(body, [*carried, *more])
            yield _Call(condition, [*carried, *more])
        case "scan", (body, [*carried], [*scanned], [*more]):
            rows = _first_rows(prefix, scanned)
            yield _Call(body, [*carried, *(Ref(row.name) for row in rows), *more], rows)
        case "map_impl", (body, [*mapped], [*more]):
            rows = _first_rows(prefix, mapped)
            yield _Call(body, [*(Ref(row.name) for row in rows), *more], rows)


def _scored(program: Program, node: Node, prefix: str) -> Iterator[_Call]:
    """The functions of flex_attention, for a row of scores: each key's of the first query, in the first head."""
    match node.target.removeprefix(HIGHER_ORDER), node.args:
        case "flex_attention", (Ref(query), Ref(key), _, score_mod, [*_, mask_mod], *_):
            known = program.metas
            of_queries, of_keys = known.get(query), known.get(key)
            if of_queries is None or of_keys is None:
                return
            count = of_keys.shape[-2:-1]
            score = of_queries.reshaped(count, (1,))
            index = TensorMeta(count, "torch.int32", (1,), of_queries.device)
            row = [
                Input(f"{prefix}{name}", meta, code=_generator(kind, meta).code(meta, grad=program.grad))
                for name, meta, kind in (
                    ("score", score, "randn"), ("batch", index, "zeros"), ("head", index, "zeros"),
                    ("query", index, "zeros"), ("key", index, "arange"),
                )
            ]  # fmt: skip
            operands = [Ref(item.name) for item in row]
            function, captured = _unbound(program, score_mod)
            yield _Call(function, [*operands, *captured], inputs=row)
            function, captured = _unbound(program, mask_mod)
            yield _Call(function, [*operands[1:], *captured], inputs=row[1:])


def _generator(name: str, meta: TensorMeta) -> Generator:
    return next(generator for generator in generators(meta) if generator.name == name)


def _unbound(program: Program, function: Arg) -> tuple[Arg, list[Arg]]:
    """A function and what was bound to it."""
    if not isinstance(function, Ref):
        return function, []
    node = next((node for node in program.nodes if node.name == function.name and node.target == BOUND), None)
    return (node.args[0], [value for _, value in node.kwargs]) if node is not None else (function, [])


def _first_rows(prefix: str, values: Sequence[Arg]) -> list[Node]:
    return [Node(f"{prefix}row_{index}", GETITEM, (value, 0)) for index, value in enumerate(values)]


def _spliced(program: Program, node: Node, body: Body, call: _Call, prefix: str) -> Program | None:
    """The program with the nodes of a body in the place of a node; None if it is not called like that.

    What its values were is not known, so that no later cut can start from one: no node keeps its meta.
    """
    if len(body.parameters) != len(call.operands):
        return None
    values: dict[str, Arg] = dict(zip(body.parameters, call.operands, strict=True))
    values |= {inner.name: Ref(f"{prefix}{inner.name}") for inner in body.nodes}
    opened = [replace(inner.mapped(substitution(values)), name=f"{prefix}{inner.name}") for inner in body.nodes]
    results = {node.name: map_leaves(body.result, substitution(values))}
    rest: list[Node] = []
    position = program.nodes.index(node)
    for user in program.nodes[position + 1 :]:
        if (item := _item_of(user, results)) is not None:
            results[user.name] = item
        else:
            rest.append(user.mapped(substitution(results)))
    nodes = [*program.nodes[:position], *call.before, *opened, *rest]
    made = {inner.name for inner in nodes}
    outputs = [name for old in program.outputs for name in refs_in(results.get(old, Ref(old))) if name in made]
    if not outputs:
        return None
    spliced = replace(
        program,
        inputs=(*program.inputs, *call.inputs),
        nodes=tuple(replace(inner, meta=None) for inner in nodes),
        outputs=tuple(dict.fromkeys(outputs)),
    )
    return spliced.without_dead_code(cut.is_pure)


def _item_of(node: Node, results: Mapping[str, Arg]) -> Arg | None:
    """What a node takes out of a result that is known item by item."""
    match node.target, node.args:
        case "operator.getitem", (Ref(name), int(index)) if name in results:
            result = results[name]
            if not isinstance(result, tuple | list):  # the condition of a loop has one
                return result
            return result[index] if 0 <= index < len(result) else None
    return None

"""The pass that inlines bodies of higher-order operators: a branch for ``cond``, one round for a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.program.arguments import Arg, Code, Ref, map_leaves, refs_in, substitution
from minimizer.engine.program.model import BOUND, HIGHER_ORDER, Body, Input, Node, Program, TensorMeta
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.generators import Generator, generators
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

GETITEM = "operator.getitem"


def bodies(problem: ProgramProblem) -> None:
    """Inline a body in place of its higher-order operator.

    Invariant: when nothing changes, no body could be inlined.
    """
    problem.exhaust(opened, "open bodies")


def opened(program: Program) -> Iterator[Program | None]:
    """The program with one body inlined in place of its operator, for each body and call."""
    functions = {body.name: body for body in program.called}
    for node in program.nodes:
        prefix = _prefix(program, node)
        for call in (*_calls(node, prefix), *_scored(program, node, prefix)):
            if isinstance(call.function, Code) and call.function.text in functions:
                yield _spliced(program, node, functions[call.function.text], call, prefix)


def _prefix(program: Program, node: Node) -> str:
    """A prefix, unused by other names, for the names that come from inlining into a node."""
    prefix = f"{node.name}_"
    while any(name.startswith(prefix) for name in program.metas):
        prefix += "_"
    return prefix


@dataclass(frozen=True)
class _Call:
    """One call of a body that an operator makes; ``before`` and ``inputs``: nodes and inputs that make its operands."""

    function: Arg
    operands: Sequence[Arg]
    before: Sequence[Node] = ()
    inputs: Sequence[Input] = ()


def _calls(node: Node, prefix: str) -> Iterator[_Call]:
    """The calls of both branches; for a loop those of its first round, on the first row of scanned or mapped values."""
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
    """Calls of flex_attention's functions on one row of scores: all keys of the first query, in the first head."""
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
    """A function and the values bound to it by ``functools.partial``."""
    if not isinstance(function, Ref):
        return function, []
    node = next((node for node in program.nodes if node.name == function.name and node.target == BOUND), None)
    return (node.args[0], [value for _, value in node.kwargs]) if node is not None else (function, [])


def _first_rows(prefix: str, values: Sequence[Arg]) -> list[Node]:
    return [Node(f"{prefix}row_{index}", GETITEM, (value, 0)) for index, value in enumerate(values)]


def _spliced(program: Program, node: Node, body: Body, call: _Call, prefix: str) -> Program | None:
    """The program with the nodes of a body in place of a node; None if the operands do not match its parameters.

    The values inside are unknown, so no later cut can use one as golden input: all nodes lose their metadata.
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
    """The item that a ``getitem`` node takes from a result that is known item by item; None for other nodes."""
    match node.target, node.args:
        case "operator.getitem", (Ref(name), int(index)) if name in results:
            result = results[name]
            if not isinstance(result, tuple | list):  # the condition of a loop has one
                return result
            return result[index] if 0 <= index < len(result) else None
    return None

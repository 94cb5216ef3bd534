"""The pass that shrinks the bodies of higher-order operators, for failures that need the operator itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.program.arguments import Arg, Code, Ref, map_leaves, refs_in, substitution
from minimizer.engine.program.model import HIGHER_ORDER, Body, Node, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.passes.bodies import GETITEM
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def inner(problem: ProgramProblem) -> None:
    """Bypass the nodes of bodies, and drop operands that the failure does not need.

    Invariant: when nothing changes, no single node of a body could be bypassed, and no operand dropped.
    """
    problem.exhaust(leaner, "inside of bodies")


def leaner(program: Program) -> Iterator[Program | None]:
    """The program with one node less in a body, or one operand less of an operator, for each of these."""
    for body in program.called:
        for node in reversed(body.nodes):
            for value in dict.fromkeys(node.refs()):
                yield _with(program, [_bypassed(body, node, Ref(value))])
    for node in program.nodes:
        if (given := _operands(node)) is not None:
            for at in range(len(given.free)):
                yield _without_free(program, node, given, at)
            for at in range(len(given.carried)):
                yield _without_carried(program, node, given, at)


@dataclass(frozen=True)
class _Operands:
    """The operands passed to an operator's bodies, in the order of their parameters: a loop's ``carried`` values, then
    the rest.

    ``before``: parameters before the ``free`` ones. ``place``: the index of these among the operator's arguments.
    """

    bodies: tuple[Arg, ...]
    before: int
    free: Sequence[Arg]
    place: int
    carried: Sequence[Arg] = ()


def _operands(node: Node) -> _Operands | None:
    match node.target.removeprefix(HIGHER_ORDER), node.args:
        case "cond", (_, yes, no, [*free]):
            return _Operands((yes, no), 0, free, 3)
        case "while_loop", (condition, body, [*carried], [*free]):
            return _Operands((condition, body), len(carried), free, 3, carried)
        case "scan", (body, [*carried], [*scanned], [*free]):
            return _Operands((body,), len(carried) + len(scanned), free, 3)
        case "map_impl", (body, [*mapped], [*free]):
            return _Operands((body,), len(mapped), free, 2)
    return None


def _without_free(program: Program, node: Node, given: _Operands, at: int) -> Program | None:
    """The program without an operand; a body that reads it reads its first parameter instead."""
    parameter = given.before + at
    bodies = [_without_parameter(_leading(body, parameter), parameter) for body in _named(program, given.bodies)]
    return _calling(program, _without_item(node, given.place, at), bodies)


def _without_carried(program: Program, node: Node, given: _Operands, at: int) -> Program | None:
    """The program without a loop-carried value, if only its own next value depends on it and its last value is unused."""
    named = _named(program, given.bodies)
    if len(named) != 2 or len(given.carried) < 2 or not isinstance(named[1].result, tuple | list):
        return None
    condition, body = named
    result = type(body.result)(item for index, item in enumerate(body.result) if index != at)
    body = _pruned(replace(body, result=result))
    bodies = [_without_parameter(one, at) for one in (condition, body)]
    users = [one for one in program.nodes if node.name in one.refs()]
    if any(user.target != GETITEM or type(user.args[-1]) is not int or user.args[-1] == at for user in users):
        return None
    lower = [replace(user, args=(user.args[0], user.args[-1] - (user.args[-1] > at))) for user in users]
    return _calling(program, _without_item(node, 2, at), bodies, {user.name: user for user in lower})


def _named(program: Program, functions: Sequence[Arg]) -> list[Body]:
    known = {body.name: body for body in program.called}
    return [known[function.text] for function in functions if isinstance(function, Code) and function.text in known]


def _without_item(node: Node, place: int, at: int) -> Node:
    items = node.args[place]
    fewer = type(items)(item for index, item in enumerate(items) if index != at)
    return replace(node, args=(*node.args[:place], fewer, *node.args[place + 1 :]))


def _leading(body: Body, at: int) -> Body:
    """The body with its first parameter in place of the one at this index."""
    if not 0 < at < len(body.parameters):
        return body
    lead = substitution({body.parameters[at]: Ref(body.parameters[0])})
    return replace(body, nodes=tuple(node.mapped(lead) for node in body.nodes), result=map_leaves(body.result, lead))


def _without_parameter(body: Body, at: int) -> Body | None:
    """The body without an unread parameter; None if it is read or missing."""
    if at >= len(body.parameters):
        return None
    name = body.parameters[at]
    if any(name in node.refs() for node in body.nodes) or name in refs_in(body.result):
        return None
    return replace(body, parameters=(*body.parameters[:at], *body.parameters[at + 1 :]))


def _bypassed(body: Body, node: Node, value: Ref) -> Body:
    lead = substitution({node.name: value})
    nodes = tuple(other.mapped(lead) for other in body.nodes if other.name != node.name)
    return _pruned(replace(body, nodes=nodes, result=map_leaves(body.result, lead)))


def _pruned(body: Body) -> Body:
    live, kept = {*refs_in(body.result)}, list[Node]()
    for node in reversed(body.nodes):
        if node.name in live or not cut.is_pure(node):
            kept.append(node)
            live.update(node.refs())
    return replace(body, nodes=tuple(reversed(kept)))


def _calling(
    program: Program, node: Node, bodies: Sequence[Body | None], users: dict[str, Node] | None = None
) -> Program | None:
    """The program with this node and these bodies in place of those of the same names, without nodes that only its
    operands needed.
    """
    changed = {node.name: node, **(users or {})}
    nodes = tuple(changed.get(other.name, other) for other in program.nodes)
    found = _with(replace(program, nodes=nodes), bodies)
    return found and found.without_dead_code(cut.is_pure)


def _with(program: Program, bodies: Sequence[Body | None]) -> Program | None:
    """The program with these bodies in place of those of the same names; None if one is None."""
    if not bodies or None in bodies:
        return None
    changed = {body.name: body for body in bodies if body is not None}
    return replace(program, bodies=tuple(changed.get(body.name, body) for body in program.bodies))

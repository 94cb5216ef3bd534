"""Edits of programs: keep, drop or bypass nodes, outputs and inputs. Pure functions, without the oracle."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from minimizer.engine.program.arguments import Arg, Ref, refs_in, substitution
from minimizer.engine.program.model import FLEX_ATTENTION, LAUNCH, Input, Node, Program, TensorMeta, related

_IN_PLACE_OPERATOR = re.compile(
    r"operator\.(setitem|delitem|i(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift|concat))$"
)
_MUTATING = re.compile(r"[A-Za-z0-9]_$")
_STATEFUL = re.compile(
    r"\.(_?set_|_?enter_|_?exit_|_?assert|_?_enter|_?_exit|print|_?sym_constrain|manual_seed"
    r"|_\w+_(increment|decrement)_nesting|_?\w*_hooks_(disable|enable)|_?\w*lazy_load_|_maybe_load_)"
)


MOST_ANCESTORS = 1_000_000
"""Most ancestors that `bypass` keeps in memory; each node may need as many as there are nodes before it."""


def is_pure(node: Node) -> bool:
    """Whether a node has no side effects: it mutates no tensor and changes no global state."""
    if node.target == LAUNCH or _IN_PLACE_OPERATOR.match(node.target) or any(key == "out" for key, _ in node.kwargs):
        return False
    if any(_MUTATING.search(part) for part in node.target.split(".")):
        return False
    return not (node.meta is None and _STATEFUL.search("." + node.target))


def keep(program: Program, names: Collection[str]) -> Program | None:
    """The program of only these nodes; a value that they use from a dropped node becomes a golden input.

    The program's results of flex_attention stay with it: unrequested ones are undefined. A dropped node without tensor
    metadata cannot become an input, so it is kept after all. Outputs are the remaining ones of the program, and every
    value that has become unused. None if nothing is left.
    """
    kept = set(names)
    nodes = {node.name: node for node in program.nodes}
    kept.update(node.name for node in program.nodes if _taken_of_attention(node, nodes) in kept)
    for node in reversed(program.nodes):
        if node.name in kept:
            kept.update(ref for ref in node.refs() if ref in nodes and nodes[ref].meta is None)
    body = _without_idle_numbers([node for node in program.nodes if node.name in kept], program.outputs)
    kept = {node.name for node in body}
    used = {ref for node in body for ref in node.refs()}
    outputs = _outputs(program, body, used)
    if not body:
        return None
    moments = _moments(program, kept)
    inputs = [_at(i, moments) for i in program.inputs if i.name in used or i.name in outputs]
    inputs += [
        _at(Input(node.name, meta=node.meta, golden=node.name), moments)
        for node in program.nodes
        if node.name in used and node.name not in kept
    ]
    return replace(program, inputs=related(inputs), nodes=body, outputs=outputs)


def drop(program: Program, names: Collection[str]) -> Program | None:
    """The program without these nodes; see `keep`."""
    gone = set(names)
    return keep(program, [node.name for node in program.nodes if node.name not in gone])


def bypass(program: Program, names: Collection[str], *, choice: int = -1) -> Program | None:
    """Bypass these nodes: users of one now use an ancestor of it with the same shape, dtype and device.

    ``choice`` picks among several such ancestors, in order of definition. A node without one (the first of its shape)
    stays if it is needed, and serves as the ancestor for later ones. None if nothing is left, or if there are more than
    `MOST_ANCESTORS` to choose from.
    """
    nodes = {node.name: node for node in program.nodes}
    run = set(names) - {node.name for node in program.nodes if _taken_of_attention(node, nodes)}  # see `keep`
    held = 0
    metas = program.metas
    blind = all(node.meta is None for node in program.nodes)
    order = {name: index for index, name in enumerate(metas)}
    ancestors: dict[str, set[str]] = {}
    instead: dict[str, str] = {}
    for node in program.nodes:
        if node.name not in run:
            continue
        reached: set[str] = set()
        for ref in node.refs():
            reached |= ancestors[ref] if ref in run else {ref}
        alike = sorted((r for r in reached if _alike(metas[node.name], metas[r], blind)), key=order.__getitem__)
        if alike:
            instead[node.name] = alike[choice % len(alike)]
        else:
            reached.add(node.name)
        ancestors[node.name] = reached
        held += len(reached)
        if held > MOST_ANCESTORS:
            return None

    lead = substitution({name: Ref(other) for name, other in instead.items()})
    outputs = tuple(dict.fromkeys(instead.get(name, name) for name in program.outputs))
    own = {i.name for i in program.inputs} - set(program.outputs)
    result = replace(
        program,
        nodes=tuple(node.mapped(lead) for node in program.nodes),
        outputs=tuple(name for name in outputs if name not in own),
    ).without_dead_code(lambda node: node.name in run or is_pure(node))
    return result if result.nodes else None


def constants(program: Program, names: Collection[str]) -> Program | None:
    """The program with constants for these nodes, whose values are plain numbers; None if that leaves no output."""
    values = {node.name: node.number for node in program.nodes if node.name in names and node.number is not None}
    outputs = tuple(name for name in program.outputs if name not in values)
    if not values or (program.outputs and not outputs):
        return None
    return substitute(replace(program, outputs=outputs), values).without_dead_code(is_pure)


def select_outputs(program: Program, names: Collection[str]) -> Program | None:
    """The program with only these outputs, without nodes that only the others needed; None if nothing is left."""
    chosen = tuple(name for name in program.outputs if name in set(names))
    result = replace(program, outputs=chosen).without_dead_code(is_pure)
    return result if result.nodes else None


def substitute(program: Program, values: dict[str, Arg]) -> Program:
    """The program with inputs replaced by other values: a `Ref`, or a constant."""
    return replace(
        program,
        inputs=related(i for i in program.inputs if i.name not in values),
        nodes=tuple(node.mapped(substitution(values)) for node in program.nodes),
    )


def _without_idle_numbers(body: list[Node], outputs: Collection[str]) -> tuple[Node, ...]:
    """The nodes without unused numbers: a window must not return them as outputs."""
    used = set(outputs)
    left: list[Node] = []
    for node in reversed(body):
        if node.number is None or node.name in used or not is_pure(node):
            left.append(node)
            used.update(node.refs())
    return tuple(reversed(left))


def _taken_of_attention(node: Node, nodes: Mapping[str, Node]) -> str:
    """The flex_attention whose result the node selects; empty for other nodes."""
    source = nodes.get(next(node.refs(), "")) if node.target == "operator.getitem" else None
    return source.name if source is not None and source.target == FLEX_ATTENTION else ""


def _alike(wanted: TensorMeta | None, have: TensorMeta | None, blind: bool) -> bool:
    """Whether one value can replace the other: same shape, dtype and device; any, if metadata is gone (``blind``)."""
    if wanted is None or have is None:
        return blind
    return (wanted.shape, wanted.dtype, wanted.device) == (have.shape, have.dtype, have.device)


def _outputs(program: Program, body: tuple[Node, ...], used: Collection[str]) -> tuple[str, ...]:
    """The remaining outputs of the program, then unused values; for a node that only mutates, the mutated value."""
    here = {node.name for node in body}
    outputs = [name for name in program.outputs if name in here]
    for node in body:
        if node.name in used:
            continue
        if node.meta is not None or is_pure(node):
            outputs.append(node.name)
        elif node.target == LAUNCH:
            outputs += [ref for ref in node.refs() if ref in here]
        elif node.args:
            outputs += [ref for ref in refs_in(node.args[0]) if ref in here]
    return tuple(dict.fromkeys(outputs))


def _moments(program: Program, kept: Collection[str]) -> dict[str, str]:
    """For each value that a dropped node may have mutated before its first kept use, the node of that use."""
    defined = {i.name: -1 for i in program.inputs}
    mutated = -1
    moments: dict[str, str] = {}
    seen: set[str] = set()
    for index, node in enumerate(program.nodes):
        if node.name in kept:
            for ref in node.refs():
                if ref not in seen and defined[ref] < mutated:
                    moments[ref] = node.name
                seen.add(ref)
        elif not is_pure(node):
            mutated = index
        defined[node.name] = index
    return moments


def _at(item: Input, moments: dict[str, str]) -> Input:
    """The input with its golden value as of its first use, if it may have been mutated before."""
    if item.golden is None or item.name not in moments:
        return item
    return replace(item, golden=f"{item.golden.partition('@')[0]}@{moments[item.name]}")

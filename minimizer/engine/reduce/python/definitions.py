"""Polishes a repro: reduces the definitions of passes, backends and operators in its setup.

They come as the script has them, one definition for each setup line. Each is reduced like a script, statement by
statement, with the oracle of the graph. Lines that only served removed code go too, and a function of one expression
becomes a ``lambda`` where it is used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code
from minimizer.engine.program.model import Node, Program
from minimizer.engine.reduce.python import Source, inline, reduce_definitions
from minimizer.engine.user_script.syntax import names_read
from minimizer.errors import BudgetExceeded, Cancelled

Check = Callable[[Sequence[Program]], Sequence[bool]]
WIDTH = 84
"""Most characters of a statement with a ``lambda`` in it: the repro indents it, and a longer one would be wrapped."""


def polish(program: Program, check: Check, *, jobs: int = 1, watch: Callable[[], None] = lambda: None) -> Program:
    """Remove code inside the definitions of ``program.setup`` that the failure does not need.

    If ``check`` or ``watch`` raises BudgetExceeded or Cancelled, the program polished so far is returned.
    """
    program = replace(program, setup=render.setup(program), bodies=())
    for text in program.setup:
        source = Source.parse(text)
        if source.level(1):
            program = _polished(program, program.setup.index(text), source, check, jobs, watch)
    with suppress(BudgetExceeded, Cancelled):
        for change in (_without_unread, _with_lambda, _without_future):
            for text in program.setup:
                candidate = change(program, text) if text in program.setup else None
                if candidate is not None and check([candidate])[0]:
                    program = candidate
        for node in program.nodes:
            candidate = _with_lambdas(program, node)
            if candidate is not None and check([candidate])[0]:
                program = candidate
    return program


def _without_unread(program: Program, text: str) -> Program | None:
    """The program without the part of ``a, b = c, d`` whose name is never read; None for any other line."""
    source = Source.parse(text)
    names = inline.variables(source)
    unread = [name for name in names if name not in _read(program.setup) and not _elsewhere(program, name)]
    shorter = inline.with_inlined(source, unread[0]) if unread and len(names) > 1 else None
    return _changed(program, {text: shorter.text.rstrip()}) if shorter is not None else None


def _without_future(program: Program, text: str) -> Program | None:
    """The program without an import from ``__future__``, which shows only where it is needed; None for any other line."""
    return _changed(program, {text: ""}) if text.startswith(render.FUTURE) else None


def _with_lambda(program: Program, text: str) -> Program | None:
    """The program with a function of one expression as a ``lambda`` in the only line that uses it; else None."""
    definition = next(iter(ast.parse(text).body), None)
    if not isinstance(definition, ast.FunctionDef) or _elsewhere(program, definition.name):
        return None
    users = [line for line in program.setup if definition.name in _read([line])]
    if len(users) != 1:
        return None
    shorter = inline.with_lambda(Source.parse(f"{text}\n{users[0]}"), definition.name)
    if shorter is None or len(line := shorter.text.rstrip()) > WIDTH:
        return None
    return _changed(program, {text: "", users[0]: line})


def _with_lambdas(program: Program, node: Node) -> Program | None:
    """The program with a call's function arguments as lambdas; None if not all can be, or the call becomes too long."""
    definitions = {
        d.name: text for text in program.setup for d in ast.parse(text).body if isinstance(d, ast.FunctionDef)
    }
    uses = [leaf.text for other in program.nodes for leaf in other.leaves() if isinstance(leaf, Code)]
    given = [leaf.text for leaf in node.leaves() if isinstance(leaf, Code) and leaf.text in definitions]
    lambdas = {Code(name): _lambda(definitions[name]) for name in given}
    if not given or None in lambdas.values() or any(uses.count(n) > 1 or n in _read(program.setup) for n in given):
        return None
    changed = node.mapped(lambda leaf: Code(lambdas.get(leaf) or leaf.text) if isinstance(leaf, Code) else leaf)
    if len(render.statement(changed)) > WIDTH:
        return None
    nodes = tuple(changed if other is node else other for other in program.nodes)
    return _changed(replace(program, nodes=nodes), {definitions[name]: "" for name in given})


def _lambda(text: str) -> str | None:
    """A function of one expression as a ``lambda``; None for other definitions."""
    (definition,) = ast.parse(text).body
    function = inline.as_lambda(definition) if isinstance(definition, ast.FunctionDef) else None
    return ast.unparse(function) if function is not None else None


def _elsewhere(program: Program, name: str) -> bool:
    """Whether a name may be read outside of the setup: by an input, an argument of ``torch.compile``, or a call."""
    texts = [text for _, text in program.compile_kwargs]
    texts += [item.code or "" for item in program.inputs] + [node.target for node in program.nodes]
    texts += [leaf.text for node in program.nodes for leaf in node.leaves() if isinstance(leaf, Code)]
    return any(re.search(rf"(?<![\w.]){re.escape(name)}\b", text) for text in texts)


def _changed(program: Program, lines: dict[str, str]) -> Program:
    """The program with these setup lines replaced; an empty text removes a line."""
    setup = [line for line in (lines.get(text, text) for text in program.setup) if line]
    return replace(program, setup=tuple(_without_orphans(program.setup, setup)))


def _polished(
    program: Program, index: int, source: Source, check: Check, jobs: int, watch: Callable[[], None]
) -> Program:
    before, after = program.setup[:index], program.setup[index + 1 :]

    def holding(candidate: Source) -> Program:
        setup = _without_orphans(program.setup, [*before, candidate.text.rstrip(), *after])
        return replace(program, setup=tuple(setup))

    smallest = reduce_definitions(
        source, check=lambda sources: check([holding(s) for s in sources]), jobs=jobs, watch=watch
    )
    return program if smallest is source else holding(smallest)


def _without_orphans(old: Sequence[str], new: Sequence[str]) -> Sequence[str]:
    """The lines of ``new`` without imports and assignments whose names ``old`` reads and ``new`` does not."""
    orphans = _read(old) - _read(new)
    kept = [line for line in new if not (_bound(line) and _bound(line) <= orphans)]
    return new if len(kept) == len(new) else _without_orphans(old, kept)


def _bound(line: str) -> set[str]:
    """The names that an import or a plain assignment binds; empty for any other line."""
    statement = next(iter(ast.parse(line).body), None)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _read(lines: Sequence[str]) -> set[str]:
    nodes = [node for line in lines for node in ast.walk(ast.parse(line))]
    return set(names_read(nodes))

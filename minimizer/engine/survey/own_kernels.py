"""Brings the Triton kernels of modules beside the script into a program, as definitions of its own: a repro has no modules beside it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from minimizer.engine.program.arguments import Arg, Code
from minimizer.engine.program.model import LAUNCH, Node, Program
from minimizer.engine.user_script.slice import names_bound, prelude
from minimizer.errors import Busy, InvalidScript
from minimizer.script_text import MAX_SCRIPT_BYTES, check_script


def with_own_kernels(program: Program, folder: Path) -> Program:
    """The program with the kernels that it launches from modules in ``folder``, and what these need, in its setup.

    A kernel of an installed package is imported, and so is one whose module binds a name that the setup binds to something else.
    """
    for kernel in sorted(program.kernels):
        module, _, name = kernel.rpartition(".")
        text = _text_of(module, folder) if module else None
        if text is None:
            continue
        chunks = prelude(text, settings=(), namespaces=(), names=[name])
        rest = [line for line in program.setup if line != f"import {module}" and line not in chunks]
        if not chunks or _bound(chunks) & _bound(rest):
            continue
        program = replace(
            program,
            setup=(*chunks, *rest),
            nodes=tuple(_renamed(node, kernel, name) if node.target == LAUNCH else node for node in program.nodes),
        )
    return program


def _text_of(module: str, folder: Path) -> str | None:
    """The text of a module in the folder; None for any other module. Its name comes from the far side of the sandbox."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    file = folder.joinpath(*parts).with_suffix(".py")
    try:
        if not file.resolve().is_relative_to(folder.resolve()) or file.stat().st_size > MAX_SCRIPT_BYTES:
            return None
        return check_script(file.read_bytes(), file.name)  # as a script is, since it is parsed here
    except (OSError, Busy, InvalidScript):
        return None


def _bound(lines: list[str] | tuple[str, ...]) -> set[str]:
    return {name for line in lines for statement in ast.parse(line).body for name in names_bound(statement)}


def _renamed(node: Node, kernel: str, name: str) -> Node:
    first, *rest = node.args
    assert isinstance(first, Code)
    launched, bracket, grid = first.text.partition("[")
    args: tuple[Arg, ...] = (Code(f"{name if launched == kernel else launched}{bracket}{grid}"), *rest)
    return replace(node, args=args)

"""Copies Triton kernels from modules next to the script into a program: a repro has no such modules."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.program.arguments import Arg, Code
from minimizer.engine.program.model import LAUNCH, Node, Program
from minimizer.engine.user_script.slice import names_bound, names_used, prelude
from minimizer.errors import Busy, InvalidScript
from minimizer.script_text import MAX_SCRIPT_BYTES, check_script


def with_own_kernels(program: Program, folder: Path) -> Program:
    """The program with the definitions of kernels that it launches from modules in ``folder``, and their needs, in its
    setup.

    A kernel stays imported if it belongs to an installed package, if its module binds a name that the setup binds to
    something else, or if it needs another module of the folder.
    """
    for kernel in sorted(program.kernels):
        module, _, name = kernel.rpartition(".")
        text = _text_of(module, folder) if module else None
        if text is None:
            continue
        try:
            chunks = prelude(text, settings=(), namespaces=(), names=[name])
            program = _with(program, kernel, chunks, folder) if chunks else program
        except (
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
        ):  # setup and module are untrusted input from the sandbox
            continue
    return program


def with_kernel_names(program: Program, names: Mapping[str, str]) -> Program:
    """The program with its launched kernels renamed."""
    return replace(
        program,
        nodes=tuple(_renamed(node, names) for node in program.nodes),
        bodies=tuple(
            replace(body, nodes=tuple(_renamed(node, names) for node in body.nodes)) for body in program.bodies
        ),
    )


def _with(program: Program, kernel: str, chunks: Sequence[str], folder: Path) -> Program:
    """The program with a kernel's definition in its setup; unchanged if the definition alone does not suffice."""
    module, _, name = kernel.rpartition(".")
    rest = [line for line in program.setup if line not in chunks]
    if _bound(chunks) & _bound(rest) or any(_needs_a_neighbour(line, folder) for line in chunks):
        return program
    renamed = with_kernel_names(program, {kernel: name})
    reads_it = any(other.startswith(f"{module}.") for other in renamed.kernels)
    root, own_import = module.partition(".")[0], f"import {module}"
    reads_it = reads_it or any(root in names_used(line) for line in rest if line != own_import)
    return replace(renamed, setup=(*chunks, *(line for line in rest if reads_it or line != own_import)))


def _text_of(module: str, folder: Path) -> str | None:
    """The text of a module in the folder; None for any other module. The name is untrusted input from the sandbox."""
    file = _file_of(module, folder)
    try:
        if file is None or file.stat().st_size > MAX_SCRIPT_BYTES:
            return None
        return check_script(file.read_bytes(), file.name)  # checked like a script, since it is parsed here
    except (OSError, Busy, InvalidScript):
        return None


def _file_of(module: str, folder: Path) -> Path | None:
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    file = folder.joinpath(*parts).with_suffix(".py")
    return file if file.is_file() and file.resolve().is_relative_to(folder.resolve()) else None


def _needs_a_neighbour(line: str, folder: Path) -> bool:
    """Whether a statement imports another module of the folder, which neither a trial nor a repro has."""
    for statement in ast.parse(line).body:
        if isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
            if statement.level:
                return True
        elif isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            continue
        if any((folder / name.partition(".")[0]).is_dir() or _file_of(name, folder) for name in names if name):
            return True
    return False


def _bound(lines: Sequence[str]) -> set[str]:
    return {name for line in lines for statement in ast.parse(line).body for name in names_bound(statement)}


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    first = node.args[0] if node.target == LAUNCH else None
    if not isinstance(first, Code):
        return node
    kernel, bracket, grid = first.text.partition("[")
    args: tuple[Arg, ...] = (Code(f"{names.get(kernel, kernel)}{bracket}{grid}"), *node.args[1:])
    return replace(node, args=args)

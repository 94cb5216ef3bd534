"""Adds to a program the statements of its script, and of neighbouring modules, that it depends on beyond literal
settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from minimizer.engine.program.model import Program
from minimizer.engine.survey.inline_backend import inline_backend
from minimizer.engine.survey.linked_names import under_linked_names
from minimizer.engine.survey.own_kernels import with_own_kernels
from minimizer.engine.user_script.bundle import bundle
from minimizer.engine.user_script.slice import namespaces_of, prelude


def with_prelude(
    program: Program, script: Path, settings: Iterable[object], *, has_inline_backend: bool = False
) -> Program:
    """The program with its prelude; unchanged if the script has removed or rewritten its own file.

    Args:
        settings: dotted names of settings whose values are objects of the script's.
        has_inline_backend: whether its backend has no name in the script. If the script's text does not show which
            backend that is, the program has none.
    """
    try:
        whole = bundle(script)
        program = under_linked_names(program, whole.names)
        arguments = (name for _, value in program.compile_kwargs for name in re.findall(r"[^\W\d]\w*", value))
        backend = inline_backend(whole.text) if has_inline_backend else None
        chunks = prelude(
            whole.text,
            settings=map(str, settings),
            namespaces=namespaces_of(node.target for node in program.every_node),
            names=[*arguments, *program.kernels, *(backend.reads if backend is not None else ())],
        )
        if backend is not None:
            program = replace(program, compile_kwargs=(*program.compile_kwargs, ("backend", backend.name)))
            chunks = (*chunks, backend.binding) if backend.binding else chunks
    except (OSError, SyntaxError, UnicodeDecodeError):
        return program
    return with_own_kernels(replace(program, setup=(*chunks, *program.setup)), script.parent)

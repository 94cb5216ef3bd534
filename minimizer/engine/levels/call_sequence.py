"""Writes a script for a call that fails only after earlier calls: those calls, then a check of the failing one.

A graph compiled for one call may be wrong for a later one, for instance if the inputs of that alias differently.
Compiled first for that call it is right, so no program of a single call shows the failure. The script repeats the calls
of the graph and asserts what the comparison found; then it is reduced like a user's script.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

from minimizer.engine.child.protocol import MadeCall
from minimizer.engine.emit.inputs import changed, draws, is_random_code
from minimizer.engine.oracle.oracle import HEADER
from minimizer.engine.program import render
from minimizer.engine.program.model import Input, Program

CONSTANTS = "constants"
"""The module from which compiled code reads frozen inputs."""


def as_script(program: Program, calls: Sequence[MadeCall]) -> str | None:
    """The script that makes ``calls`` of a program, the last of which fails.

    None for fewer than two calls, for an input without source text, and if the result is not valid Python.
    """
    originals, program = program.inputs, program.as_compiled().renamed()
    made = [values_of(originals, call) for call in calls]
    if len(calls) < 2 or any(value is None for values in made for value in values):
        return None
    *earlier, last = calls
    lines: list[str] = []
    if program.freezes:
        puts = _puts(program, calls, made)
        made = [_reading(program, values) for values in made]
    else:
        puts = [[] for _ in calls]
    arguments = [", ".join(value for value in values if value is not None) for values in made]
    for call, values, put in zip(earlier, arguments, puts, strict=False):
        lines += [*call.statements, *put, f"compiled({values})"]
    if program.freezes:  # what is written to constants may need these, so that they do not go into the check
        lines, last = [*lines, *last.statements, *puts[-1]], MadeCall(values=last.values)
    text = written(program, arguments, [*lines, *check(program, last, arguments[-1], made[-1])])
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):  # the child is untrusted
        return None
    return text


def written(program: Program, arguments: Sequence[str], calls: Sequence[str]) -> str:
    """The script that compiles a program ``f`` as ``compiled`` and then runs the statements ``calls``.

    ``arguments``: those of the calls, as source text.
    """
    options = "".join(f", {key}={value}" for key, value in program.compile_kwargs)
    # A program without gradients may write in place to what requires one, and freezes its constants.
    is_off = not program.grad and (program.freezes or any("requires_grad_" in values for values in arguments))
    function = render.reading_constants(program, "f", CONSTANTS) if program.freezes else "f"
    body = [
        *render.setup(program),
        render.function(program, "f"),
        *(["torch.set_grad_enabled(False)"] if is_off else []),
        f"compiled = torch.compile({function}{options})",
        *calls,
    ]
    return render.behind("\n".join(imports("\n".join(body))), [*body, ""])


def _puts(program: Program, calls: Sequence[MadeCall], made: Sequence[Sequence[str | None]]) -> list[list[str]]:
    """For each call, the statements that give the constants their values: made for the first call, later written in place.

    A constant whose text stays the same is not written, unless that text may mean another value than before.
    """
    puts = [[f"{CONSTANTS} = torch.nn.Module()"], *([] for _ in calls[1:])]
    for index, item in enumerate(program.inputs):
        before: str | None = None
        for call, values, put in zip(calls, made, puts, strict=True):
            value = values[index] or ""
            if item.frozen and before is None:
                put.append(f"{CONSTANTS}.{item.name} = {value}")
            elif item.frozen and (value != before or call.statements or is_random_code([value])):
                put.append(f"{CONSTANTS}.{item.name}.copy_({value})")
            before = value
    return puts


def _reading(program: Program, values: Sequence[str | None]) -> list[str | None]:
    """The values of a call, with those of frozen inputs read from the module."""
    return [
        f"{CONSTANTS}.{item.name}" if item.frozen else value for item, value in zip(program.inputs, values, strict=True)
    ]


def check(
    program: Program, call: MadeCall, arguments: str, values: Sequence[str | None], tolerance: str = ""
) -> list[str]:
    """Statements that compare the last call, mutated inputs included, with eager; each side gets fresh inputs.

    Args:
        program: the graph.
        call: the last call.
        arguments: the arguments of the call, as source text.
        values: the same, one by one.
        tolerance: further arguments of ``assert_close``.
    """
    options = f", {tolerance}" if tolerance else ""
    seed = ["torch.manual_seed(0)"] if is_random_code([*call.statements, arguments]) or draws(program) else []
    if changed(program):
        names = ", ".join(item.name for item in program.inputs)
        binding = [f"{item.name} = {value}" for item, value in zip(program.inputs, values, strict=True)]
        lines = [*seed, *call.statements, *binding, f"return f({names}), {names}"]
    else:
        lines = [*seed, *call.statements, f"return f({arguments})"]
    if len(lines) == 1:
        return [f"torch.testing.assert_close(compiled({arguments}), f({arguments}){options})"]
    body = textwrap.indent("\n".join(lines), "    ")
    return [f"def call(f):\n{body}", f"torch.testing.assert_close(call(compiled), call(f){options})"]


def imports(text: str) -> list[str]:
    """The import lines that a text needs; ``import torch`` always."""
    known = {line.split()[-1]: line for line in HEADER.splitlines() if line}
    return [line for name, line in known.items() if name == "torch" or re.search(rf"\b{name}\.", text)]


def compiled_anew(text: str) -> str:
    """The script with a ``torch._dynamo.reset()`` before its last statement, so that this statement is compiled anew.

    The script turns the on-disk caches off. If it still fails, the earlier calls are not the cause.
    """
    *before, last = ast.parse(text).body
    return "\n".join([*map(ast.unparse, before), "torch._dynamo.reset()", ast.unparse(last)]) + "\n"


def values_of(inputs: Sequence[Input], call: MadeCall) -> list[str | None]:
    """An expression for each input; the program's own number if Dynamo wrapped a number in a tensor for the call."""
    values: list[str | None] = []
    for item in inputs:
        value = call.values.get(item.name)
        is_wrapped = item.code is not None and (value is None or value.startswith("torch."))
        values.append(item.code if is_wrapped else value)
    return values

"""``python -m minimizer.captured FOLDER [LOCK ARGS...]``: from a graph saved by the dynamo backend to a script.

The folder contains ``capture.json`` and ``inputs.pt`` (`minimizer/inside/backend/saved.py`); ``graph.py`` is written
next to them. It runs standalone, and fails as the graph did. With LOCK, a file, it is then reduced as by ``minimizer
run graph.py ARGS``, once the lock is free: one reduction at a time for all started by a program.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.program import render, views
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.survey.prelude import with_prelude

CAPTURE, TENSORS, SCRIPT = "capture.json", "inputs.pt", "graph.py"
RNG = "random state"
NICE = 10
BACKWARD = """
if not isinstance(outputs, tuple):
    outputs = (outputs,)
outputs = [output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad]
torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
"""


def write_script(folder: Path) -> Path:
    """Write ``graph.py``.

    Raises:
        ChildFailed: ``capture.json`` is malformed.
    """
    saved = json.loads((folder / CAPTURE).read_text())
    about = saved["about"]
    program = with_prelude(parse_program(saved["program"]), Path(about["program"]), about["opaque"])
    script = folder / SCRIPT
    script.write_text(_text(program.as_compiled(), about))
    return script


def _text(program: Program, about: dict[str, Any]) -> str:
    roots = {path.partition(".")[0] for path in (node.target for node in program.nodes) if "." in path[1:]}
    imports = sorted({"functools", "math", "operator", *roots} - {"", "torch"})
    moment = "while it is compiled" if about["call"] < 0 else f"in call {about['call']}"
    header = f"A graph of {Path(about['program']).name}, as torch.compile captured it: {about['kind']} {moment}."
    statements = [_commented(node) for node in program.nodes]
    if program.outputs:
        statements.append(f"return {', '.join(program.outputs)}")
    lines = [
        f"# {header}",
        *textwrap.wrap(about["what"], 118, initial_indent="# ", subsequent_indent="# "),
        *(f"import {name}" for name in imports),
        "from pathlib import Path",
        "",
        "import torch",
        "import torch.nn.functional as F",
        "",
        *render.setup(program),
        "",
        "",
        f"def graph({', '.join(item.name for item in program.inputs)}):",
        textwrap.indent("\n".join(statements) or "pass", "    "),
        "",
        "",
        f'saved = torch.load(Path(__file__).with_name("{TENSORS}"), weights_only=True)',
        f'torch.set_rng_state(saved["{RNG}"])',
        f"inputs = [{', '.join(map(_value, program.inputs))}]",
        *_views(program),
        f"compiled = torch.compile(graph{''.join(f', {name}={value}' for name, value in program.compile_kwargs)})",
        f"with torch.set_grad_enabled({program.grad}):",
        "    outputs = compiled(*inputs)",
    ]
    return "\n".join(lines) + "\n" + (BACKWARD if about["backward"] else "")


def _commented(node: Node) -> str:
    """The statement, with its place in the user's program: a report quotes the line unchanged."""
    places = [node.module, f"{Path(node.source[0]).name}:{node.source[1]}" if node.source else ""]
    comment = ", ".join(" ".join(place.split()) for place in places if place)
    return f"{render.statement(node)}  # {comment}" if comment else render.statement(node)


def _value(item: Input) -> str:
    return f'saved["{item.golden}"]' if item.golden is not None else str(item.code)


def _views(program: Program) -> Iterator[str]:
    """Statements that derive views from their saved bases; saved views only share memory with them."""
    places = {item.name: f"inputs[{index}]" for index, item in enumerate(program.inputs)}
    for item in program.inputs:
        if item.view is not None:
            made = views.text(replace(item.view, of=places[item.view.of]))
            yield f"{places[item.name]} = {made}"


def main() -> None:
    if len(sys.argv) < 2 or not (folder := Path(sys.argv[1])).joinpath(CAPTURE).is_file():
        sys.exit(f"Name a folder that the minimizer backend has written: it holds {CAPTURE}.")
    script = write_script(folder)
    if len(sys.argv) == 2:
        return
    os.nice(NICE)
    lock = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)  # held until the reduction has ended
    command = [sys.executable, "-m", "minimizer", "run", str(script), "--out", str(folder), *sys.argv[3:]]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()

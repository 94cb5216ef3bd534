"""Helpers for traces: a small script's flat program, and what it computes when it is run in eager by itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from children import SECONDS, script

from minimizer.engine.child.executor import Executor
from minimizer.engine.outer.program import Event, OuterProgram
from minimizer.engine.outer.runs import Tracing, trace
from minimizer.engine.outer.write import whole

SAYS = "\nraise ValueError(str(result.tolist()))\n"
"""The end of a script that says its result."""


def traced(child: Executor, home: Path, text: str) -> Tracing:
    """The trace of a script with this text, which begins with ``import torch``."""
    return trace(child, script(home, f"import torch\nimport torch.nn.functional as F\n{text}"), [], timeout=SECONDS)


def program_of(tracing: Tracing) -> OuterProgram:
    assert tracing.program is not None, (tracing.outcome.exception, tracing.outcome.log)
    return tracing.program


def said(tracing: Tracing) -> Any:
    """The result that the script has said at its end."""
    error = tracing.outcome.exception
    assert error is not None
    assert error.root_type == "ValueError", error
    return ast.literal_eval(error.root_message)


def text_of(tracing: Tracing, folder: Path) -> Path:
    """The program as a file, with its data beside it."""
    path = folder / "flat.py"
    path.write_text(whole(program_of(tracing), title="A program.", script=path.name, data="flat.pt"))
    if tracing.file.exists():
        (folder / "flat.pt").write_bytes(tracing.file.read_bytes())
    return path


def run_in_eager(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a written program as ``python flat.py eager`` would; its names."""
    monkeypatch.setattr(sys, "argv", [str(path), "eager"])
    names: dict[str, Any] = {"__file__": str(path), "__name__": "__main__"}
    dtype, state = torch.get_default_dtype(), torch.get_rng_state()
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
    finally:
        torch.compiler.set_stance("default")
        torch.set_default_dtype(dtype)
        torch.set_rng_state(state)
    return names


def event(program: OuterProgram, part: str) -> Event:
    """The first event with this text in it."""
    return next(event for event in program.events if part in event.code)

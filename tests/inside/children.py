"""Helpers for tests that run the real sandboxed child."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.survey import Survey
from minimizer.inside.questions import GivenInput, SurveyRequest, TrialRequest
from minimizer.sandbox import choose_sandbox, real_interpreter, runtime_paths

SECONDS = 200.0
"""Longer than anything here takes, even on a busy machine."""


def place(scratch: Path, *read: Path, env: dict[str, str] | None = None) -> Place:
    """Where the tests' children run: our own interpreter, the sandbox of this machine."""
    python = real_interpreter(Path(sys.executable))
    return Place(
        python=python,
        sandbox=choose_sandbox("auto"),
        scratch=scratch,
        read=[*runtime_paths(python), *read],
        env=env or {},
    )


def executor(scratch: Path, *read: Path, env: dict[str, str] | None = None) -> Executor:
    """A started executor."""
    started = Executor(place(scratch, *read, env=env), jobs=2, watch=lambda: None)
    started.start()
    return started


def trial(body: str, *, setup: str = "", inputs: dict[str, str] | None = None, **changes: Any) -> TrialRequest:
    """A request to judge ``def f(...)`` with this body; ``inputs`` are expressions by name."""
    inputs = {"x": "torch.ones(4)"} if inputs is None else inputs
    lines = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    request = TrialRequest(
        setup=f"import os\nimport torch\n{dedent(setup)}",
        source=f"def f({', '.join(inputs)}):\n{lines}",
        name="f",
        inputs=[GivenInput(name=name, code=code) for name, code in inputs.items()],
        compile_kwargs="backend='eager'",
    )
    return replace(request, **changes)


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    """Write a user's script."""
    path = folder / name
    path.write_text(dedent(text))
    return path


def survey(child: Executor, path: Path, *args: str, **changes: Any) -> Survey:
    """Run a script in the child."""
    return child.survey(SurveyRequest(script=str(path), args=args, **changes), timeout=SECONDS)

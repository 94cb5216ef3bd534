"""Helpers for tests that run the real sandboxed child."""

from __future__ import annotations

import fcntl
import sys
import tempfile
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent
from typing import Any

from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.headers import NO_HEADERS, Headers
from minimizer.engine.child.survey import Survey
from minimizer.inside.questions import GivenInput, SurveyRequest, TrialRequest
from minimizer.sandbox import choose_sandbox, real_interpreter, runtime_paths

SECONDS = 200.0
"""Longer than anything here takes, even on a busy machine."""
BUILT = Path(__file__).parents[2] / "build" / "headers"
"""Not in the user's cache folder: jobs of other checkouts remove there what they do not use."""


def place(scratch: Path, *read: Path, env: dict[str, str] | None = None) -> Place:
    """Where the tests' children run: our own interpreter, the sandbox of this machine, the precompiled headers of a job."""
    python = real_interpreter(Path(sys.executable))
    headers = _headers(python)
    where = Place(
        python=python,
        sandbox=choose_sandbox("auto"),
        scratch=scratch,
        read=[*runtime_paths(python), *headers.shown, *read],
        env=env or {},
        headers=headers,
    )
    headers.lay(where.folder("tmp"))
    return where


@cache
def _headers(python: Path) -> Headers:
    """Those of our torch, made once for all runs of the tests: without them the first kernel of each child takes ten seconds."""
    folder = Headers.of(python, version("torch")).folder
    if folder is None:
        return NO_HEADERS
    headers = Headers(BUILT / folder.name)
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT.parent / "headers.lock").open("w") as lock, tempfile.TemporaryDirectory() as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other test processes want the same
        headers.make(choose_sandbox("auto"), python, Path(scratch, "made"), lambda: None)
    return headers


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

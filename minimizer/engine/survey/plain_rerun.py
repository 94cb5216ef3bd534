"""The oracle of the script level by plain runs: for a failure that a setting of ours takes away.

It costs a process and a cold compilation for each answer, so it comes last. What is asked with parts of the compiler switched off, or
observed, stays with the warm child: a plain run has no hooks for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.plain_runs import DIED, End, PlainRuns, is_of_compiler
from minimizer.engine.survey.ways import COMPILED, DISABLED, Way

UNDER = """import torch; entry = torch.compile
torch.compile = lambda model=None, *, backend=None, mode=None, options=None, **rest: entry(model, backend={backend!r}, **rest)"""
"""A ``torch.compile`` that takes a backend in the place of the script's own."""


class PlainRerun(Rerun):
    """Judges scripts by plain runs of them."""

    def __init__(self, executor: Executor, path: Path, plain: PlainRuns) -> None:
        super().__init__(executor, path)
        self._plain = plain

    def _run(self, requests: Sequence[dict[str, Any]]) -> list[Outcome]:
        if any(request.get("observe") or request.get("switches") for request in requests):
            return super()._run(requests)
        return list(map(_outcome, self._plain.of_candidates([(r["text"], _way(r)) for r in requests])))


def _way(request: dict[str, Any]) -> Way:
    if not request["compile"]:
        return DISABLED
    backend = request.get("backend")
    return Way(f"{COMPILED.name}, {backend}", setting=UNDER.format(backend=backend)) if backend else COMPILED


def _outcome(end: End) -> Outcome:
    """The end of a plain run as that of a run in the warm child."""
    seconds, error = end.seconds, end.error
    if end.overran:
        return Outcome(ending=Ending.TIMEOUT, seconds=seconds)
    if end.status is None:
        return Outcome(ending=Ending.LOST, seconds=seconds)
    if end.passes:
        return Outcome(ending=Ending.SAME, seconds=seconds)
    if error is None and end.status > DIED:
        return Outcome(ending=Ending.CRASH, signal=end.status - DIED, phase="compiled", seconds=seconds)
    if error is None:
        return Outcome(ending=Ending.LOST, seconds=seconds)
    ending = Ending.COMPILE_ERROR if is_of_compiler(error) else Ending.RUNTIME_ERROR
    return Outcome(ending=ending, exception=error, seconds=seconds)

"""The script level's oracle by plain runs, for a failure that a setting of ours removes.

Each answer costs a process and a cold compilation, so it is the last resort. Runs with parts of the compiler switched
off, or with observation, stay in the warm child: a plain run has no hooks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.trouble import signal_of
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.plain_runs import End, PlainRuns, is_of_compiler
from minimizer.engine.survey.ways import COMPILED, DISABLED, Way
from minimizer.inside.questions import CALLS_EAGER, WITHOUT_KERNELS, ScriptRequest

UNDER = """import torch; entry = torch.compile
torch.compile = lambda model=None, *, backend=None, mode=None, options=None, **rest: entry(model, backend={backend!r}, **rest)"""
"""A ``torch.compile`` that replaces the script's own backend."""


class PlainRerun(Rerun):
    """Judges scripts by plain runs."""

    def __init__(self, executor: Executor, path: Path, plain: PlainRuns) -> None:
        super().__init__(executor, path)
        self._plain = plain

    @property
    def jobs(self) -> int:
        """Two, if the machine has the memory for both."""
        return 1 if self._plain.one_by_one else 2

    def _run(self, requests: Sequence[ScriptRequest]) -> list[Outcome]:
        if any(request.observe or request.switches is not None for request in requests):
            return super()._run(requests)
        return [_outcome(self._plain.of_candidate(request.text or "", _way(request))) for request in requests]


def _way(request: ScriptRequest) -> Way:
    if not request.compile:
        return DISABLED
    backend = request.backend
    if backend == WITHOUT_KERNELS:
        settings = "\n".join(f"torch._inductor.config.{name} = {value!r}" for name, value in CALLS_EAGER.items())
        under = UNDER.format(backend="inductor")
        return Way(f"{COMPILED.name}, {backend}", setting=f"{under}\nimport torch._inductor.config\n{settings}\n")
    return Way(f"{COMPILED.name}, {backend}", setting=UNDER.format(backend=backend)) if backend else COMPILED


def _outcome(end: End) -> Outcome:
    """The end of a plain run, converted to that of a run in the warm child."""
    seconds, error = end.seconds, end.error
    if end.overran:
        return Outcome(ending=Ending.TIMEOUT, seconds=seconds)
    if end.status is None:
        return Outcome(ending=Ending.LOST, seconds=seconds)
    if end.passes:
        return Outcome(ending=Ending.SAME, seconds=seconds)
    if error is None and (died_by := signal_of(end.status)) is not None:
        return Outcome(ending=Ending.CRASH, signal=died_by, phase="compiled", seconds=seconds)
    if error is None:
        return Outcome(ending=Ending.LOST, seconds=seconds)
    ending = Ending.COMPILE_ERROR if is_of_compiler(error) else Ending.RUNTIME_ERROR
    return Outcome(ending=ending, exception=error, seconds=seconds)

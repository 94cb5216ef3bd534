"""Runs the verified repro in every other torch that is configured, to find the first version that fails or the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from minimizer.engine.budget.patience import TORCH_ASK_SECONDS, TORCH_LEAST_SECONDS, TORCH_MOST_SECONDS
from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import run_clean
from minimizer.engine.child.environment import Place
from minimizer.engine.emit import Repro
from minimizer.engine.journal import Journal
from minimizer.engine.verify.clean_runs import GONE, PRESENT, Run, run_once
from minimizer.errors import MissingTool
from minimizer.report.examined import Version
from minimizer.sandbox import Sandbox, real_interpreter, runtime_paths

ASK = "import torch; print(torch.__version__)"
NO_TIME = "there was no time left for it"


def compare(
    repro: Repro, data: bytes | None, place: Place, toolchains: Mapping[str, Path], journal: Journal, *, jobs: int
) -> list[Version]:
    """Run the repro once in each interpreter, other than the job's own, at most ``jobs`` in parallel.

    If the time ends before a run does, the outcome for that interpreter is ``cannot_run``.
    """
    others = {name: path for name, path in toolchains.items() if not _is_same(path, place.python)}
    if not others:
        return []

    def one(name: str, path: Path) -> Version:
        return _in(name, path, repro, data, place, journal)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, others.keys(), others.values()))


def _in(name: str, python: Path, repro: Repro, data: bytes | None, place: Place, journal: Journal) -> Version:
    folder = place.private("versions") / name.replace("/", "_")
    try:
        if journal.clock.spare < TORCH_LEAST_SECONDS:
            return Version(name=name, outcome="cannot_run", note=NO_TIME)
        torch = _torch(python, place.sandbox, folder, journal.watch_owner)
        limit = min(max(journal.clock.spare, TORCH_LEAST_SECONDS), TORCH_MOST_SECONDS)
        run = run_once(repro, data, place.sandbox, python, folder, limit, journal.watch_owner)
    except MissingTool as error:
        return Version(name=name, outcome="cannot_run", note=str(error)[:300])
    if run.shows(repro):
        return Version(name=name, torch=torch, outcome="fails")
    if run.status == GONE:
        return Version(name=name, torch=torch, outcome="passes")
    return Version(name=name, torch=torch, outcome="cannot_run", note=_why(run, torch))


def _why(run: Run, torch: str) -> str:
    """The reason why a run is inconclusive: it was stopped, fails in another way, or cannot run."""
    if run.status is None:
        return "it was stopped: it took too long"
    fails_otherwise = run.status == PRESENT and torch
    return f"{'fails in another way: ' if fails_otherwise else ''}{run.last_line}"[:300]


def _torch(python: Path, sandbox: Sandbox, folder: Path, watch: Callable[[], None]) -> str:
    """The version of an interpreter's torch; empty if it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = run_clean(
        [str(real_interpreter(python)), "-c", ASK],
        sandbox,
        work=folder,
        output=folder.with_name(f"{folder.name}.txt"),
        read=runtime_paths(python),
        write=[folder],
        environment={"HOME": str(folder), "PYTHONNOUSERSITE": "1"},
        limit=TORCH_ASK_SECONDS,
        watch=watch,
    )
    scratch_disk.remove(folder)
    return asked.last_line[:50] if asked.status == 0 else ""


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are the same interpreter; links are not resolved, since a virtual environment's is one."""
    return one.absolute() == other.absolute()

"""Runs the verified repro in all other configured or requested torches, to find the first failing or the fixing
version.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion
from packaging.version import Version as Number

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


class Releases(Protocol):
    """Releases of torch to run a repro in; their environments are created on demand.

    ``named``: run each of these. ``searched``: search these, oldest first, for the first that fails and the one that
    fixes it.
    """

    @property
    def named(self) -> Sequence[str]: ...

    @property
    def searched(self) -> Sequence[str]: ...

    def interpreter(self, release: str, *, left: Callable[[], float], watch: Callable[[], None]) -> Path:
        """The Python of an environment with a release, within ``left()`` seconds.

        Raises:
            MissingTool: there is none, and none can be made.
        """


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


def compare_releases(
    repro: Repro, data: bytes | None, place: Place, releases: Releases, journal: Journal, *, own: str
) -> list[Version]:
    """Run the repro in the requested releases, and search the others; it is known to fail in ``own``.

    On each side of the job's own release the farthest is tried first: if the repro passes there, bisection finds the
    edge; if it fails there too, it is assumed to fail in all between, and none of those is installed.
    """

    @functools.cache
    def ask(release: str) -> Version:
        name = f"torch {release}"
        journal.progress(message=f"running the repro in {name}, which is installed first if it is not there")
        try:
            python = releases.interpreter(release, left=lambda: journal.clock.spare, watch=journal.watch_owner)
        except MissingTool as error:
            return Version(name=name, torch=release, outcome="cannot_run", note=place.redacted(str(error))[:300])
        return _in(name, python, repro, data, place, journal)

    found = {release: ask(release) for release in releases.named}
    try:
        number = Number(Number(own).public)
    except InvalidVersion:  # reported by the child
        return list(found.values())
    older = [release for release in releases.searched if Number(release) < number]
    newer = [release for release in releases.searched[::-1] if Number(release) > number]
    for line in (older, newer):
        found |= edge(line, ask)
    return list(found.values())


def edge(line: Sequence[str], ask: Callable[[str], Version]) -> dict[str, Version]:
    """The releases tried in a line to find where it begins to fail: the farthest first, and one failing neighbour of
    the edge.

    A release that cannot run is skipped, and its neighbour tried instead.
    """
    found: dict[str, Version] = {}
    left = list(line)
    is_far = True
    while left:
        middle = 0 if is_far else len(left) // 2
        release = left[middle]
        found[release] = version = ask(release)
        if version.outcome == "cannot_run":
            del left[middle]
        elif version.outcome == "passes":
            is_far, left = False, left[middle + 1 :]
        else:
            left = [] if is_far else left[:middle]
    return found


def _in(name: str, python: Path, repro: Repro, data: bytes | None, place: Place, journal: Journal) -> Version:
    folder = place.private("versions") / re.sub(
        r"\W", "_", name
    )  # Inductor builds no kernel below a folder with a space
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

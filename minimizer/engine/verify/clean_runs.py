"""Verifies a repro: runs its text in clean processes with empty caches.

A repro is verified only if it fails in every run, each time with its evidence, and passes with the compiler switched
off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import AGAIN_SECONDS, VERIFY_RUNS
from minimizer.engine.child import scratch_disk
from minimizer.engine.child.clean_process import CleanRun, run_clean
from minimizer.engine.child.environment import Place
from minimizer.engine.child.headers import NO_HEADERS, Headers, clean_environment
from minimizer.engine.child.trouble import GPU_IS_FULL, KILLED, KILLED_EACH_TIME
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.emit import DATA_FILE, SCRIPT_FILE, Repro
from minimizer.engine.reduce.python.entries import is_compiled
from minimizer.engine.verify.reserve import clean_run_timeout
from minimizer.errors import WorkerTrouble
from minimizer.report.model import Verification
from minimizer.sandbox import Sandbox, real_interpreter, runtime_paths

PRESENT, GONE, CANNOT_RUN = 1, 0, 125
"""Exit statuses of a repro: the bug shows, it is gone, or the machine cannot run it."""
SHOWN = 4000
"""Most characters of a repro's output in the report."""
FILE_BYTES = 2 << 30
MISSING = re.compile(r"module '(torch[\w.]*)' has no attribute '(\w+)")
PRIMS = "torch._inductor.inductor_prims"
MISSING_PRIM = re.compile(r"'_OpNamespace' 'prims' object has no attribute")
INTERNAL_ENTRIES = ("torch._dynamo.optimize", "torch._inductor.compile", "compile_fx", "aot_module", "aot_function")


class Run(CleanRun):
    """The end of one run of a repro."""

    def shows(self, repro: Repro) -> bool:
        """Whether it failed with the repro's evidence in its output."""
        return self.status == PRESENT and repro.evidence in self.output

    @property
    def missing_module(self) -> str | None:
        """The submodule of torch that it ended for want of; None if its output does not say so.

        Inductor registers its own operators when it is imported, which a run without the compiler does not do.
        """
        found = MISSING.search(self.last_line)
        return f"{found[1]}.{found[2]}" if found else PRIMS if MISSING_PRIM.search(self.last_line) else None


class CleanResult(NamedTuple):
    """A verification, with what is said of the runs that did not end as they should.

    ``missing_module``: the submodule of torch for want of which one of these ended.
    """

    verification: Verification
    notes: list[str]
    missing_module: str | None = None


def verify(
    repro: Repro,
    data: bytes | None,
    *,
    sandbox: Sandbox,
    python: Path,
    scratch: Path,
    timeout: float,
    left: Callable[[], float],
    read: Sequence[Path],
    runs: int = VERIFY_RUNS,
    headers: Headers = NO_HEADERS,
    on_odd: Callable[[Run, str], None] = lambda run, note: None,
    watch: Callable[[], None] = lambda: None,
) -> Verification:
    """Run a repro ``runs`` times unchanged and once with the compiler off, in parallel (one core and 1 GiB each).

    Stopped runs are repeated one by one, all of them within ``timeout`` times the load of the machine: they may have
    been starved of CPU time.

    Args:
        repro: the repro.
        data: the content of ``data.pt``, if it needs one.
        sandbox: the sandbox for the runs.
        python: the interpreter in which the failure was found.
        scratch: an existing folder of ours; folders made in it are removed again.
        timeout: seconds for one run, in addition to the time after which a repro of a hang ends itself.
        left: seconds left for all of them together; no run outlasts it.
        read: folders that the repro may read, in addition to the interpreter's: editable installs.
        runs: the number of compiled runs, all of which must fail.
        headers: those of the interpreter's torch, lent to the runs.
        on_odd: receives every run that did not end as it should, with a sentence on it.
        watch: called while waiting; an exception from it ends all runs at once, and is raised here.

    Raises:
        WorkerTrouble: a run was killed each time, finally with no other run in parallel.
    """
    limit = timeout + (repro.hang_after or 0.0)

    def run(number: int, seconds: float = limit) -> Run:
        extra = {"TORCHDYNAMO_DISABLE": "1"} if number == runs else {}
        return run_once(
            repro,
            data,
            sandbox,
            python,
            scratch / f"verify-{number}",
            min(seconds, left()),
            watch,
            extra,
            read=read,
            headers=headers,
        )

    # A sandbox dies with the thread that started it: each run is started and awaited by one thread of the pool.
    with ThreadPoolExecutor(runs + 1) as pool:
        ends = list(pool.map(run, range(runs + 1)))
    until = time.monotonic() + min(limit * crowding(), AGAIN_SECONDS)

    def made_sure(number: int, end: Run) -> Run:
        """A run, repeated after the others have ended if it lacked GPU memory, memory or time."""
        if end.rule is GPU_IS_FULL:
            return run(number)
        if end.rule is KILLED:
            again = run(number)
            if again.rule is KILLED:
                watch()  # raises if it exceeded the job's limit of disk or memory
                raise WorkerTrouble(f"the repro {KILLED_EACH_TIME}")
            return again
        if end.status is None and (rest := min(until - time.monotonic(), left())) > 0:
            again = run(number, rest)
            return end if again.status is None else again
        return end

    *compiled, eager = (made_sure(number, end) for number, end in enumerate(ends))
    for outcome in compiled:
        if not outcome.shows(repro):
            on_odd(outcome, _complaint(outcome))
    if eager.status != GONE:
        on_odd(eager, f"With the compiler switched off: {_complaint(eager)}")
    return Verification(
        runs=runs,
        failed_same=sum(outcome.shows(repro) for outcome in compiled),
        clean_process=True,
        public_api=is_compiled(repro.source) and not any(entry in repro.source for entry in INTERNAL_ENTRIES),
        passes_with_compiler_off=eager.status == GONE,
        stopped=sum(outcome.status is None for outcome in (*compiled, eager)),
        output=next((outcome.output[-SHOWN:] for outcome in compiled if outcome.shows(repro)), ""),
    )


def verify_in(
    place: Place, repro: Repro, data: bytes | None, clock: Clock, *, watch: Callable[[], None], runs: int = VERIFY_RUNS
) -> CleanResult:
    """Run a repro in clean processes of a job, in the time that the job has left."""
    odd: list[tuple[Run, str]] = []
    found = verify(
        repro,
        data,
        sandbox=place.sandbox,
        python=place.python,
        scratch=place.private("verify"),
        timeout=clean_run_timeout(clock.pace),
        left=lambda: clock.left,
        read=place.packages,
        runs=runs,
        headers=place.headers,
        on_odd=lambda run, note: odd.append((run, note)),
        watch=watch,
    )
    missing = (run.missing_module for run, _ in odd)
    return CleanResult(found, [note for _, note in odd], next((module for module in missing if module), None))


def run_once(
    repro: Repro,
    data: bytes | None,
    sandbox: Sandbox,
    python: Path,
    folder: Path,
    limit: float,
    watch: Callable[[], None],
    extra: Mapping[str, str] | None = None,
    write: Sequence[Path] = (),
    read: Sequence[Path] = (),
    headers: Headers = NO_HEADERS,
) -> Run:
    """One run in a separate folder, with empty caches; ``extra`` is added to its environment.

    ``write``: further folders that it may write to, which are kept. ``read``: further readable folders besides its
    interpreter. ``headers``: those of its torch; without any, none are compiled for the single kernel of a run, which
    would cost four seconds more.

    A killed run is repeated once: a repro that kills itself does so again, and an external kill rarely happens twice.
    """

    def once() -> Run:
        work, home = folder / "work", folder / "home"
        work.mkdir(parents=True)
        home.mkdir()
        has_headers = headers.lay(home)
        slow = {} if has_headers else {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
        try:
            (work / SCRIPT_FILE).write_text(repro.source, encoding="utf-8")
            if data is not None:
                (work / DATA_FILE).write_bytes(data)
            ran = run_clean(
                [str(real_interpreter(python)), SCRIPT_FILE],
                sandbox,
                work=work,
                output=folder / "output",
                read=[*runtime_paths(python), *read, *headers.shown],
                write=[work, home, *write],
                environment={**clean_environment(home), **slow, **(extra or {})},
                limit=limit,
                watch=watch,
                file_bytes=FILE_BYTES,
            )
            return Run(ran.status, ran.output, ran.seconds)
        finally:
            scratch_disk.remove(folder)

    run = once()
    return once() if run.rule is KILLED else run


def _complaint(outcome: Run) -> str:
    if outcome.status is None:
        return f"the repro was stopped after {outcome.seconds:.0f} seconds"
    said = f"it said {outcome.last_line[:300]!r}"
    if outcome.status == CANNOT_RUN:
        return f"the repro could not run here (exit status 125); {said}"
    if outcome.status == GONE:
        return "the repro passed"
    if outcome.status == PRESENT:
        return f"the repro failed in another way; {said}"
    return f"the repro ended with exit status {outcome.status}; {said}"

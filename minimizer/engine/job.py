"""A job and its resources: the sandbox, then the warm child in it, each opened before what needs it and closed after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.after.follow_up import FollowUp
from minimizer.engine.budget.patience import (
    EXACT_MOST,
    EXACT_SECONDS,
    EXACT_SHARE,
    HANG_AFTER,
    REPEAT_SECONDS,
    REPEAT_SHARE,
)
from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.gpu_memory import devices_of, freed
from minimizer.engine.child.headers import Headers
from minimizer.engine.child.prepare import granted, open_place, plan_of
from minimizer.engine.child.requirements import require_modules
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.child.warden import Warden
from minimizer.engine.journal import Journal
from minimizer.engine.levels.exact import BetweenGraphs
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.engine.user_script.syntax import UNPARSED, unparsed_at
from minimizer.engine.verify.other_torches import Releases
from minimizer.errors import ChildFailed, MissingTool, WorkerTrouble
from minimizer.options import Options
from minimizer.report.excused import Excused
from minimizer.report.model import Report
from minimizer.sandbox import choose_sandbox, without_bytecode
from minimizer.settings import Settings
from minimizer.vocabulary import counted


@dataclass(frozen=True)
class Job:
    """A request to the engine, and the journal that records its results.

    ``python`` is the interpreter that runs the script, ``binds`` further paths that the script may read, ``network``
    whether it may use the network. ``is_local``: whether the submitter owns this machine. ``excused``: excuses known
    before the job begins. ``releases``: further releases of torch to run the repro in.
    """

    script: Path
    options: Options
    settings: Settings
    journal: Journal
    python: Path
    binds: Sequence[Path] = ()
    network: bool = False
    is_local: bool = False
    excused: Sequence[Excused] = ()
    releases: Releases | None = None

    @property
    def report(self) -> Report:
        return self.journal.report


@dataclass(frozen=True)
class Parts:
    """The resources of a job while its child lives. ``beside`` runs background work that nobody waits for."""

    job: Job
    executor: Executor
    between: BetweenGraphs
    surveys: Surveys
    plain: PlainRuns
    triage: Triage
    follow_up: FollowUp
    beside: ThreadPoolExecutor


@contextmanager
def prepared(job: Job, disk: Scratch) -> Iterator[tuple[Job, Place]]:
    """Open the sandbox of a job, with its limits of memory, processes and disk, and limit parallel trials to what the
    devices take.

    Raises:
        MissingTool: a requested sandbox, interpreter or device is missing.
    """
    note = job.journal.note
    devices = devices_of(job.options, note)
    jobs = devices.at_once(job.settings.trial_jobs, job.settings.gpu_jobs)
    settings = job.settings.model_copy(update={"trial_jobs": jobs})
    sandbox = choose_sandbox(settings.sandbox, settings.trial_memory_bytes, devices, settings.job_memory_bytes)
    shared = disk.path / "shared"
    shared.mkdir()
    clock = job.journal.clock
    over = lambda: clock.used_up() if clock.is_over else None  # noqa: E731
    with Warden(sandbox, disk, over) as warden, freed(devices, note):  # left after all children have ended
        job.journal.guard = warden.watch
        if sandbox.notice:
            note(sandbox.notice)
        place = open_place(
            job.script,
            sandbox=sandbox,
            scratch=shared,
            python=job.python,
            binds=job.binds,
            network=job.network,
            memory_bytes=settings.trial_memory_bytes,
            environment=granted(job.options, settings, note),
            is_local=job.is_local,
            plan=plan_of(job.options),
        )
        job.journal.redact = place.redacted
        require_modules(job.script.resolve(), place, job.binds, watch=job.journal.watch, on_note=note)
        if where := unparsed_at(job.script.read_bytes()):
            note(
                f"The script is left in one piece, since {UNPARSED} ({where}): it is not compared between graphs, not reduced itself, and no "
                "graph takes definitions from it. A minimizer that runs in the script's own Python can."
            )
        if (bare := without_bytecode(place.python)) is not None:
            note(
                "torch is installed here without bytecode: every process compiles what it imports of it, and all takes several times "
                f"as long. Mend it once: {place.python} -m compileall -q {bare}"
            )
        yield replace(job, settings=settings), place


@contextmanager
def started(job: Job, place: Place) -> Iterator[Parts]:
    """Start the warm child, and build what runs the script in it.

    Raises:
        MissingTool: CUDA was requested, and the child's torch has none; or we cannot observe that torch.
        WorkerTrouble: the child does not start.
    """
    journal, options = job.journal, job.options
    with ExitStack() as stack:
        beside = ThreadPoolExecutor(1)
        stack.callback(beside.shutdown)  # after the executor has closed: nothing is left to wait for
        pace = journal.clock.pace
        executor = stack.enter_context(Executor(place, jobs=job.settings.trial_jobs, watch=journal.watch, pace=pace))
        headers = Headers.of(place.python, _start(executor, job)["torch"])
        place = replace(place, headers=headers)
        beside.submit(_with_headers, place, journal.watch)
        timeout = max(min(EXACT_SECONDS, EXACT_MOST * options.budget), EXACT_SHARE * options.budget)
        trials = job.settings.trial_jobs
        between = BetweenGraphs(executor, job.script.resolve(), options.args, journal, jobs=trials, timeout=timeout)
        surveys = Surveys(
            executor,
            job.script.resolve(),
            args=options.args,
            nproc=options.nproc,
            steps=options.steps,
            hang_after=options.hang_after or HANG_AFTER,
            budget=options.budget,
            values=options.compares_values,
        )
        plain = stack.enter_context(
            PlainRuns(
                place,
                job.script.resolve(),
                options.args,
                nproc=options.nproc,
                left=lambda: journal.clock.left,
                watch=journal.watch_owner,
                on_note=journal.note,
            )
        )
        triage = Triage(
            surveys,
            on_note=journal.note,
            log=journal.log,
            on_healthy=plain.begin,
            repeat_seconds=max(REPEAT_SECONDS, REPEAT_SHARE * options.budget),
        )
        follow_up = FollowUp(job.script, place, surveys, journal, options, job.settings, job.releases)
        try:
            yield Parts(job, executor, between, surveys, plain, triage, follow_up, beside)
        finally:
            _tell_of_gpu_memory(executor, journal)


def _start(executor: Executor, job: Job) -> dict[str, str]:
    """Start the warm child; returns the description of its torch and its machine."""
    try:
        ready = executor.start()
    except ChildFailed as error:  # the script has not run yet: the machine is at fault
        raise WorkerTrouble(str(error)) from None
    if job.options.device == "cuda" and not ready.gpu:
        raise MissingTool("--device cuda: this torch is built without CUDA, or the sandbox has no /dev/nvidiactl.")
    for sentence in ready.does_without:
        job.journal.note(f"{sentence[0].upper()}{sentence[1:]}.")
    fold.prepared(job.report, ready.environment)
    return ready.environment


def _with_headers(place: Place, watch: Callable[[], None]) -> None:
    """Compile the precompiled headers unless they exist, and give them to the warm child."""
    place.headers.make(place.sandbox, place.python, place.private("headers"), watch)
    place.headers.lay(place.folder("tmp"))


def _tell_of_gpu_memory(executor: Executor, journal: Journal) -> None:
    if executor.ran_out:
        journal.note(
            f"{counted(executor.ran_out, 'trial')} ran out of GPU memory with no other beside: what the script itself holds is missing "
            "there. They count for nothing, neither for the failure nor against it."
        )

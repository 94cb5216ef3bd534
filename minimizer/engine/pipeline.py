"""The whole story, in the order of `Step`: from a script to a verified repro, and on to its diagnosis.

`job` opens the resources. `suspects` and `routes` are the middle: what may hold the fault, and the ways from a failing
call to a repro, each of which searches at one of the `levels`. `follow_up` is the end, from the repro on. Each step
leaves a valid report, so that a job stopped at any time has the best result so far.
"""

from __future__ import annotations

import sys
import traceback
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.after.conclude import end, settle
from minimizer.engine.after.graph_beside_between import graphs_alone, recorded_apart
from minimizer.engine.between.answer import NO_ANSWER, Answer, Found, unanswered
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import CHEAP_SECONDS, EXACT_WHOLE_SHARE, SECOND_FAULT_SECONDS
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.job import Job, Parts, prepared, started
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import NAME as CHECKPOINT
from minimizer.engine.levels.draft import Draft
from minimizer.engine.program.regions import Region
from minimizer.engine.routes import Routes
from minimizer.engine.survey import early_end
from minimizer.engine.survey.cases import Settled
from minimizer.engine.suspects import Between, Graphs, Suspect, Verified, order, verified
from minimizer.engine.user_script.from_dump import unpack
from minimizer.engine.verify.other_torches import Releases
from minimizer.engine.witness.adopt import take_up
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, MissingTool, is_of_the_machine
from minimizer.options import Options
from minimizer.report import as_markdown
from minimizer.report.excused import excused
from minimizer.report.issue import issue_of
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.vocabulary import Reason, Status, Step

AGAIN = (Reason.BUDGET, Reason.INTERRUPTED, Reason.WORKER_TROUBLE)
"""Reasons after which a job may be tried again."""

OF_MACHINE = {"device", "env", "toolchain", "diagnosis"}
"""Options that hold for another script of a job as well; all others are about the script itself."""


def minimize(
    script: Path,
    *,
    options: Options,
    settings: Settings,
    sink: Sink,
    python: Path | None = None,
    binds: Sequence[Path] = (),
    network: bool = False,
    is_local: bool = False,
    began: float | None = None,
    releases: Releases | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Reduce the failure of a script. The report says how the job ended; a failing script never raises an exception.

    Args:
        script: the user's file; the script may read its folder, and works in a temporary directory.
        options: what the user asked for.
        settings: sandbox mode, parallel trials, memory of a trial.
        sink: receives events, artifacts and the report.
        python: the interpreter that runs the script; by default the one we run in.
        binds: further paths the script may read.
        network: whether the script may use the network.
        is_local: whether the submitter owns this machine; the script then sees the editable installs of its interpreter.
        began: when the budget began, by ``time.monotonic``; by default now.
        releases: further releases of torch to run the repro in.
        notes: what the caller knows, for the report.
    """
    report = Report(notes=list(notes))
    journal = Journal(sink, report, Clock(options.budget, began))
    python = python or Path(sys.executable)
    conduct(Job(script, options, settings, journal, python, binds, network, is_local, releases=releases), run)
    if report.reason not in AGAIN:  # these resume from the checkpoint
        if not report.may_shrink:
            sink.discard(CHECKPOINT)
        if report.reason is not Reason.INTERNAL_ERROR:
            journal.hide()
    fold.rated(report)
    sink.artifact("report.md", as_markdown.render(report, script_name=script.name, repro=journal.repro).encode())
    issue = issue_of(report, journal.repro)
    if issue is None:
        sink.discard("issue.md")  # from an earlier run in the same folder
    else:
        sink.artifact("issue.md", issue.text.encode())
    journal.keep()
    return report


def conduct(job: Job, steps: Callable[[Job, Scratch, ExitStack], object]) -> None:
    """Run the steps of a job, with a scratch disk and a sandbox of its own; an exception that ends them becomes the
    verdict.
    """
    journal, report = job.journal, job.report
    try:
        with Scratch() as disk, ExitStack() as machine:
            steps(job, disk, machine)
    except (Cancelled, KeyboardInterrupt):
        why = early_end.summary(report, journal, "cancelled", is_time=False)
        end(journal, Status.CANCELLED, Reason.INTERRUPTED, why)
    except BudgetExceeded as error:
        why = early_end.summary(report, journal, str(error), is_time=error.is_time)
        end(journal, Status.PARTIAL, Reason.BUDGET, why)
    except MissingTool as error:
        end(journal, Status.FAILED, Reason.NOT_RUNNABLE, str(error))
    except ChildFailed as error:
        if report.failure is not None:
            end(journal, Status.PARTIAL, Reason.NOT_VERIFIED, f"The failure could not be reduced: {error}")
        else:
            end(journal, Status.FAILED, Reason.NOT_RUNNABLE, f"The script could not be run to an answer: {error}")
    except Exception as error:
        journal.log(traceback.format_exc())
        if is_of_the_machine(error):
            end(journal, Status.FAILED, Reason.WORKER_TROUBLE, f"This machine could not do the job: {error}.")
        else:
            what = f"A fault of our own: {type(error).__name__}; run.log has more."
            end(journal, Status.FAILED, Reason.INTERNAL_ERROR, what)


def run(job: Job, disk: Scratch, machine: ExitStack) -> None:
    """Every step of a job, in order: those of its script, then PyTorch's own tools."""
    job = as_script(job, disk)
    parts = investigate(job, disk, machine)
    if job.options.witness and is_worth_witnesses(parts):
        with parts.follow_up.adding(Step.WITNESS):
            hear_witnesses(parts, disk)


def as_script(job: Job, disk: Scratch) -> Job:
    """The job itself; a job on a graph dumped by PyTorch becomes one on an ordinary script, with a note to the user.

    Raises:
        MissingTool: the dump cannot be made into a script.
    """
    found = unpack(job.script, disk.path / "dump", is_local=job.is_local)
    if found is None:
        return job
    job.journal.note(found.told)
    made_up = (excused("made_up_inputs", found.made_up),) if found.made_up else ()
    return replace(job, script=found.script, binds=(*job.binds, *found.read), excused=made_up)


def investigate(job: Job, disk: Scratch, machine: ExitStack) -> Parts:
    """Attempt the suspects of a script, in a child that ends here; its sandbox lives as long as ``machine``."""
    with ExitStack() as child:
        with job.journal.step(Step.PREPARE):
            job, place = machine.enter_context(prepared(job, disk))
            parts = child.enter_context(started(job, place))
        exact = compare_exactly(parts)
        routes = Routes(parts, exact)
        queue: list[Suspect] = [Graphs()]
        if exact.found is not None:
            insort(queue, Between(exact.found, is_checked=bool(exact.failed_check)), key=order)
        reached = reach(queue, routes)
        if isinstance(reached, Verified):
            enrich(reached.draft, parts)
        else:
            conclude(reached, exact, parts)
        if queue and exact.found is not None:  # the graphs of a script whose fault lies between graphs
            see_graphs(exact.found, routes)
    return parts


def compare_exactly(parts: Parts) -> Answer:
    """Run the exact runs: does the script see anything differently with the compiler? Skipped for several processes."""
    options, journal = parts.job.options, parts.job.journal
    if options.nproc > 1 or not options.compares_values:
        why = f"--nproc {options.nproc}" if options.nproc > 1 else f"--expect {options.expect}"
        return replace(NO_ANSWER, excused=(excused("exact_not_asked", why),))
    with journal.step(Step.EXACT):
        try:
            with journal.clock.within(EXACT_WHOLE_SHARE * options.budget):
                answer = parts.between.compare()
        except ChildFailed as error:
            answer = unanswered(str(error))
        except BudgetExceeded as error:
            if not error.is_time:
                raise
            journal.watch()  # raises if the whole job's time is over
            answer = unanswered("the exact runs came to no answer in their share of the time")
    journal.log(f"exact runs: {answer.runs} runs, {answer.looks} looks {answer.aside}")
    return answer


def reach(queue: list[Suspect], routes: Routes) -> Verified | Settled:
    """Attempt the first suspect, verify its draft, and queue the suspect that results, until a draft or a verdict
    stands.
    """
    while True:
        found = queue.pop(0).attempt(routes)
        if isinstance(found, Draft):
            found = verified(found, routes)
        if isinstance(found, Verified | Settled):
            return found
        if found is not None:
            insort(queue, found, key=order)


def explain(draft: Draft, parts: Parts) -> None:
    """Find, for a verified repro, the part to blame, a workaround, and the lines of generated code that are wrong."""
    if parts.job.options.diagnosis and draft.fault.holds:
        if draft.patient is not None:
            parts.follow_up.diagnose(draft.patient, draft.fault)
        elif draft.difference is not None:
            mechanism = draft.fault.announced.mechanism
            parts.follow_up.work_around(partial(parts.between.workaround, draft.difference, mechanism))
        parts.follow_up.read_code(draft)


def enrich(draft: Draft, parts: Parts) -> None:
    """Add the diagnosis to a repro, and look for further faults."""
    job, follow_up = parts.job, parts.follow_up
    job.journal.keep()
    explain(draft, parts)
    suspects: list[Region] = []
    if job.options.diagnosis:
        suspects = follow_up.describe(draft)
        follow_up.examine()
        follow_up.compare(draft)
    follow_up.look_further(draft, suspects)


def see_graphs(difference: Found, routes: Routes) -> None:
    """Survey the graphs of a script whose fault lies between graphs; if one fails too and time is left, make its repro."""
    with routes.parts.follow_up.adding(Step.FURTHER, least=SECOND_FAULT_SECONDS):
        triage, case = graphs_alone(routes.parts.surveys, routes.exact, routes.journal)
        if case is not None:
            with recorded_apart(case, difference, routes.journal) as journal:
                beside = routes.beside(journal, triage)
                reached = reach([Graphs(case)], beside)
                if isinstance(reached, Verified):
                    explain(reached.draft, beside.parts)


def conclude(found: Settled, exact: Answer, parts: Parts) -> None:
    """Record the verdict of a job without a repro."""
    settle(found, replace(exact, excused=(*parts.job.excused, *exact.excused)), parts.job.journal)
    parts.job.journal.decide()
    if (found.status is Status.HEALTHY or found.reason is Reason.NOTHING_COMPILED) and parts.job.options.diagnosis:
        parts.follow_up.examine()


def is_worth_witnesses(parts: Parts) -> bool:
    """Whether PyTorch's own tools are worth running: the compiler may be at fault, and a healthy script runs cheaply
    once or twice more.
    """
    report = parts.job.report
    if parts.job.options.expected_finding is not None:
        return False  # these tools look for errors and wrong values
    if report.status is Status.HEALTHY:
        return report.timings[Step.SURVEY] <= CHEAP_SECONDS
    if parts.job.journal.fault.holds:
        return parts.follow_up.has_time(Step.WITNESS)
    return report.status is not Status.FAILED or report.reason is Reason.NOTHING_COMPILED


def hear_witnesses(parts: Parts, disk: Scratch) -> None:
    """Run PyTorch's own tools; without a repro of our own, attempt the graphs that they dumped, until one gets a repro."""
    job = parts.job
    job.journal.keep()
    testimonies = parts.follow_up.hear_witnesses()
    if job.journal.fault.holds:
        return
    for testimony in testimonies:
        if testimony.dump is not None and testimony.sees:
            folder = disk.path / f"witness-{testimony.after}"
            if take_up(testimony, job.journal, folder=folder, attempt=partial(attempt_dump, job)):
                fold.heard(job.report, [heard.witness(fails=True) for heard in testimonies])
                return


def attempt_dump(job: Job, script: Path, sink: Sink) -> Report:
    """Attempt the suspects of a dumped graph's script, with a separate sandbox and journal, and without witnesses."""
    kept = Options.model_validate(job.options.model_dump(include=OF_MACHINE))
    options = kept.model_copy(update={"budget": int(job.journal.clock.left), "witness": False})
    journal = Journal(sink, Report(), Clock(options.budget))
    conduct(replace(job, script=script, options=options, journal=journal), investigate)
    journal.keep()
    return journal.report

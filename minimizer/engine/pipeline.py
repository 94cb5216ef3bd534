"""The whole story, in the order of `Step`: from a script to a verified repro, and from there to all that is worth knowing of it.

`job` opens what it works with. `suspects` and `routes` are its middle: what may hold the fault, and the ways from a failing call to a repro, each
of which searches at one of the `levels`. `follow_up` is its end, from the repro on. Each step leaves a valid report behind, so that the best result
so far is there whenever it is stopped.
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
"""Ends after which a job may be tried again."""


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
) -> Report:
    """Reduce the failure of a script; the report says how it ended, and never is an exception raised for a failing script.

    Args:
        script: the user's file; its folder is readable to it, its working directory is thrown away.
        options: what the user asked for.
        settings: sandbox mode, trials at once, memory of a trial.
        sink: receives events, artifacts and the report.
        python: the interpreter that runs the script; the one we run in by default.
        binds: further paths the script may read.
        network: whether it may use the network.
        is_local: whether who has sent it owns this machine too: the script sees the editable installs of its interpreter then.
        began: when the budget began, by ``time.monotonic``; now by default.
        releases: further releases of torch that the repro is to run in.
    """
    report = Report()
    journal = Journal(sink, report, Clock(options.budget, began))
    python = python or Path(sys.executable)
    conduct(Job(script, options, settings, journal, python, binds, network, is_local, releases=releases), run)
    if report.reason not in AGAIN:  # those go on from there
        if not report.may_shrink:
            sink.discard(CHECKPOINT)
        if report.reason is not Reason.INTERNAL_ERROR:
            journal.hide()
    fold.rated(report)
    sink.artifact("report.md", as_markdown.render(report, script_name=script.name, repro=journal.repro).encode())
    issue = issue_of(report, journal.repro)
    if issue is None:
        sink.discard("issue.md")  # of an earlier run in the same place
    else:
        sink.artifact("issue.md", issue.text.encode())
    journal.keep()
    return report


def conduct(job: Job, steps: Callable[[Job, Scratch, ExitStack], object]) -> None:
    """Take the steps of a job, on a disk and a machine of its own; an exception that ends them becomes its verdict."""
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
    """Every step of a job, in order: those of its script, then what PyTorch's own tools say of it."""
    job = as_script(job, disk)
    parts = investigate(job, disk, machine)
    if job.options.witness and is_worth_witnesses(parts):
        with parts.follow_up.adding(Step.WITNESS):
            hear_witnesses(parts, disk)


def as_script(job: Job, disk: Scratch) -> Job:
    """The job itself; one of a graph that PyTorch dumped becomes that of an ordinary script, which is told.

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
    """Work off the suspects of a script, in a child that is gone then; its sandbox goes with ``machine``."""
    with ExitStack() as child:
        with job.journal.step(Step.PREPARE):
            job, place = machine.enter_context(prepared(job, disk))
            parts = child.enter_context(started(job, place))
        exact = compare_exactly(parts)
        routes = Routes(parts, exact)
        queue: list[Suspect] = [Graphs()]
        if exact.found is not None:
            insort(queue, Between(exact.found, is_checked=bool(exact.failed_check)), key=order)
        end = reach(queue, routes)
        if isinstance(end, Verified):
            enrich(end.draft, parts)
        else:
            conclude(end, exact, parts)
        if queue and exact.found is not None:  # the graphs of a script whose fault lies between them
            see_graphs(exact.found, routes)
    return parts


def compare_exactly(parts: Parts) -> Answer:
    """Whether the script sees something otherwise with the compiler, by its exact runs; nothing is asked of several processes."""
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
            journal.watch()  # raises where it was the time of the whole job
            answer = unanswered("the exact runs came to no answer in their share of the time")
    journal.log(f"exact runs: {answer.runs} runs, {answer.looks} looks {answer.aside}")
    return answer


def reach(queue: list[Suspect], routes: Routes) -> Verified | Settled:
    """Attempt the first suspect, verify its draft, and queue what that leaves to suspect; until a draft or a verdict stands."""
    while True:
        end = queue.pop(0).attempt(routes)
        if isinstance(end, Draft):
            end = verified(end, routes)
        if isinstance(end, Verified | Settled):
            return end
        if end is not None:
            insort(queue, end, key=order)


def explain(draft: Draft, parts: Parts) -> None:
    """Find out what is to blame for a failure, a workaround, and the generated code that is wrong, where its repro is verified."""
    if parts.job.options.diagnosis and parts.job.journal.fault.holds:
        if draft.patient is not None:
            parts.follow_up.diagnose(draft.patient)
        elif draft.difference is not None:
            parts.follow_up.work_around(partial(parts.between.workaround, draft.difference))
        parts.follow_up.read_code(draft)


def enrich(draft: Draft, parts: Parts) -> None:
    """Find out what is worth knowing beside a repro."""
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
    """Survey the graphs of a script whose fault lies between graphs; reach a repro of one that fails too, if there is time."""
    with routes.parts.follow_up.adding(Step.FURTHER, least=SECOND_FAULT_SECONDS):
        triage, case = graphs_alone(routes.parts.surveys, routes.exact, routes.journal)
        if case is not None:
            with recorded_apart(case, difference, routes.journal) as journal:
                beside = routes.beside(journal, triage)
                end = reach([Graphs(case)], beside)
                if isinstance(end, Verified):
                    explain(end.draft, beside.parts)


def conclude(found: Settled, exact: Answer, parts: Parts) -> None:
    """Give the verdict where there is nothing to verify."""
    settle(found, replace(exact, excused=(*parts.job.excused, *exact.excused)), parts.job.journal)
    parts.job.journal.decide()
    if found.status is Status.HEALTHY and parts.job.options.diagnosis:
        parts.follow_up.examine()


def is_worth_witnesses(parts: Parts) -> bool:
    """Whether the compiler may be to blame for something, and a healthy script costs no more than a run or two of it."""
    report = parts.job.report
    if parts.job.options.expected_finding is not None:
        return False  # those tools look for errors and wrong values
    if report.status is Status.HEALTHY:
        return report.timings[Step.SURVEY] <= CHEAP_SECONDS
    if parts.job.journal.fault.holds:
        return parts.follow_up.has_time(Step.WITNESS)
    return report.status is not Status.FAILED or report.reason is Reason.NOTHING_COMPILED


def hear_witnesses(parts: Parts, disk: Scratch) -> None:
    """Hear PyTorch's own tools; where nothing else has a repro, the graphs that they dumped are suspects, until one has."""
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
    """What the suspects of a dumped graph's script come to; it has a sandbox and a record of its own, and no witnesses."""
    changes = {"budget": int(job.journal.clock.left), "witness": False, "args": [], "nproc": 1, "expect": "auto"}
    none = dict.fromkeys(("target", "steps", "hang_after", "ready", "drive"))
    options = job.options.model_copy(update=changes | none)
    journal = Journal(sink, Report(), Clock(options.budget))
    conduct(replace(job, script=script, options=options, journal=journal), investigate)
    journal.keep()
    return journal.report

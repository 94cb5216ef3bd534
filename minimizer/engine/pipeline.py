"""The whole story, in the order of `Step`: from a script to a verified repro, and from there to all that is worth knowing of it.

`job` opens what it works with. `routes` is its middle: the ways from a failure to a repro, each of which searches at one of the `levels`.
`follow_up` is its end, from the repro on. Each step leaves a valid report behind, so that the best result so far is there whenever it is stopped.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.after.conclude import end, settle
from minimizer.engine.after.second_fault import see_graphs
from minimizer.engine.between.answer import Answer, unanswered
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import CHEAP_SECONDS, EXACT_WHOLE_SHARE, VERIFY_SECONDS
from minimizer.engine.child.scratch_disk import Scratch
from minimizer.engine.job import Job, Parts, prepared, started
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import NAME as CHECKPOINT
from minimizer.engine.levels.draft import Result
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.program.regions import Region
from minimizer.engine.routes import NO_ANSWER, Made, Routes
from minimizer.engine.survey import early_end
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, is_healthy, is_starved
from minimizer.engine.survey.plain_pair import PlainPair
from minimizer.engine.survey.rules import judge
from minimizer.engine.survey.verdict_rules import PLAIN
from minimizer.engine.survey.verdicts import layout_unmade
from minimizer.engine.witness.adopt import take_up
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed, MissingTool, is_of_the_machine
from minimizer.inside.questions import GivenInput, TrialRequest
from minimizer.options import Options
from minimizer.report import as_markdown
from minimizer.report.excused import excused
from minimizer.report.issue import issue_of
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.vocabulary import Kind, Reason, Status, Step

WARM_UP = TrialRequest(
    setup="import torch",
    source="def f(x):\n    return x + 1\n",
    name="f",
    inputs=[GivenInput(name="x", code="torch.ones(8)")],
)
"""A trial beside the survey: it has the compiler's headers precompiled by the time the script's first kernel is built."""

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
    """
    report = Report()
    journal = Journal(sink, report, Clock(options.budget, began))
    try:
        with Scratch() as scratch:
            run(
                Job(script, options, settings, journal, python or Path(sys.executable), binds, network, is_local),
                scratch,
            )
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


def run(job: Job, disk: Scratch) -> None:
    """Every step of a job, in order."""
    with ExitStack() as machine:
        with ExitStack() as child:
            with job.journal.step(Step.PREPARE):
                job, place = machine.enter_context(prepared(job, disk))
                parts = child.enter_context(started(job, place))
            exact = compare_exactly(parts)
            routes = parts.routes(exact)
            between = reduce_between(parts, exact) if exact.found is not None else None
            found = between or reduce_graphs(parts, exact, routes)
            if isinstance(found, Made):
                follow(found, parts, routes)
            else:
                conclude(found, exact, parts)
            if between is not None:
                see_graphs(routes, parts.follow_up)
        if job.options.witness and is_worth_witnesses(parts):
            with parts.follow_up.adding(Step.WITNESS):
                hear_witnesses(parts, disk)


def compare_exactly(parts: Parts) -> Answer:
    """Whether the script sees something otherwise with the compiler, by its exact runs; nothing is asked of several processes."""
    options, journal = parts.job.options, parts.job.journal
    if options.nproc > 1 or options.expect not in ("auto", "accuracy"):
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


def reduce_between(parts: Parts, exact: Answer) -> Made | Settled | None:
    """The repro of a fault between graphs; a verdict without one, and a workaround, where what is left of it cannot be asserted.

    None, and nothing in the report, where that is so and a check of the script's own shows the fault as well.
    """
    between, journal, difference = parts.between, parts.job.journal, exact.found
    assert difference is not None
    before, find_workaround = journal.fault, partial(between.workaround, difference)
    try:
        repro = between.repro(difference)
    except ChildFailed as error:
        journal.log(f"between graphs: {error}")
        repro = None
    if repro is not None:
        return Made(Result(repro), None, find_workaround)
    if exact.failed_check:
        journal.fault = before
        return None
    parts.follow_up.work_around(find_workaround)
    failure = journal.fault.failure
    assert failure is not None
    how = "No repro was made: what differs cannot be asserted at the end of a smaller script."
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, f"{failure.message} {how}")


def reduce_graphs(parts: Parts, exact: Answer, routes: Routes) -> Made | Settled:
    """The repro of a failing graph, or of the script where no graph carries the failure; else the verdict."""
    found = survey(parts)
    made = found if isinstance(found, Settled) else routes.follow(found)
    if isinstance(made, Made):
        return made
    beyond = past_wrappers(made, exact, parts)  # while plain runs are under way
    # Plain runs are asked where no failure was seen, or one that is not ours to explain.
    is_error = isinstance(found, ScriptCase) and made.reason is Reason.NOT_VERIFIED and made.kind is not Kind.HANG
    verdict = against_plain_runs(parts, made, routes) if is_healthy(made) or is_starved(made) or is_error else made
    if isinstance(verdict, Made):
        return verdict
    if beyond is not made and is_healthy(verdict):
        return replace(verdict, status=beyond.status, reason=beyond.reason, summary=beyond.summary)
    last = parts.triage.by_layout(verdict)
    if isinstance(last, Settled):
        return last
    try:
        return routes.by_graph(last)
    except (Unreduced, ChildFailed) as error:
        return layout_unmade(verdict, str(error))


def survey(parts: Parts) -> Case | ScriptCase | Settled:
    """What the surveyed runs of the script come to."""
    with parts.job.journal.step(Step.SURVEY):
        parts.beside.submit(parts.executor.judge, [WARM_UP], timeout=VERIFY_SECONDS)
        try:
            return parts.triage.run()
        except BudgetExceeded as error:
            if not error.is_time:
                raise
            raise BudgetExceeded(f"{error}, {parts.surveys.doing}") from None


def against_plain_runs(parts: Parts, found: Settled, routes: Routes) -> Made | Settled:
    """A verdict in the light of what the script does untouched, or the repro of a failure that only shows there."""
    try:
        end = judge(PLAIN, PlainPair(found, parts.plain, *parts.plain.pair()))
        return routes.as_it_runs_plainly(end, parts.plain) if end is not found else end
    finally:
        fold.attempted(parts.job.report, [*routes.tried, *parts.plain.attempts])


def follow(made: Made, parts: Parts, routes: Routes) -> None:
    """Verify a repro, and find out what is worth knowing beside it."""
    job, follow_up = parts.job, parts.follow_up
    job.journal.watch()
    result = follow_up.verify(made.result)
    patient = made.patient if result.found is made.result.found else routes.patient(result)
    job.journal.keep()
    suspects: list[Region] = []
    if job.options.diagnosis:
        follow_up.diagnose(patient, made.find_workaround)
        follow_up.read_code(result)
        suspects = follow_up.describe(result)
        follow_up.examine()
        follow_up.compare(result)
    follow_up.look_further(result, suspects)


def conclude(found: Settled, exact: Answer, parts: Parts) -> None:
    """Give the verdict where there is nothing to verify."""
    settle(found, exact, parts.job.journal)
    parts.job.journal.decide()
    if found.status is Status.HEALTHY and parts.job.options.diagnosis:
        parts.follow_up.examine()


def past_wrappers(found: Settled, exact: Answer, parts: Parts) -> Settled:
    """A verdict; of a healthy script that does something else for what it sees of the compiler's wrappers, that."""
    if not is_healthy(found) or not exact.looks:
        return found
    try:
        with parts.job.journal.step(Step.EXACT):
            return parts.between.past_wrappers(found)
    except ChildFailed as error:
        parts.job.journal.log(f"wrappers: {error}")
    except BudgetExceeded as error:
        if not error.is_time:
            raise
    return found


def is_worth_witnesses(parts: Parts) -> bool:
    """Whether the compiler may be to blame for something, and a healthy script costs no more than a run or two of it."""
    report = parts.job.report
    if report.status is Status.HEALTHY:
        return report.timings[Step.SURVEY] <= CHEAP_SECONDS
    if parts.job.journal.fault.holds:
        return parts.follow_up.has_time(Step.WITNESS)
    return report.status is not Status.FAILED or report.reason is Reason.NOTHING_COMPILED


def hear_witnesses(parts: Parts, disk: Scratch) -> None:
    """Hear PyTorch's own tools, and take up the graph that only one of them has found, as a job of its own."""
    job, report = parts.job, parts.job.report
    job.journal.keep()
    testimonies = parts.follow_up.hear_witnesses()
    if job.journal.fault.holds:
        return
    for testimony in testimonies:
        if testimony.dump is not None and testimony.sees:
            folder = disk.path / f"witness-{testimony.after}"
            if take_up(testimony, job.journal, folder=folder, minimize=partial(_minimize_dump, job)):
                fold.heard(report, [heard.witness(fails=True) for heard in testimonies])
                return


def _minimize_dump(job: Job, script: Path, sink: Sink) -> Report:
    changes = {"budget": int(job.journal.clock.left), "witness": False, "args": [], "nproc": 1, "expect": "auto"}
    none = dict.fromkeys(("target", "steps", "hang_after"))
    return minimize(
        script,
        options=job.options.model_copy(update=changes | none),
        settings=job.settings,
        sink=sink,
        python=job.python,
        binds=job.binds,
        network=job.network,
        is_local=job.is_local,
    )

"""The verdict of a job in plain English: one headline, one explanation, one tone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minimizer.report.model import Failure
from minimizer.report.words import words_of
from minimizer.store import Job
from minimizer.vocabulary import Kind, Reason, Status, Step

Tone = Literal["waiting", "working", "found", "well", "unsure", "failed", "stopped"]


@dataclass(frozen=True)
class Verdict:
    """The content of the banner on top of a job."""

    tone: Tone
    label: str
    title: str
    text: str


_REASONS: dict[Reason, tuple[str, str]] = {
    Reason.FAILS_IN_EAGER: (
        "It also fails without torch.compile",
        "The script ends in the same way with the compiler switched off, so torch.compile is not to blame. "
        "Make it run in eager mode first.",
    ),
    Reason.NONDETERMINISTIC: (
        "Eager differs from eager",
        "Two runs without the compiler do not agree, so there is nothing to hold the compiled run against. "
        "Fix the seeds, or remove the source of chance.",
    ),
    Reason.DISPUTED: (
        "The script's own check fails, but not by what is computed",
        "What was compared agrees with eager within rounding: the check is stricter than that, or it reads a clock or a counter.",
    ),
    Reason.UNEXPLAINED: (
        "It fails with the compiler, and nothing shows why",
        "Run by itself the script fails with the compiler and not without it, every time, but in our own runs nothing differs.",
    ),
    Reason.NOTHING_COMPILED: (
        "Nothing was compiled",
        "The script never ran a compiled function, so nothing can be said about the compiler. "
        "Call what torch.compile returns, and make sure that TORCHDYNAMO_DISABLE is not set.",
    ),
    Reason.WRAPPER_EFFECT: (
        "The script looks at the wrapper",
        "What was compiled is right, but with torch.compile the script does something else, since it asks the wrapper for its names or "
        "class, or whether it is compiled. Let it look at the module itself (model._orig_mod), or compile that in place (model.compile()).",
    ),
    Reason.SANDBOX_DENIED: (
        "The sandbox was in the way",
        "The script needs a file, a variable or the network that the sandbox does not give it.",
    ),
    Reason.NOT_RUNNABLE: (
        "The script could not be run",
        "It ended before torch.compile came into play, or lacks something that it needs. The log has its output.",
    ),
    Reason.NOT_VERIFIED: (
        "Failure seen, but the repro is not verified",
        "The failure is real; the reduced script did not fail in the same way every time in a clean process.",
    ),
    Reason.BUDGET: (
        "The job came to a limit",
        "This is the best that was found by then. Where its time was up, run it again with more to go on.",
    ),
    Reason.INTERRUPTED: ("The job was interrupted", "Its workers went away more than once. Run it again."),
    Reason.INTERNAL_ERROR: (
        "Something went wrong on our side",
        "This is a fault of minimizer, not of your script. The log of the job has the details.",
    ),
    Reason.WORKER_TROUBLE: (
        "The machine could not do it",
        "No worker had the disk, the memory, the sandbox or the interpreter that the job needs; this says nothing about your script. "
        "Once that is mended, retry the job.",
    ),
}

_LABELS: dict[Status, tuple[Tone, str]] = {
    Status.QUEUED: ("waiting", "Queued"),
    Status.RUNNING: ("working", "Running"),
    Status.MINIMIZED: ("found", "Minimized"),
    Status.HEALTHY: ("well", "Healthy"),
    Status.PARTIAL: ("unsure", "Partial"),
    Status.FAILED: ("failed", "Failed"),
    Status.CANCELLED: ("stopped", "Cancelled"),
}


def tone(status: Status) -> Tone:
    """The colour family of a status."""
    return _LABELS[status][0]


def kind_tone(kind: Kind) -> Tone:
    """The colour family of a kind of failure: a crash or hang, an error, or silently wrong values."""
    return "found" if kind.is_numeric else "failed" if kind in (Kind.CRASH, Kind.HANG) else "unsure"


def label(status: Status) -> str:
    """The word for a status."""
    return _LABELS[status][1]


def verdict(job: Job) -> Verdict:
    """The text for the submitter of a job."""
    title, text = _words(job)
    return Verdict(
        tone(job.status), label(job.status), title, job.summary if job.status.is_final and job.summary else text
    )


def _words(job: Job) -> tuple[str, str]:
    match job.status:
        case Status.QUEUED:
            return (
                "Waiting for a worker",
                "It starts as soon as a worker is free. You can close this page; nothing is lost.",
            )
        case Status.RUNNING if job.cancel_requested:
            return "Stopping", "The worker ends at the next trial and keeps what it has found so far."
        case Status.RUNNING:
            step = Step(job.step) if job.step in list(Step) else Step.PREPARE
            return step.what, _so_far(job)
        case Status.HEALTHY:
            return "No failure found", "Compiled and eager agree in everything that was compared."
        case Status.CANCELLED:
            return "Cancelled", "It was stopped on request. What was found until then is kept."
        case Status.MINIMIZED:
            return _kind_title(job.failure, "Minimized"), "The repro below fails in the same way in a clean process."
        case _:
            return _of_reason(job)


def _of_reason(job: Job) -> tuple[str, str]:
    if job.reason is None:
        return _kind_title(job.failure, label(job.status)), "The report and the log have the details."
    title, text = _REASONS[job.reason]
    if job.reason is Reason.BUDGET and job.failure:
        title = f"{_kind_title(job.failure, title)}; then the job came to a limit"
    return title, text


def _so_far(job: Job) -> str:
    if job.can_stop:
        skip = "skip this step, or " if job.skippable else ""
        return f"The verdict is reached, and what follows only adds to the report: you can {skip}stop here and keep all there is."
    if job.failure:
        return f"{_kind_title(job.failure, 'It fails')}. The result so far is safe, whatever happens next."
    return "You can close this page; the job goes on and keeps its address."


def _kind_title(failure: Failure | None, otherwise: str) -> str:
    return words_of(failure).heading if failure is not None else otherwise

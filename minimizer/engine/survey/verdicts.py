"""The verdicts on a script that has no repro, and their texts: each says what was seen, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.child import protocol
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.survey.cases import Cache, ScriptCase, Settled, line_of, message_of, signal_name
from minimizer.engine.trouble import KILLED, KILLED_EACH_TIME
from minimizer.errors import GraphTooLarge, WorkerTrouble
from minimizer.report.excused import excused
from minimizer.vocabulary import Kind, Reason, Status, counted

NO_NETWORK = re.compile(r"name resolution|Name or service not known|Network is unreachable|getaddrinfo failed")

WANTS_ARGUMENTS = (
    "A script's own arguments go behind -- (minimizer run SCRIPT -- ARGS), in the form into the field Arguments, and over REST into the "
    "option args"
)


def wants_arguments(error: ExceptionInfo) -> bool:
    """Whether a script ended because of its command line: by the exit status that argparse and click have for it, or in ``sys.argv``."""
    is_refused = error.type == "SystemExit" and error.message == "2"
    is_missing = error.root_type == "IndexError" and bool(error.frames) and "argv" in error.frames[-1][2]
    return is_refused or is_missing


def starved(error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a script that runs out of GPU memory only in our compiled run, until plain runs decide."""
    return Settled(
        Status.PARTIAL,
        Reason.NOT_VERIFIED,
        f"With the compiler, and compared call by call, the script runs out of GPU memory ({line_of(error)}); without the compiler it does "
        "not. To compare, copies are kept of what every graph takes and gives: this says nothing of the compiler. A smaller batch, or a "
        "GPU with more memory, lets it be compared.",
        checked,
        exception=error,
    )


def unmade(
    how: str, kind: Kind, checked: protocol.Checked | None = None, error: ExceptionInfo | None = None, stack: str = ""
) -> Settled:
    """The verdict on a script that fails only when compiled, and neither in a graph nor without our hooks."""
    return Settled(
        Status.PARTIAL,
        Reason.NOT_VERIFIED,
        f"The script fails only with the compiler {how}, but no compiled graph fails in isolation, and without "
        "our hooks the script does not fail: no repro was made.",
        checked or protocol.Checked(),
        kind=kind,
        exception=error,
        traceback=stack,
    )


def disputed(error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a failing check of the script's own that reads a clock, or a counter of the compiler."""
    return Settled(
        Status.PARTIAL,
        Reason.DISPUTED,
        f"The script's own check fails ({line_of(error)}), and what it reads is a clock or a counter of the compiler: it says nothing of "
        "what is computed, and no call that was compared differs from eager.",
        checked,
        kind=Kind.WRONG_OUTPUT,
        exception=error,
        excused=(excused("reads_clock", line_of(error)),),
    )


def overwritten(how: str, error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a failing check of the script's own, where a compiled call overwrote an earlier output."""
    return Settled(
        Status.PARTIAL,
        Reason.NOT_VERIFIED,
        f"The script's own check fails ({line_of(error)}). Each call that was compared is right when it returns, but {how}: clone "
        "outputs that are kept, or have the backend hand out memory of its own for each.",
        checked,
        kind=Kind.WRONG_OUTPUT,
        exception=error,
    )


def hidden_failure(finished: protocol.Finished) -> Settled | None:
    """The verdict on a script that caught or suppressed an internal error of Dynamo, which no graph shows."""
    failed = finished.health.failed if finished.health is not None else []
    if not failed:
        return None
    return Settled(
        Status.PARTIAL,
        Reason.NOT_VERIFIED,
        f"Dynamo failed by itself, and the script hides it: {failed[0]}. It then ran without the compiler. Let the error through "
        "(no except around the call, no suppress_errors) to have it reduced.",
        finished.checked,
        kind=Kind.COMPILE_ERROR,
        notes=tuple(failed[1:]),
    )


def unsteady(finished: protocol.Finished) -> Settled:
    """The verdict on a script of which a graph gives something else in each eager run, and in which nothing else was found."""
    return Settled(
        Status.FAILED,
        Reason.NONDETERMINISTIC,
        f"Eager differs from eager in {finished.unsteady}: with the same inputs and the same random state it does not "
        "always give the same, so that nothing can be said about the compiler.",
        finished.checked,
    )


def layout_unmade(otherwise: Settled, why: str) -> Settled:
    """The verdict on a difference of memory layout only, of which no repro was made."""
    return replace(
        otherwise,
        status=Status.PARTIAL,
        reason=Reason.NOT_VERIFIED,
        summary=f"Values equal, memory layout differs: a compiled call returned tensors with other strides than eager. No repro was made: {why}",
        kind=Kind.WRONG_METADATA,
        layout_only=True,
    )


def unexamined(suspect: Settled) -> Settled:
    """The verdict where values behind a jump differ, and some part of the graph could not be judged in isolation."""
    return replace(
        suspect,
        status=Status.PARTIAL,
        reason=Reason.NOT_VERIFIED,
        summary="Values behind a jump (such as an argmax, a rounding or a comparison) differ between eager and the compiled code. "
        "That may be legal rounding that the jump amplified, but not every part of the graph could be compared in isolation: "
        "the cause is not known.",
        notes=(),
    )


def uncompared(healthy: Settled, graphs: Sequence[protocol.Uncompared]) -> Settled:
    """The verdict where all compared calls agree, but ``graphs`` have no comparable call."""
    more = f" and {len(graphs) - 1} more" if len(graphs) > 1 else ""
    first = f"compiled graph {graphs[0].graph} ({graphs[0].why})"
    return replace(
        healthy,
        status=Status.PARTIAL,
        reason=Reason.NOT_VERIFIED,
        summary=f"No difference was seen in {counted(healthy.checked.calls, 'call')}, but no call of {first}{more} could be compared "
        "with eager: it is not known whether the script is healthy.",
    )


def too_little(healthy: Settled, untouched: int) -> Settled:
    """The verdict where all compared calls agree, but there was no time for the first call of some keys."""
    return replace(
        healthy,
        status=Status.PARTIAL,
        reason=Reason.BUDGET,
        summary=f"No difference was seen in {counted(healthy.checked.calls, 'call')}, but there was no time to compare "
        f"{counted(untouched, 'combination')} of graph, module and size even once: a larger --budget gives it more.",
    )


def nothing_compiled(
    how: str, checked: protocol.Checked | None = None, *, children: int = 0, error: ExceptionInfo | None = None
) -> Settled:
    """The verdict on a script of which Dynamo compiled nothing; ``how``: a sentence on how it ended."""
    told = f"{how} Nothing was checked, and the compiler is to blame for nothing."
    if children:
        them = f"{children:,} child processes, which were" if children > 1 else "a child process, which was"
        told += (
            f" The script started {them} not looked at. A script whose processes are ranks can be run with --nproc, as torchrun would "
            "run it: one of them is looked at then."
        )
    return Settled(Status.FAILED, Reason.NOTHING_COMPILED, told, checked or protocol.Checked(), exception=error)


def of_caches(otherwise: Settled, cache: Cache, *, is_warm: bool) -> Settled:
    """The verdict on a failure that needs the compiler's caches, and goes away in runs that compile all graphs.

    ``is_warm``: it needs the cache that an earlier, healthy run has left.
    """
    left, missing = (
        ("where a run that was right had left them", "it takes two runs of a script")
        if is_warm
        else (
            "where earlier compilations had left them",
            "no calls of a part of its graph, one after another, showed it",
        )
    )
    return replace(
        otherwise,
        status=Status.PARTIAL,
        reason=Reason.UNEXPLAINED,
        cache=cache,
        summary=f"The script is right when it is compiled, and fails when its graphs are taken from {cache.name}, {left}: "
        f"{cache.message}. No repro was made: {missing}. TORCHINDUCTOR_FX_GRAPH_CACHE=0 and TORCHINDUCTOR_AUTOGRAD_CACHE=0 switch these caches off.",
    )


def before_a_frame(end: str, error: ExceptionInfo | None = None) -> str:
    """A sentence on a script that fails only with the compiler, but before Dynamo was given a frame."""
    is_of_compile = error is not None and any(
        file.startswith("torch/_dynamo/") or (file, name) == ("torch/__init__.py", "compile")
        for file, name, _ in error.frames
    )
    if is_of_compile:
        return f"torch.compile refuses what the script asks of it ({end}), before it was given anything to compile."
    return f"The script fails only where the compiler is switched on ({end}), but by then torch.compile had attempted no frame of it."


def opaque(held: protocol.Held) -> ScriptCase:
    """The result for a failing call whose graph or inputs cannot be expressed as a program."""
    failure = held.failure
    kind = Kind(failure.kind) if failure.kind else Kind.CRASH
    return ScriptCase(unmade(f"({message_of(failure.exception, failure.verdict)})", kind, error=failure.exception))


def too_large(held: protocol.Held, error: GraphTooLarge) -> ScriptCase:
    """The result for a failing call of a graph with more than `MAX_NODES` nodes."""
    found = opaque(held)
    message = message_of(held.failure.exception, held.failure.verdict)
    return ScriptCase(replace(found.otherwise, summary=f"The script fails only with the compiler ({message}). {error}"))


def denied(error: ExceptionInfo, place: Place) -> str:
    """Advice for a script that fails because of the sandbox; empty if that is not the cause."""
    if not place.sandbox.is_strong:
        return ""
    if not place.network and NO_NETWORK.search(error.root_message):
        return "it has no network there. Put what it downloads beside the script, or allow it with --network."
    if error.root_type == "KeyError" and error.frames and error.frames[-1][0] == "os.py":
        return f"it does not see the variable {error.root_message}. Pass it on with --env."
    missing = re.search(r"No such file or directory: '(/.*)'", error.root_message)
    if missing is not None and not any(Path(missing[1]).is_relative_to(path) for path in (*place.read, place.scratch)):
        return f"{missing[1]} is not shown to it, if it is there. Put it beside the script, or name it with --bind."
    if error.root_type == "PermissionError" or "Read-only file system" in error.root_message:
        return "it may only write to its working directory and below $HOME, which are thrown away."
    return ""


def not_runnable(survey: Survey, how: str) -> Settled:
    """The verdict on a run that does not come to its end; ``how``: with or without the compiler.

    Raises:
        WorkerTrouble: it was killed, the second time as well.
    """
    if survey.rule is KILLED:
        raise WorkerTrouble(f"the script, run {how}, {KILLED_EACH_TIME}")
    if survey.timed_out:
        why = "it did not end in time"
    elif survey.signal is not None:
        why = f"it died by {signal_name(survey.signal)}"
    else:
        why = f"it ended with status {survey.exit}"
    tail = survey.log.strip().splitlines()[-1:] or [""]
    return Settled(
        Status.FAILED, Reason.NOT_RUNNABLE, f"The script does not run here {how}: {why}. {tail[0][:300]}".strip()
    )

"""The verdicts on a script without a repro, and their texts: each says what was seen, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.child import protocol
from minimizer.engine.child.environment import Place
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.traced import Parting
from minimizer.engine.child.trouble import KILLED, KILLED_EACH_TIME
from minimizer.engine.child.watchdog import Silence
from minimizer.engine.survey.cases import Cache, ScriptCase, Settled, checked_of, line_of, message_of, signal_name
from minimizer.errors import WorkerTrouble
from minimizer.report.excused import Excused, excused
from minimizer.report.words import LAYOUT_ONLY
from minimizer.vocabulary import Kind, Reason, Status, counted

NO_NETWORK = re.compile(r"name resolution|Name or service not known|Network is unreachable|getaddrinfo failed")

WANTS_ARGUMENTS = (
    "A script's own arguments go behind -- (minimizer run SCRIPT -- ARGS), in the form into the field Arguments, and over REST into the "
    "option args"
)


def wants_arguments(error: ExceptionInfo) -> bool:
    """Whether a script ended because of its command line: by the exit status of argparse and click, or at ``sys.argv``."""
    is_refused = error.type == "SystemExit" and error.message == "2"
    is_missing = error.root_type == "IndexError" and bool(error.frames) and "argv" in error.frames[-1][2]
    return is_refused or is_missing


def fails_in_eager(
    error: ExceptionInfo, failed: Sequence[tuple[ExceptionInfo, str]], runs: int, checked: protocol.Checked
) -> Settled:
    """The verdict on a script that fails without the compiler too, in all or some of ``runs`` eager runs.

    ``error``: that of the compiled run. ``failed``: the exceptions of the eager runs, each with the last line printed.
    """
    raised, printed = failed[0]
    always = len(failed) == runs
    how = "" if always else f", in {len(failed)} of {counted(runs, 'run')}"
    is_same = raised.root_type == error.root_type
    blame = "torch.compile is not to blame." if is_same else f"with torch.compile it ends with {line_of(error)}."
    at = f" ({raised.source[0]}:{raised.source[1]})" if raised.source is not None else ""
    last = f"; the last line that it printed is: {printed}" if printed else ""
    end = f"{line_of(raised)}{at}{last}".rstrip(".")
    advice = WANTS_ARGUMENTS if wants_arguments(raised) else "Fix that first"
    reason = Reason.FAILS_IN_EAGER if always else Reason.NONDETERMINISTIC
    summary = f"The script also fails without torch.compile{how}: {end}. {advice}; {blame}"
    return Settled(Status.FAILED, reason, summary, checked, exception=raised)


def sandbox_denied(error: ExceptionInfo, advice: str, checked: protocol.Checked) -> Settled:
    """The verdict on a script that fails because of the sandbox; ``advice``: that of `denied`."""
    why = f"The sandbox keeps the script from what it needs ({line_of(error)}): {advice}"
    return Settled(Status.FAILED, Reason.SANDBOX_DENIED, why, checked, exception=error)


def starved(error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a script that runs out of GPU memory only in our compiled run, until plain runs decide."""
    summary = (
        f"With the compiler, and compared call by call, the script runs out of GPU memory ({line_of(error)}); without the compiler it does "
        "not. To compare, copies are kept of what every graph takes and gives: this says nothing of the compiler. A smaller batch, or a "
        "GPU with more memory, lets it be compared."
    )
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked, exception=error)


def unmade(
    how: str, kind: Kind, checked: protocol.Checked | None = None, error: ExceptionInfo | None = None, stack: str = ""
) -> Settled:
    """The verdict on a script that fails only when compiled, but neither in a graph nor without our hooks."""
    summary = (
        f"The script fails only with the compiler ({how}), but no compiled graph fails in isolation, and without "
        "our hooks the script does not fail: no repro was made."
    )
    checked = checked or protocol.Checked()
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked, kind, error, traceback=stack)


def disputed(error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a failing check of the script's own that reads a clock, or a counter of the compiler."""
    summary = (
        f"The script's own check fails ({line_of(error)}), and what it reads is a clock or a counter of the compiler: it says nothing of "
        "what is computed, and no call that was compared differs from eager."
    )
    return _in_dispute(excused("reads_clock", line_of(error)), summary, error, checked)


def disputed_values(error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a failing check of values by the script itself, while all compared calls match eager."""
    summary = (
        f"The script's own check fails ({line_of(error)}), but every compiled call that was compared agrees with eager within the "
        "tolerance of its dtype: only a wider tolerance, or the random stream, is in dispute."
    )
    return _in_dispute(excused("check_of_values", line_of(error)), summary, error, checked)


def _in_dispute(legal: Excused, summary: str, error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    return Settled(Status.PARTIAL, Reason.DISPUTED, summary, checked, Kind.WRONG_OUTPUT, error, excused=(legal,))


def overwritten(how: str, error: ExceptionInfo, checked: protocol.Checked) -> Settled:
    """The verdict on a failing check of the script's own, where a compiled call overwrote an earlier output."""
    summary = (
        f"The script's own check fails ({line_of(error)}). Each call that was compared is right when it returns, but {how}: clone "
        "outputs that are kept, or have the backend hand out memory of its own for each."
    )
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked, Kind.WRONG_OUTPUT, error)


def unread(suspect: ScriptCase, why: str = "") -> Settled:
    """The verdict if the script was not seen to read the output that a compiled call overwrote, or a zero whose sign it
    flipped.

    ``why``: why the comparison is incomplete; empty if complete.
    """
    legal = [*suspect.otherwise.excused]
    if suspect.written_over:
        legal.append(excused("outputs_unread", suspect.written_over))
    if suspect.other_zeros:
        legal.append(excused("other_zeros", suspect.other_zeros))
    notes = suspect.otherwise.notes
    if suspect.behind_change and why:
        legal.append(excused("gradients_unreplayed", suspect.behind_change))
        notes = (
            *notes,
            f"The script changes an input of a call before {suspect.behind_change}, which was not compared: {why}.",
        )
    return replace(suspect.otherwise, excused=tuple(legal), notes=notes)


def unasked(suspect: ScriptCase) -> Settled:
    """The verdict on a suspect whose script does not stand alone: as `unread`, with a note that it was not run side by
    side.
    """
    healthy = unread(
        suspect, "a script of several processes is not run side by side, nor one that is driven from outside"
    )
    note = "Whether the script reads what a compiled call wrote over was not seen: a script of several processes is not run side by side, nor one that is driven from outside."
    return replace(healthy, notes=(*healthy.notes, note)) if suspect.written_over else healthy


def maybe_read(suspect: ScriptCase, why: str) -> Settled:
    """The verdict if a compiled call overwrote an earlier output, and for the reason ``why`` it is unknown whether the
    script reads it.
    """
    summary = (
        f"Each call that was compared is right when it returns, but {suspect.written_over}. Whether the script reads that afterwards is "
        f"not known: {why}. {suspect.otherwise.summary}"
    )
    return replace(suspect.otherwise, status=Status.PARTIAL, reason=Reason.NOT_VERIFIED, summary=summary)


def unmade_reading(suspect: ScriptCase, parting: Parting) -> Settled:
    """The verdict without a repro if the script reads what a compiled call overwrote, or a zero of flipped sign."""
    if parting.overwrites:
        how = suspect.written_over or "a later call writes over an earlier result"
    else:
        how = f"{suspect.other_zeros or 'one of them'} gives a zero another sign than eager"
    summary = (
        f"Each call that was compared is right when it returns, but {how}, and the script reads that: {parting.what}."
    )
    return _wrong(suspect, summary)


def unmade_value(suspect: ScriptCase, what: str, kind: Kind | None) -> Settled:
    """The verdict without a repro if a suspect's program, run side by side, gives the wrong value ``what``."""
    return _wrong(
        suspect,
        f"Each call that was compared is right, but run side by side with eager the script gives a wrong value: {what}.",
        kind,
    )


def _wrong(suspect: ScriptCase, summary: str, kind: Kind | None = Kind.WRONG_OUTPUT) -> Settled:
    summary = f"{summary} No repro was made."
    verdict = replace(suspect.otherwise, status=Status.PARTIAL, reason=Reason.NOT_VERIFIED, summary=summary)
    return replace(verdict, kind=kind)


def hidden_failure(failed: Sequence[str], checked: protocol.Checked) -> Settled:
    """The verdict on a script that caught or suppressed internal errors of Dynamo, which no graph shows."""
    summary = (
        f"Dynamo failed by itself, and the script hides it: {failed[0]}. It then ran without the compiler. Let the error through "
        "(no except around the call, no suppress_errors) to have it reduced."
    )
    further = tuple(failed[1:])
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked, Kind.COMPILE_ERROR, notes=further)


def unsteady(finished: protocol.Finished) -> Settled:
    """The verdict on a script with a graph that differs between eager runs, and no other failure."""
    summary = (
        f"Eager differs from eager in {finished.unsteady}: with the same inputs and the same random state it does not "
        "always give the same, so that nothing can be said about the compiler."
    )
    return Settled(Status.FAILED, Reason.NONDETERMINISTIC, summary, finished.checked)


def other_draws(found: Settled, draws: protocol.OtherDraws) -> Settled:
    """The verdict on a script that is healthy otherwise, of which a random operator, compiled alone, draws otherwise than in eager."""
    summary = (
        f"Inductor's own {draws.what}: the operator was compiled alone, and both sides were run under equal seeds. With eager's random operators in "
        f"compiled code, by torch._inductor.config.fallback_random, which is a way around it: {found.summary}"
    )
    kind = Kind.WRONG_OUTPUT
    return replace(found, status=Status.PARTIAL, reason=Reason.UNEXPLAINED, summary=summary, kind=kind, draws=draws)


def layout_unmade(otherwise: Settled, why: str) -> Settled:
    """The verdict on a difference of memory layout only, without a repro."""
    return replace(
        otherwise,
        status=Status.PARTIAL,
        reason=Reason.NOT_VERIFIED,
        summary=f"{LAYOUT_ONLY.heading}: a compiled call returned tensors with other strides than eager. No repro was made: {why}",
        kind=Kind.WRONG_METADATA,
        layout_only=True,
    )


def unexamined(suspect: Settled) -> Settled:
    """The verdict if values behind a jump differ, and some part of the graph could not be judged in isolation."""
    summary = (
        "Values behind a jump (such as an argmax, a rounding or a comparison) differ between eager and the compiled code. "
        "That may be legal rounding that the jump amplified, but not every part of the graph could be compared in isolation: "
        "the cause is not known."
    )
    return replace(suspect, status=Status.PARTIAL, reason=Reason.NOT_VERIFIED, summary=summary, notes=())


def unchecked(checked: protocol.Checked) -> Settled:
    """The verdict on a script that ran to its end without a comparable call."""
    summary = (
        f"The script ran to its end, but no call of its {counted(checked.graphs, 'compiled graph')} could be compared "
        "with eager: nothing was checked but that it compiles and runs."
    )
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked)


def uncompared(healthy: Settled, graphs: Sequence[protocol.Uncompared]) -> Settled:
    """The verdict if all compared calls match, but ``graphs`` have no comparable call."""
    more = f" and {len(graphs) - 1} more" if len(graphs) > 1 else ""
    first = f"compiled graph {graphs[0].graph} ({graphs[0].why})"
    summary = (
        f"No difference was seen in {counted(healthy.checked.calls, 'call')}, but no call of {first}{more} could be compared "
        "with eager: it is not known whether the script is healthy."
    )
    return replace(healthy, status=Status.PARTIAL, reason=Reason.NOT_VERIFIED, summary=summary)


def too_little(healthy: Settled, untouched: int) -> Settled:
    """The verdict if all compared calls match, but time was lacking for the first call of some keys."""
    summary = (
        f"No difference was seen in {counted(healthy.checked.calls, 'call')}, but there was no time to compare "
        f"{counted(untouched, 'combination')} of graph, module and size even once: a larger --budget gives it more."
    )
    return replace(healthy, status=Status.PARTIAL, reason=Reason.BUDGET, summary=summary)


def nothing_compiled(how: str, finished: protocol.Finished, checked: protocol.Checked | None = None) -> Settled:
    """The verdict on a script of which Dynamo compiled nothing; ``how``: a sentence on how it ended."""
    told, children = f"{how} Nothing was checked, and the compiler is to blame for nothing.", finished.children
    if children:
        them = f"{children:,} child processes, which were" if children > 1 else "a child process, which was"
        told += (
            f" The script started {them} not looked at. A script whose processes are ranks can be run with --nproc, as torchrun would "
            "run it: one of them is looked at then."
        )
    checked = checked or finished.checked
    return Settled(Status.FAILED, Reason.NOTHING_COMPILED, told, checked, exception=finished.exception)


def of_caches(otherwise: Settled, cache: Cache, *, is_warm: bool) -> Settled:
    """The verdict on a failure that needs the compiler's caches, and disappears in runs that compile all graphs.

    ``is_warm``: it needs the cache left by an earlier, healthy run.
    """
    if is_warm:
        left, missing = "where a run that was right had left them", "it takes two runs of a script"
    else:
        left = "where earlier compilations had left them"
        missing = "no calls of a part of its graph, one after another, showed it"
    summary = (
        f"The script is right when it is compiled, and fails when its graphs are taken from {cache.name}, {left}: "
        f"{cache.message}. No repro was made: {missing}. TORCHINDUCTOR_FX_GRAPH_CACHE=0 and TORCHINDUCTOR_AUTOGRAD_CACHE=0 switch these caches off."
    )
    return replace(otherwise, status=Status.PARTIAL, reason=Reason.UNEXPLAINED, cache=cache, summary=summary)


LOOKED_FOR = ("AttributeError", "KeyError", "TypeError")
"""Exceptions for a missing attribute, item or method: a compiled function lacks some that a method has."""


def before_a_frame(end: str, finished: protocol.Finished | None = None) -> Settled:
    """The verdict on a script that fails only with the compiler, but before Dynamo got a frame; ``end``: how, in words."""
    finished = finished or protocol.Finished()
    error = finished.exception
    is_of_compile = error is not None and any(
        file.startswith("torch/_dynamo/") or (file, name) == ("torch/__init__.py", "compile")
        for file, name, _ in error.frames
    )
    if is_of_compile:
        how = f"torch.compile refuses what the script asks of it ({end}), before it was given anything to compile."
    else:
        how = f"The script fails only where the compiler is switched on ({end}), but by then torch.compile had attempted no frame of it."
    if error is not None and not is_of_compile and error.source is not None and error.type in LOOKED_FOR:
        _, number, code = error.source
        how += (
            f" Line {number} ({code}) may look for what the object that torch.compile returned lacks: give it the function or the module "
            "itself, or compile behind it."
        )
    return nothing_compiled(how, finished)


def opaque(held: protocol.Held) -> ScriptCase:
    """The result for a failing call whose graph or inputs cannot be expressed as a program."""
    failure = held.failure
    kind = Kind(failure.kind) if failure.kind else Kind.CRASH
    return ScriptCase(unmade(message_of(failure.exception, failure.verdict), kind, error=failure.exception))


def too_large(held: protocol.Held, why: str) -> ScriptCase:
    """The result for a failing call of a graph with more than `MAX_NODES` nodes."""
    found = opaque(held)
    message = message_of(held.failure.exception, held.failure.verdict)
    return ScriptCase(replace(found.otherwise, summary=f"The script fails only with the compiler ({message}). {why}"))


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
    """The verdict on a run that does not complete; ``how``: with or without the compiler.

    Raises:
        WorkerTrouble: it was killed twice.
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
    summary = f"The script does not run here {how}: {why}. {tail[0][:300]}".strip()
    return Settled(Status.FAILED, Reason.NOT_RUNNABLE, summary)


def stuck_ranks(how: str) -> Settled:
    """The verdict on ranks that deadlock without the compiler too; ``how``: what each does, in words."""
    summary = f"The ranks of the script wait for one another with and without the compiler: {how}."
    return Settled(Status.FAILED, Reason.NOT_RUNNABLE, summary)


def died_compared(survey: Survey) -> Settled:
    """The verdict on a script that dies by a signal only while it is compared."""
    assert survey.signal is not None
    summary = (
        f"The compiled script runs to its end, but died by {signal_name(survey.signal)} while it was compared with eager: "
        "its values could not be checked. That is no failure of the script."
    )
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked_of(survey.phase))


def slow(survey: Survey) -> Settled:
    """The verdict on a compiler that did not return, but was seen at work in different places."""
    assert survey.silence is not None
    summary = (
        f"Slow, but no hang: torch.compile had not come back after {survey.silence.seconds:.0f} seconds, and was seen at work in different "
        "places. A larger --hang-after lets it go on."
    )
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked_of(survey.phase))


def standing_still(silence: Silence) -> str:
    """A clause on a compiler that hangs."""
    when = "all the while" if silence.stayed is None else f"for the last {silence.stayed:.0f} of them"
    return f"torch.compile had not come back after {silence.seconds:.0f} seconds, and is in {silence.text} {when}"


def hang(survey: Survey, how: str, dump: str) -> Settled:
    """The verdict on a hang without a call of a graph that can be held."""
    checked = checked_of(survey.phase)
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, f"Hang: {how}.", checked, kind=Kind.HANG, traceback=dump)

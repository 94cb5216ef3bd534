"""The sections of `report.md` and `issue.md`. Their order is in `as_markdown`.

Text from the user's script or the compiler is untrusted, and goes through `safe_markdown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from minimizer.report.ablation import Row, rows
from minimizer.report.confidence import confidence
from minimizer.report.culprit import MOST_CULPRITS, Culprit, Error, Source, SourceLine
from minimizer.report.figures import differences
from minimizer.report.health_section import costliest
from minimizer.report.instances import compared
from minimizer.report.model import Failure, Report, ScriptError
from minimizer.report.outcomes import in_words
from minimizer.report.safe_markdown import block, bullets, code, escape, folded, table, without_folders
from minimizer.report.version_span import span
from minimizer.report.words import words_of
from minimizer.vocabulary import Reason, Stage, Status, counted

NO_FAILURE = {
    Reason.FAILS_IN_EAGER: "The script also fails without torch.compile.",
    Reason.NONDETERMINISTIC: "The script gives different results from run to run without the compiler, so nothing can be compared.",
    Reason.DISPUTED: "The script's own check fails, but only by tolerance, timing or the random stream.",
    Reason.UNEXPLAINED: "Run by itself, the script fails only with the compiler, and nothing shows why.",
    Reason.NOTHING_COMPILED: "The script compiled nothing.",
    Reason.WRAPPER_EFFECT: "What was compiled is right, but the script does something else because it looks at the compiler's wrapper.",
    Reason.SANDBOX_DENIED: "The script needs something that the sandbox keeps from it.",
    Reason.NOT_RUNNABLE: "The script could not be run.",
    Reason.BUDGET: "The time budget was used up before a failure was found.",
    Reason.INTERRUPTED: "The job was interrupted before a failure was found.",
    Reason.INTERNAL_ERROR: "The minimizer itself failed; this says nothing about the script.",
    Reason.WORKER_TROUBLE: "The machine could not do the job; this says nothing about the script.",
}
STAGES = {
    Stage.DYNAMO: "Dynamo", Stage.AOT_AUTOGRAD: "AOTAutograd", Stage.DECOMPOSITION: "the decomposition step",
    Stage.INDUCTOR: "Inductor", Stage.CUDAGRAPHS: "CUDA graphs", Stage.CUSTOM_BACKEND: "a custom backend",
}  # fmt: skip
WARNING = re.compile(r"^\S+:\d+: \w*Warning: .*\n(?:  .*\n)?", re.MULTILINE)
"""Matches Python's output for a warning, with the source line below it; a machine without numpy has one at the start.
"""
NO_GPU = re.compile(r"\bNo CUDA runtime is found, using CUDA_HOME=")
"""Matches torch's log message on every machine with a CUDA toolkit and no GPU, whatever the script does."""
ENVIRONMENT = (
    "torch", "device", "python", "platform", "os", "cpu", "gpu", "cuda", "cudnn", "rocm", "triton", "compiler", "gcc", "driver",
    "glibc", "threads", "numpy", "git_version",
)  # fmt: skip
"""The environment facts shown. No others, so that no variable's value can slip in."""
MAX_MESSAGE_LINES = 30
MAX_STACK_LINES = 80
"""They come shortened, unless the child was hostile."""


def is_in_dispute(report: Report) -> bool:
    """Whether only the script's own check claims a failure, and no repro shows it."""
    return report.reason is Reason.DISPUTED and report.reduction is None


def verdict(report: Report) -> str:
    """Two sentences of plain English: what is wrong, and who is to blame."""
    failure = report.failure
    if failure is None or is_in_dispute(report) or report.reason is Reason.UNEXPLAINED:
        if report.status is Status.HEALTHY:
            is_open = any(one.leaves_open for one in report.checked.excused)
            first = "No failure was found in what was compared." if is_open else "No failure was found."
        else:
            first = NO_FAILURE.get(report.reason, "No answer yet.") if report.reason else "No answer yet."
        second = costliest(report) if report.status is Status.HEALTHY else ""
        return " ".join(filter(None, (f"**{first}**", second, escape(report.summary) or "Nothing more is known.")))
    rate = failure.reproducibility
    often = f"in {rate.failed} of {counted(rate.runs, 'run')} of the script"
    device = report.environment.get("device")
    where = f" on {escape(device)}" if device else ""
    second = escape(failure.message) if failure.kind.is_finding else f"{_blamed(report)}{_blamed_stage(failure.stage)}"
    if report.status is not Status.MINIMIZED:
        second += f" {escape(report.summary)}"
    return f"**{words_of(failure).heading} under `torch.compile`{where}, {often}.** {second}".rstrip()


def _blamed_stage(stage: Stage) -> str:
    if stage is Stage.CUSTOM_OP:
        return ", an operator of the script's own: it is at fault, and not the compiler."
    blame = STAGES.get(stage)
    return (
        f", and {blame} is the first part of the compiler to go wrong." if blame else "; the stage to blame is unknown."
    )


def reproducer(report: Report, repro: str | None) -> str:
    if report.failure is None:
        return ""
    if repro is None:
        return "None: the failure was seen, but no standalone script that shows it."
    found = report.verification
    if found is None or not found.runs:
        said = "It was not verified."
    else:
        how = "fresh processes" if found.clean_process else "processes that were not fresh"
        not_passed = "was not seen to pass" if found.stopped else "**does not pass**"
        off = "passes" if found.passes_with_compiler_off else not_passed
        said = f"Run from this text in {how} `repro.py` failed in the same way in {found.failed_same} of {counted(found.runs, 'run')}, and it {off} with `TORCHDYNAMO_DISABLE=1`."
        if not found.holds:
            said = f"**Not verified.** {said}"
        if found.stopped:
            said += f" {counted(found.stopped, 'run')} of these {found.runs + 1} had to be stopped: a larger `--budget`, or a machine with less to do, may tell."
        if not found.public_api:
            said += " It needs more than the public `torch.compile`."
    if found is not None and found.holds:
        what = "finding" if report.failure.kind.is_finding else "bug"
        said += f" It exits with 1 while the {what} is there, 0 once it is gone, and 125 if it cannot run."
    return f"{said}\n\n{block(repro, 'python')}"


def error_logs(report: Report) -> str:
    """The script's error output, and the reproducer's if it differs."""
    failure = report.failure
    if failure is None:
        return _script_error(report.error) if report.error is not None else ""
    said = printed(report)
    parts = [
        code(failure.exception_type or ""),
        f"{_of_what(failure)}:\n\n{log(shown(failure.traceback, failure.message), MAX_STACK_LINES)}"
        if failure.message or failure.traceback
        else "",
        f"What the reproducer printed:\n\n{log(said)}" if said else "",
    ]
    return "\n\n".join(filter(None, parts))


def _of_what(failure: Failure) -> str:
    """The source of a message; a silently wrong script has none."""
    is_ours = failure.kind.is_numeric and failure.exception_type is None and not failure.is_between_graphs
    return "The first difference in what a graph of the script returns" if is_ours else "What the script showed"


def printed(report: Report) -> str:
    """The reproducer's output; empty if it repeats the script's error."""
    if report.verification is None or (report.verification.holds and report.failure and report.failure.traceback):
        return ""
    lines = WARNING.sub("", report.verification.output).splitlines()
    return "\n".join(line for line in lines if not NO_GPU.search(line)).strip()


def _script_error(error: ScriptError) -> str:
    where = f" at {_place(error.source)}" if error.source is not None else ""
    return f"{code(error.exception_type)}{where}\n\n{log(shown(error.traceback, error.message), MAX_STACK_LINES)}"


def shown(stack: str, message: str) -> str:
    """A stack, followed by the message, unless the stack ends with it."""
    first = next(iter(message.splitlines()), "")
    return stack if stack and first.partition(": ")[2] in stack else "\n\n".join(filter(None, (stack, message)))


def log(text: str, most: int = MAX_MESSAGE_LINES) -> str:
    """The end of a log, without the folders of the machine."""
    lines = [without_folders(line) for line in text.splitlines() if not NO_GPU.search(line)]
    left_out = [f"... {counted(len(lines) - most, 'line')} before"] if len(lines) > most else []
    return block("\n".join([*left_out, *lines[-most:]]), "text")


def culprits(report: Report) -> str:
    if report.failure is None:
        return ""
    return "\n\n".join(filter(None, (_difference(report), "\n".join(map(_culprit, report.culprits)) or "unknown")))


def _difference(report: Report) -> str:
    """The largest measured difference, with its object; then those of other objects."""
    first, *others = [escape(figure.words) for figure in differences(report)] or [""]
    return f"Largest difference: **{first}**{''.join(f'; {other}' for other in others)}." if first else ""


def _culprit(culprit: Culprit) -> str:
    what = ", ".join(map(code, culprit.operators)) or escape(culprit.what) or "unknown"
    line = _place(culprit.source) if culprit.source else "line unknown"
    module = f"module {code(culprit.module_name)}" if culprit.module else "module unknown"
    role = "" if culprit.root else " (follows from another)"
    equal = f"equal modules: {escape(culprit.others)} ({compared(culprit.model_dump())})" if culprit.others else ""
    more = [
        *filter(None, [equal]),
        *_errors(culprit),
        *([escape(culprit.what)] if culprit.operators and culprit.what else []),
    ]
    return f"- {what}{role}, {module}, {line}" + "".join(f"\n  - {text}" for text in more)


def _place(source: Source | SourceLine) -> str:
    """File, line and code; of a library's line that it calls, those as well."""
    file = source.file.rpartition("/")[2] if source.file.startswith("/") else source.file
    said = f"{code(file)} line {source.line}" + (f": {code(source.code)}" if source.code else "")
    library = source.library if isinstance(source, Source) else None
    return f"{said}, which calls {_place(library)}" if library is not None else said


def _errors(culprit: Culprit) -> Iterable[str]:
    for name, error in (
        ("in the repro", culprit.local_error),
        ("in the whole model", culprit.propagated_error),
    ):
        if error is not None and (said := _error(error)):
            yield f"error {name}: {said}"


def _error(error: Error) -> str:
    parts = [
        ("max. absolute", error.max_abs), ("max. relative", error.max_rel),
        ("compiled against fp64", error.compiled_vs_fp64), ("eager against fp64", error.eager_vs_fp64),
        ("would pass with atol", error.required_atol), ("would pass with rtol", error.required_rtol),
    ]  # fmt: skip
    said = [f"{name} {value:.3g}" for name, value in parts if value is not None]
    if error.mismatched is not None:
        said.append(
            f"{error.mismatched:,} of {counted(error.elements, 'element')}"
            if error.elements is not None
            else counted(error.mismatched, "element")
        )
    return ", ".join(said)


def ablation(report: Report) -> str:
    ablated = table(
        ("compiled with", "outcome", "seconds", "says"),
        [
            (of_row(row), ending(row), "" if row.seconds is None else f"{row.seconds:.1f}", escape(row.says))
            for row in rows(report)
        ],
    )
    parts = filter(None, (ablated, part(report), *settings(report)))
    return "\n\n".join(parts) or _unknown(report)


def of_row(row: Row) -> str:
    """The subject of an ablation row."""
    return f"{code(row.what)} {escape(row.how)}".rstrip()


def ending(row: Row) -> str:
    """The outcome of an ablation row, with its error if that differs from the script's."""
    return f"{escape(row.outcome)}{f': {code(row.raised)}' if row.raised else ''}"


def settings(report: Report) -> tuple[str, str]:
    """The settings that change something, and those that do not."""
    telling = [flag for flag in report.flags if flag.outcome != "fails"]
    flags = table(
        ("setting", "value", "outcome"), [(code(f.name), code(f.value), escape(in_words(f.outcome))) for f in telling]
    )
    rest = [code(f"{flag.name} = {flag.value}") for flag in report.flags if flag.outcome == "fails"]
    return flags, folded(
        f"The failure stays with each of {counted(len(rest), 'setting')}", ", ".join(rest)
    ) if rest else ""


def part(report: Report) -> str:
    """The part of the stage that is to blame, and how it was confirmed."""
    blame = report.blame
    if blame is None:
        return ""
    if not blame.items:
        return f"Part to blame: unknown. {escape(blame.what)}"
    said = f"Part to blame: {escape(blame.what)} ({', '.join(map(code, blame.items))}), found in {counted(blame.runs, 'run')}."
    if blame.confirmed:
        said += " Turning it off fixes the failure; turning on only this one brings it back."
    else:
        said += " Turning it off fixes the failure; that it is enough by itself could not be shown."
    on_script = {
        True: " Without it the whole script passes.",
        False: " The whole script still fails without it.",
        None: "",
    }
    return said + on_script[blame.confirmed_on_script]


def _before(where: str) -> str:
    """The place of a workaround, with the line that it quotes as code."""
    before, bracket, quoted = where.partition(" (")
    return f"{escape(before)} ({code(quoted[:-1])})" if before.startswith("before line ") and bracket else escape(where)


def workaround(report: Report) -> str:
    if report.workaround is None:
        return _unknown(report)
    workaround = report.workaround
    if not workaround.code:
        return escape(workaround.what) or "unknown"
    said = "With this the script passes" if workaround.verified else "Not verified"
    where = f", {_before(workaround.where)}" if workaround.where and not workaround.diff else ""
    cost = f"\n\nWhat it does: {escape(workaround.what)}." if workaround.what else ""
    shown = block(workaround.diff, "diff") if workaround.diff else block(workaround.code, "python")
    return f"{said}{where}:\n\n{shown}{cost}"


def how_sure(report: Report) -> str:
    found = confidence(report)
    return f"Confidence: **{found.level}**. {' '.join(f'{escape(reason)}.' for reason in found.reasons)}"


def witnesses(report: Report) -> str:
    said = {True: "agrees", False: "disagrees", None: "says nothing"}
    rows = [(f"`{w.after}`, level {w.level}", escape(w.outcome), said[w.agrees]) for w in report.witnesses]
    return table(("after", "outcome", ""), rows)


def also_seen(report: Report) -> str:
    """Other failures met on the way."""
    return bullets(
        f"{code(seen.kind)} {code(seen.message or seen.signature)}, {_times(seen.times)}" for seen in report.also_seen
    )


def attempts(report: Report) -> str:
    rows = [(escape(attempt.what), escape(attempt.outcome), f"{attempt.seconds:.0f}") for attempt in report.attempts]
    return table(("what was tried", "how it ended", "seconds"), rows if [row[1] for row in rows] != ["a repro"] else [])


def versions(report: Report) -> str:
    said = {"fails": "fails", "passes": "passes", "cannot_run": "cannot run"}
    rows = [
        (code(v.torch) or "unknown", escape(v.name), said[v.outcome] + (f": {escape(v.note)}" if v.note else ""))
        for v in report.versions
    ]
    between = escape(str(span(report.versions)))
    between = f"{between[0].upper()}{between[1:]}." if between else ""
    outcomes = table(("torch", "interpreter", "the reproducer"), rows)
    return "\n\n".join(filter(None, (outcomes, between, environment(report))))


def environment(report: Report) -> str:
    return (
        bullets(f"{name}: {code(report.environment[name])}" for name in ENVIRONMENT if report.environment.get(name))
        or "unknown"
    )


# Small forms -------------------------------------------------------------------------------------------------------


def _blamed(report: Report) -> str:
    """The beginning of a sentence that names the culprit."""
    roots = report.roots
    ops = list(dict.fromkeys(op for culprit in roots for op in culprit.operators))
    names = ", ".join(map(code, ops[:MOST_CULPRITS])) or next((escape(c.what) for c in roots if c.what), "unknown")
    module = next((c.module_name for c in roots if c.module), "")
    where = f" in {code(module)}" if module and names != "unknown" else ""
    is_minimal = report.reduction is not None and report.reduction.fails_only_together
    if len(ops) < 2:
        return f"The culprit is {names}{where}"
    if not is_minimal and len(ops) > MOST_CULPRITS:
        return f"The culprit is among {len(ops)} operators{where}"
    return f"{'These operations fail only together:' if is_minimal else 'The culprits are'} {names}{where}"


def _unknown(report: Report) -> str:
    """The word for a missing part in a report of a fault; a finding has remedies instead."""
    return "unknown" if report.failure is not None and not report.failure.kind.is_finding else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"

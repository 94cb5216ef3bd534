"""The sections only in `issue.md`: a title and text for compiler engineers, without details of the script."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import minimizer
from minimizer.report import sections
from minimizer.report.ablation import of_compiler
from minimizer.report.figures import differences
from minimizer.report.generated_code import Shown, blocks
from minimizer.report.maintainers import labels
from minimizer.report.model import Failure, Report
from minimizer.report.safe_markdown import block, code, escape, folded, table, without_folders
from minimizer.report.version_span import span
from minimizer.report.words import words_of
from minimizer.vocabulary import Kind, Stage, counted

MOST_TITLE = 99
"""Characters of a title: longer ones are cut in lists."""
AREAS = {
    Stage.DYNAMO: "dynamo", Stage.AOT_AUTOGRAD: "aot_autograd", Stage.DECOMPOSITION: "decomp", Stage.INDUCTOR: "inductor",
    Stage.CUDAGRAPHS: "cudagraphs",
}  # fmt: skip
"""Bracketed prefixes of titles in PyTorch's tracker."""
MECHANISMS = {
    "lost_mutation": "loses a change of {what}",
    "stale_guard": "reuses compiled code although {what} has changed",
    "leaked_state": "leaves {what} changed behind a call",
    "wrong_order": "puts {what} in another order",
    "skipped_handler": "skips an exception handler",
    "missed_hook": "does not run a hook ({what})",
    "late_read": "freezes {what} for the backward at the time of the forward",
    "lost_gradient": "loses a gradient ({what})",
    "wrong_constant": "computes {what} otherwise than eager",
}
EXTRA_CHANGE = "makes a change of {what} that eager does not make there"
FACTS = {
    "torch": "PyTorch version", "git_version": "PyTorch commit", "cuda": "CUDA used to build PyTorch", "rocm": "ROCM used to build PyTorch",
    "os": "OS", "gcc": "GCC version", "compiler": "Compiler", "glibc": "Libc version", "python": "Python version", "platform": "Python platform",
    "device": "Device of the reproducer", "gpu": "GPU models and configuration", "driver": "Nvidia driver version",
    "cudnn": "cuDNN version", "cpu": "CPU", "threads": "CPU threads", "triton": "Triton version", "numpy": "numpy version",
}  # fmt: skip
"""Facts of the environment by the names that ``torch.utils.collect_env`` prints them under."""
INJECTED = re.compile(r"torch\.[\w.]+_TESTING_ONLY\b")
MOST_FACT = 120
MOST_NAMES = 3
PUBLIC = ("torch.{}", "torch.nn.functional.{}", "F.{}")


@dataclass(frozen=True)
class Cut:
    """The parts of an issue left out to fit it into a link."""

    log_lines: int = sections.MAX_STACK_LINES
    has_settings: bool = True
    """Those that change nothing."""
    has_repro: bool = True
    code: Shown = "all"
    """How much is shown of what Inductor has generated."""


def title(report: Report, repro: str) -> str:
    """One ASCII line below 100 characters: the part of the compiler, the operators, and their fault; fewer operators if
    it is long.
    """
    lines = [_plain(_titled(report, subject(report, repro, most=most))) for most in range(MOST_NAMES, 0, -1)]
    cut = f"{lines[-1][: MOST_TITLE - 3].rpartition(' ')[0]}..."
    return next((line for line in lines if len(line) <= MOST_TITLE), cut)


def _titled(report: Report, subject: str) -> str:
    failure = report.failure
    assert failure is not None
    said = f"{subject} {_does(failure)}"
    if failure.is_between_graphs:
        said = f"torch.compile {_does(failure)}"
    elif failure.kind in (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR) and failure.exception_type:
        verb = "raises only when compiled" if failure.kind is Kind.RUNTIME_ERROR else words_of(failure).does
        said = f"{subject} {verb}: {_exception(failure)}"
    elif failure.kind is Kind.CRASH and (signal := re.search(r"\bSIG[A-Z]+\b", failure.message)):
        said = f"{subject} crashes ({signal[0]})"
    device = report.environment.get("device", "")
    if failure.kind.is_numeric and not failure.is_between_graphs and device:
        said += f" on {device.upper()}"
    return f"[{AREAS.get(failure.stage, 'torch.compile')}] {said}"


def subject(report: Report, repro: str, quoted: Callable[[str], str] = str, most: int = MOST_NAMES) -> str:
    """The operators at fault, up to a maximum, by the public names in the repro; ``quoted`` formats a name."""
    names = list(dict.fromkeys(_public(op, repro) for c in report.roots for op in c.operators))
    if not names:
        what = next((c.what for c in report.roots if c.what), "")
        return f"a script with {what}" if what else "a function"
    shown = ", ".join(quoted(name) for name in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return shown if len(names) == 1 else f"a graph of {shown}{more}"


def description(report: Report, repro: str) -> str:
    """What is wrong, how often, in which part of the compiler, and by how much: a paragraph for a reader without the
    script.
    """
    failure, found = report.failure, report.verification
    assert failure is not None and found is not None
    rate, device = failure.reproducibility, report.environment.get("device")
    what = "`torch.compile`" if failure.is_between_graphs else subject(report, repro, code)
    under = "" if failure.is_between_graphs else " under `torch.compile`"
    said = [f"{what[0].upper()}{what[1:]} {escape(_does(failure))}{under}{f' on {escape(device)}' if device else ''}."]
    if injected := INJECTED.search(repro):
        said.append(
            f"The fault is injected: {code(injected[0])} is a switch of PyTorch's own tests, and the reproducer sets it."
        )
    processes = "process" if found.runs == 1 else "processes"
    said.append(
        f"The reproducer fails in {found.failed_same} of {found.runs} clean {processes} and passes with `TORCHDYNAMO_DISABLE=1`; "
        f"the script that it was reduced from failed in {rate.failed} of {counted(rate.runs, 'run')}."
    )
    if failure.stage in sections.STAGES and not failure.is_between_graphs and report.ladder:
        said.append(
            f"On the ladder of backends {sections.STAGES[failure.stage]} is the first to fail{_elsewise(report)}."
        )
    if figures := differences(report):
        said.append(f"Largest difference from eager: {'; '.join(escape(figure.words) for figure in figures)}.")
    return " ".join(said)


def _elsewise(report: Report) -> str:
    """The failure of the first failing rung, if it differs from the script's."""
    first = next((rung for rung in report.ladder if rung.outcome != "passes"), None)
    if first is None or not first.raised:
        return ""
    backend = code(f'backend="{first.backend}"')
    return f": with {backend} the reproducer raises {code(without_paths(first.raised))} instead"


def reproducer(report: Report, repro: str, cut: Cut) -> str:
    """The repro, or where it is."""
    how = "It exits with 1 while the bug is there, 0 once it is gone, and 125 if it cannot run."
    if not cut.has_repro:
        return f"`repro.py`, attached. {how}"
    return f"{how}\n\n{block(repro, 'python')}"


def ablation(report: Report, cut: Cut) -> str:
    """What fails and what passes as the compiler is taken apart; without times, which depend on the machine's load."""
    ladder = table(
        ("compiled with", "outcome"), [(sections.of_row(row), sections.ending(row)) for row in of_compiler(report)]
    )
    telling, without_effect = sections.settings(report)
    parts = [ladder, sections.part(report), telling, without_effect if cut.has_settings else ""]
    return without_paths("\n\n".join(filter(None, parts)))


def seen_between(report: Report) -> str:
    """Of a fault between graphs: its object in both runs of the script."""
    rows = [[escape(seen.when), code(seen.eager), code(seen.compiled)] for seen in report.observed]
    return without_paths(table(("in the script", "eager", "compiled"), rows))


def workaround(report: Report) -> str:
    """A change with which the script passes, and its cost; without one, the changes tried."""
    found = report.workaround
    if found is None:
        return "None was looked for."
    if not found.code or not found.verified:
        return without_paths(escape(found.what)) if found.what else "None is known."
    does = f"\n\nWhat it does: {escape(found.what)}." if found.what else ""
    return without_paths(f"With this the script passes:\n\n{block(found.code, 'python')}{does}")


def generated(report: Report, cut: Cut) -> str:
    """The code that Inductor generates for the repro, folded."""
    found = blocks(report.generated_code, cut.code)
    return folded("Generated code", without_paths(found)) if found else ""


def logs(report: Report, cut: Cut) -> str:
    """The stack of an error; for a wrong value the reproducer's output, since the script's own output is on other
    inputs.
    """
    failure = report.failure
    assert failure is not None
    if printed := sections.printed(report):
        return sections.log(printed, cut.log_lines)
    shown = sections.shown(failure.traceback, failure.message)
    if not shown:
        return "none: nothing but the values shows it"
    return f"Of the script that the reproducer was reduced from:\n\n{sections.log(shown, cut.log_lines)}"


def versions(report: Report) -> str:
    """The ``collect_env`` facts recorded by the run, and the outcomes in other versions of torch."""
    facts = [
        f"{name}: {without_folders(report.environment[key])[:MOST_FACT]}"
        for key, name in FACTS.items()
        if report.environment.get(key)
    ]
    between = escape(str(span(report.versions)))
    if between:
        said = f"{between[0].upper()}{between[1:]}."
    else:
        how = "could be tried" if report.versions else "was tried"
        said = f"Since which version it fails is not known: only {report.environment.get('torch', 'this one')} {how}."
    return "\n\n".join(filter(None, (block("\n".join(facts), "text") if facts else "unknown", said)))


def closing(report: Report, repro: str, cut: Cut) -> str:
    """Attachments, the author, and the labels that triage would give."""
    files = []
    if not cut.has_repro:
        files.append("`repro.py`")
    if "data.pt" in repro:
        files.append("`repro.zip` (the reproducer with its `data.pt`)")
    if cut != Cut():
        files.append("`report.md` (what was left out here)")
    attached = [f"Attached: {', '.join(files)}."] if files else []
    wanted = labels(report, repro)
    suggested = [f"Suggested labels: {', '.join(map(code, wanted))}."] if wanted else []
    return " ".join([*attached, f"Found and reduced by minimizer {minimizer.__version__}.", *suggested])


def without_paths(text: str) -> str:
    """Text without the folders of the machine, line by line."""
    return "\n".join(map(without_folders, text.splitlines()))


def _does(failure: Failure) -> str:
    if failure.of_graph:
        return failure.of_graph
    if failure.mechanism is not None:
        form = EXTRA_CHANGE if failure.extra_change else MECHANISMS[failure.mechanism]
        return form.format(what=failure.object or "what it was compiled for")
    return words_of(failure).does


def _exception(failure: Failure) -> str:
    """The exception in a line, with its message once."""
    name = (failure.exception_type or "").rpartition(".")[2]
    first = next(iter(failure.message.strip().splitlines()), "")
    return first if first.startswith(name) else f"{name}: {first}".removesuffix(": ")


def _public(op: str, repro: str) -> str:
    """``torch.relu`` for ``aten.relu``, if the repro calls it so."""
    packet, _, name = op.partition(".")
    called: Sequence[str] = [form.format(name) for form in PUBLIC] if packet == "aten" else ()
    return next((form for form in called if f"{form}(" in repro), op)


def _plain(text: str) -> str:
    """A title: one line of printable ASCII, without folders and without the end of its enclosing comment."""
    text = re.sub(r"[<>]|-{2,}", "", text.encode("ascii", "replace").decode())
    text = without_folders("".join(char if char.isprintable() else " " for char in text))
    return re.sub(r"\s+", " ", text).strip()

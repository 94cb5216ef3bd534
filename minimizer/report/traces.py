"""Where to look further: logs by topic, the structured trace and its pages, and what to read first, according to the
report.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from minimizer.report.finding import FindingKind
from minimizer.report.health_section import in_code
from minimizer.report.model import Report
from minimizer.report.safe_markdown import block, bullets, code
from minimizer.vocabulary import Stage

TRACE, PAGES = "torch_trace.log", "tlparse.zip"
FILES: Mapping[str, str] = {
    TRACE: "the structured trace of one run of the script, as `TORCH_TRACE` writes it",
    PAGES: "tlparse's pages of it: graphs, guards and generated code of each compilation; begin with `index.html`",
}
OF_FINDINGS: Mapping[FindingKind, tuple[str, ...]] = {
    "recompiles": ("recompiles", "guards"),
    "graph_breaks": ("graph_breaks",),
    "compile_time": ("graph_sizes", "dynamo"),
    "slow": ("perf_hints", "fusion", "output_code"),
    "memory": ("aot_joint_graph", "aot_graphs"),
    "bias": ("post_grad_graphs", "output_code"),
}
"""Topics of ``TORCH_LOGS`` for a finding, the most useful first; other findings have no useful log."""
NOUNS: Mapping[FindingKind, str] = {
    "recompiles": "what is compiled again",
    "graph_breaks": "the graph break",
    "compile_time": "the graph that takes long to compile",
    "slow": "the graph that is slower than in eager",
    "memory": "what the graph keeps for its backward",
    "bias": "the operator that is off to one side",
}
"""The subject of interest in a log, by the kind of finding."""
OF_STAGES: Mapping[Stage, tuple[str, ...]] = {
    Stage.DYNAMO: ("graph_code", "graph_breaks", "bytecode"),
    Stage.AOT_AUTOGRAD: ("aot_joint_graph", "aot_graphs"),
    Stage.DECOMPOSITION: ("aot_graphs", "post_grad_graphs"),
    Stage.INDUCTOR: ("post_grad_graphs", "fusion", "output_code"),
    Stage.CUDAGRAPHS: ("cudagraphs",),
    Stage.CUSTOM_BACKEND: ("graph_code",),
}
"""The same for a failure, by its stage: the stage's input, then its output."""


def topics(report: Report) -> Sequence[str]:
    """The topics of ``TORCH_LOGS`` to begin with: those of the failure, else of the costliest finding with any.

    Else empty.
    """
    if report.failure is not None and _fails(report):
        return OF_STAGES.get(report.failure.stage, ())
    return next((OF_FINDINGS[one.kind] for one in report.findings if one.kind in OF_FINDINGS), ())


def look_first(report: Report) -> str:
    """What to look at first, as a sentence; empty if no log or trace would help."""
    chosen = topics(report)
    if not chosen:
        return ""
    log = f"`TORCH_LOGS={','.join(chosen)}`"
    if _fails(report):
        subject = "`repro.py`, which is all that fails" if _has_repro(report) else "the script"
        return f"Look first at what {log} says of {subject}."
    finding = next(one for one in report.findings if one.kind in OF_FINDINGS)
    where = f" at {finding.source.file} line {finding.source.line}" if finding.source is not None else ""
    then = f", then at the pages of that code in `{PAGES}`" if PAGES in report.traces else ""
    return f"Look first at what {log} says of {NOUNS[finding.kind]}{where}{then}."


def section(report: Report, script: str) -> str:
    """The section of `report.md`; empty without anything to look at."""
    subject = "repro.py" if _fails(report) and _has_repro(report) else script
    chosen = topics(report)
    command = block(f"TORCH_LOGS={','.join(chosen)} python {shlex.quote(subject)}", "sh") if chosen else ""
    files = bullets(f"{code(name)}: {in_code(FILES[name])}" for name in report.traces if name in FILES)
    return "\n\n".join(filter(None, (in_code(look_first(report)), command, files)))


def _fails(report: Report) -> bool:
    """Whether a failure is looked at, and no finding."""
    return report.failure is not None and not report.failure.kind.is_finding


def _has_repro(report: Report) -> bool:
    """Whether there is a small script that was seen to fail."""
    return report.verification is not None and report.verification.holds

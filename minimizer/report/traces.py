"""Where to look on: logs by topic, the structured trace and its pages, and which of them first, by what the report has found."""

from __future__ import annotations

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
"""Topics of ``TORCH_LOGS`` that tell more of a finding, the most telling first; of the others no log tells more."""
OF_STAGES: Mapping[Stage, tuple[str, ...]] = {
    Stage.DYNAMO: ("graph_code", "graph_breaks", "bytecode"),
    Stage.AOT_AUTOGRAD: ("aot_joint_graph", "aot_graphs"),
    Stage.DECOMPOSITION: ("aot_graphs", "post_grad_graphs"),
    Stage.INDUCTOR: ("post_grad_graphs", "fusion", "output_code"),
    Stage.CUDAGRAPHS: ("cudagraphs",),
    Stage.CUSTOM_BACKEND: ("graph_code",),
}
"""The same of a failure, by its stage: what goes into it, then what comes out."""


def topics(report: Report) -> Sequence[str]:
    """The topics of ``TORCH_LOGS`` to begin with: those of the failure, else of the costliest finding that has some; empty without either."""
    if report.failure is not None and not report.failure.kind.is_finding:
        return OF_STAGES.get(report.failure.stage, ())
    return next((OF_FINDINGS[one.kind] for one in report.findings if one.kind in OF_FINDINGS), ())


def look_first(report: Report) -> str:
    """What to look at first, as a sentence; empty where nothing was found that a log or a trace would tell more of."""
    chosen = topics(report)
    if not chosen:
        return ""
    log = f"`TORCH_LOGS={','.join(chosen)}`"
    failure = report.failure
    if failure is not None and not failure.kind.is_finding:
        return f"Look first at what {log} says of `repro.py`, which is all that fails."
    finding = next(one for one in report.findings if one.kind in OF_FINDINGS)
    where = f" at line {finding.source.line}" if finding.source is not None else ""
    then = f", then at the pages of that code in `{PAGES}`" if PAGES in report.traces else ""
    return f"Look first at what {log} says of the {finding.kind.replace('_', ' ')}{where}{then}."


def section(report: Report, script: str) -> str:
    """The section of `report.md`; empty where there is nothing to look at."""
    failure = report.failure
    subject = "repro.py" if failure is not None and not failure.kind.is_finding else script
    chosen = topics(report)
    command = block(f"TORCH_LOGS={','.join(chosen)} python {subject}", "sh") if chosen else ""
    files = bullets(f"{code(name)}: {in_code(FILES[name])}" for name in report.traces if name in FILES)
    return "\n\n".join(filter(None, (in_code(look_first(report)), command, files)))

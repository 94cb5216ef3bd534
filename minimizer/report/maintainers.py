"""What PyTorch's maintainers need beyond the repro: labels, necessary conditions, and commands that replay the blame."""

from __future__ import annotations

import re
from collections.abc import Iterator

from minimizer.report.model import Report
from minimizer.report.sections import is_in_dispute
from minimizer.vocabulary import Kind, Stage

STAGE_LABELS = {
    Stage.DYNAMO: ("module: dynamo",),
    Stage.AOT_AUTOGRAD: ("module: pt2-dispatcher",),
    Stage.DECOMPOSITION: ("module: decompositions", "module: inductor"),
    Stage.INDUCTOR: ("module: inductor",),
    Stage.CUDAGRAPHS: ("module: cuda graphs",),
}
"""By the first rung of the ladder that fails."""
OFF = "exits with 0: the compiler is off"
BISECTED = {
    "decomposition": "aot_eager_decomp_partition",
    "pre_grad_passes": "inductor",
    "joint_graph_passes": "inductor",
    "post_grad_passes": "inductor",
    "lowerings": "inductor",
}
"""The parts that PyTorch's own bisector can switch off as a whole, and the backend for each."""


def labels(report: Report, repro: str | None) -> list[str]:
    """The labels that triage would give; none unless PyTorch's compiler is at fault."""
    failure = report.failure
    if (
        failure is None
        or failure.kind.is_finding
        or failure.stage in (Stage.CUSTOM_BACKEND, Stage.CUSTOM_OP)
        or is_in_dispute(report)
    ):
        return []
    found = ["oncall: pt2", *STAGE_LABELS.get(failure.stage, ())]
    if failure.stage is Stage.INDUCTOR and report.environment.get("device", "cpu") == "cpu":
        found.append("oncall: cpu inductor")
    if failure.kind in (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT):
        found.append("module: correctness (silent)")
    if failure.kind is Kind.CRASH:
        found.append("module: crash")
    if re.search(r"dynamic=True|mark_dynamic", repro or ""):
        found.append("module: dynamic shapes")
    return found


def conditions(report: Report, repro: str | None) -> str:
    """What the reduction could not remove, as bullets; empty if it did not end on a minimum."""
    if repro is None or report.reduction is None or not report.reduction.one_minimal:
        return ""
    return "\n".join(f"- {text}" for text in _conditions(report, repro))


def replay(report: Report, repro: str | None) -> str:
    """Commands that show the part to blame, with their outcomes."""
    if repro is None or report.verification is None or not report.verification.holds:
        return ""
    what = "finding" if report.failure is not None and report.failure.kind.is_finding else "bug"
    lines = [f"python repro.py  # exits with 1: the {what}", f"TORCHDYNAMO_DISABLE=1 python repro.py  # {OFF}"]
    if report.blame is not None and report.blame.confirmed and report.blame.subsystem in BISECTED:
        backend, subsystem = BISECTED[report.blame.subsystem], report.blame.subsystem
        off = f"TORCH_BISECT_BACKEND={backend} TORCH_BISECT_SUBSYSTEM={subsystem} TORCH_BISECT_MAX=-1"
        lines.append(f"{off} python repro.py  # exits with 0: all {subsystem} are off")
    return "\n".join(["```sh", *lines, "```"])


def _conditions(report: Report, repro: str) -> Iterator[str]:
    reduction = report.reduction
    assert reduction is not None
    if reduction.level == "python":
        yield "every statement that is left is needed"
    else:
        yield (
            f"all {reduction.nodes_after} operations that are left are needed"
            if reduction.nodes_after > 1
            else ("a single operation is enough")
        )
    code = "\n".join(line for line in repro.splitlines() if not line.lstrip().startswith("#"))
    for settings in re.findall(r"torch\.compile\([^()\n]*?, ([^()\n]+)\)", code):
        yield f"`torch.compile` with `{_plain(settings)}`"
    for setting in re.findall(r"^\s*(torch\.[\w.]*config[\w.]* = .+)$", code, re.MULTILINE):
        yield f"the setting `{_plain(setting)}`"
    if "mark_dynamic" in code:
        yield "a size that is marked dynamic"
    if re.search(r"requires_grad(=True|_\()", code):
        yield "an input that requires grad"
    for dtype in dict.fromkeys(re.findall(r"dtype=torch\.(\w+)", code)):
        yield f"the dtype `{dtype}`"
    if "data.pt" in code:
        yield "the values in `data.pt`"


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and c != "`")

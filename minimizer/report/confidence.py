"""How sure a report is of its verdict, and why: earned by repeats, clean processes and methods that agree, else unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from minimizer.report.model import Report
from minimizer.vocabulary import Kind, Reason, Stage, Status, counted

Level = Literal["high", "medium", "low", "unknown"]
FP64_MARGIN = 3
"""Float64 sides with eager where compiled is more than this many times as far from it: the referee's margin, ``inside/referee/distance.py``."""


@dataclass(frozen=True)
class Confidence:
    """``reasons`` are full sentences without their final period: what speaks for the verdict, then what is missing."""

    level: Level
    reasons: tuple[str, ...]


def confidence(report: Report) -> Confidence:
    """How far the evidence in a report carries."""
    if report.failure is None:
        return _of_no_failure(report)
    verification = report.verification
    if verification is None or not verification.runs:
        return Confidence("unknown", ("No standalone repro was verified",))
    rate = report.failure.reproducibility
    processes = "process" if verification.runs == 1 else "processes"
    did = "showed it" if report.failure.kind.is_finding else "failed"
    but = ", and passes with the compiler switched off" if verification.passes_with_compiler_off else ""
    reasons = [
        f"The script {did} in {rate.failed} of {counted(rate.runs, 'run')}",
        f"The repro failed in the same way in {verification.failed_same} of {verification.runs} clean {processes}{but}",
    ]
    is_placed = report.failure.stage is not Stage.UNKNOWN
    if is_placed and (placed := _placed_by(report, report.failure.stage)):
        reasons.append(placed)
    agreeing = list(_agreeing(report))
    if agreeing:
        reasons.append(
            f"{'Independent methods agree' if len(agreeing) > 1 else 'One more method agrees'}: {'; '.join(agreeing)}"
        )
    if not verification.holds:
        level: Level = "low"
    else:
        level = "high" if agreeing and is_placed else "medium"
    if not is_placed:
        reasons.append("The stage of the compiler is unknown")
    if any(witness.agrees is False for witness in report.witnesses):
        reasons.append("PyTorch's own minifier sees no failure")  # it is blind to many: reported, but decides nothing
    return Confidence(level, tuple(reasons))


def _of_no_failure(report: Report) -> Confidence:
    if report.reason is Reason.WRAPPER_EFFECT:
        return Confidence(
            "medium",
            ("Two pairs of runs differ in the same way, and agree where the script looks through the wrapper",),
        )
    if report.status is not Status.HEALTHY:
        return Confidence("unknown", ("No failure was established",))
    seen = report.checked
    what = f"{counted(seen.calls, 'call')} of {counted(seen.graphs, 'compiled graph')} compared with eager"
    if not seen.calls:
        return Confidence("low", ("Nothing was compared: the compiled code only ran to its end",))
    backward = f", {counted(seen.backward, 'backward')} replayed" if seen.backward else ", no backward seen"
    open_ = dict.fromkeys(one.sentence for one in seen.excused if one.leaves_open)
    left_out = ("Some of what ran was not compared: see what was checked",) if seen.not_compared and not open_ else ()
    reasons = (what + backward, *open_, *left_out, "What the script did not run was not checked")
    return Confidence("low" if open_ else "medium", reasons)


def _placed_by(report: Report, stage: Stage) -> str:
    """How the stage is known; empty if the report does not show it."""
    if stage is Stage.CUSTOM_OP:
        return "torch.library.opcheck finds the operator at fault, without the compiler"
    name = stage.replace("_", " ")
    return f"On the ladder of backends {name} is the first to fail" if _has_step(report) else ""


def _agreeing(report: Report) -> Iterator[str]:
    """Methods that point to the same place, each without the others' help, and without being needed for the repro or the stage."""
    if report.blame is not None and report.blame.confirmed:
        yield "without the part to blame the failure goes, and with it alone it comes"
    culprit = report.culprits[0] if report.culprits else None
    bad = {layer.path for layer in report.layers if layer.verdict == "bad"}
    if culprit is not None and culprit.module and any(_overlap(path, culprit.module) for path in bad):
        yield "compiled alone on eager's inputs, the culprit's layer is wrong"
    is_numeric = report.failure is not None and report.failure.kind in (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
    errors = [error for c in report.roots for error in (c.local_error, c.propagated_error) if error is not None]
    sides = [(e.compiled_vs_fp64, e.eager_vs_fp64) for e in errors]
    sides += [(layer.compiled_vs_fp64, layer.eager_vs_fp64) for layer in report.layers if layer.verdict == "bad"]
    if is_numeric and any(c is not None and e is not None and c > FP64_MARGIN * e for c, e in sides):
        yield "float64 sides with eager"
    if any(witness.agrees for witness in report.witnesses):
        yield "PyTorch's own minifier sees it too"


def _has_step(report: Report) -> bool:
    """Whether the rung just below the first failing one passes; an unjudged one proves nothing about either."""
    fails = [rung.fails for rung in report.ladder]
    first = fails.index(True) if True in fails else 0
    return first > 0 and fails[first - 1] is False


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")

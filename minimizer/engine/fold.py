"""Puts what steps find into the report, which nothing else in the engine writes: a search its `Fault`, later steps what they add.

Notes and times are the journal's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from minimizer.engine.findings import Diagnosed, Failing, Fault
from minimizer.report.confidence import confidence
from minimizer.report.culprit import Culprit, Layer
from minimizer.report.drift import Drift
from minimizer.report.examined import Attempt, Checked, Health, Version
from minimizer.report.finding import Finding, by_cost
from minimizer.report.model import Blame, Report, ScriptError, Witness
from minimizer.report.traces import look_first

OWN = "this job's"
OPERATOR = re.compile(r"/(aten\.\w+)")
"""An operator in the name of a part of the compiler."""


def of_fault(report: Report, known: Fault) -> None:
    """Say of the fault what is known, and nothing that is not."""
    report.failure, report.culprits, report.observed = known.failure, [*known.culprits], [*known.observed]
    report.ladder, report.reduction, report.also_seen = [*known.ladder], known.reduction, [*known.also_seen]
    report.verification, report.versions = known.verification, [*known.versions]
    report.blame, report.flags, report.workaround = known.blame, [*known.flags], known.workaround
    report.ablation = [*known.ablation]
    report.graph, report.generated_code = [*known.graph], known.generated_code
    report.status, report.reason, report.summary = known.status, known.reason, known.summary


def fault_of(report: Report) -> Fault:
    """What a report says of its fault: of another job's, or of one that has just begun."""
    said = ((field.name, getattr(report, field.name)) for field in fields(Fault))
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said}
    return Fault(**known)


def failing(fault: Fault, environment: Mapping[str, str]) -> Failing:
    """A failure, for its diagnosis."""
    failure = fault.announced
    return Failing(
        stage=failure.stage,
        said=f"{failure.message}\n{failure.traceback}",
        culprit=fault.culprits[0] if fault.culprits else Culprit(),
        ladder=fault.ladder,
        device=environment.get("device", "cpu"),
    )


def diagnosed(fault: Fault, found: Diagnosed) -> Fault:
    """The fault with a diagnosis, as far as that has come."""
    known = replace(fault, blame=found.blame, flags=found.flags, ablation=found.ablation, workaround=found.workaround)
    if fault.culprits and found.blame is not None and found.blame.items:
        return known.blaming(blamed(fault.culprits[0], found.blame))
    return known


def blamed(culprit: Culprit, blame: Blame) -> Culprit:
    """A culprit with what the blame says of it; for one of a script the operator, where experiments know it and it does not."""
    changes: dict[str, object] = {}
    if not culprit.what and (culprit.nodes or not culprit.ops):
        changes["what"] = blame.what
    operators = [found[1] for item in blame.items if (found := OPERATOR.search(item))]
    if blame.confirmed and operators and not culprit.operators:
        changes["ops"] = ops = list(dict.fromkeys(operators))
        changes["nodes"] = [name.partition(".")[2] for name in ops]
    return culprit.model_copy(update=changes)


def described(report: Report, layers: Sequence[Layer]) -> None:
    """Take the table of layers."""
    report.layers = [*layers]


def prepared(report: Report, environment: Mapping[str, str]) -> None:
    """Take what is known of the machine and its torch."""
    report.environment = dict(environment)


def on_device(report: Report, device: str) -> None:
    """Say where the script runs, unless that is known."""
    report.environment.setdefault("device", device)


def checked(report: Report, found: Checked) -> None:
    """Take what was compared."""
    report.checked = found


def attempted(report: Report, tried: Sequence[Attempt]) -> None:
    """Take the ways to a repro that were tried so far."""
    report.attempts = [*tried]


def ended_in_eager(report: Report, error: ScriptError) -> None:
    """Take the exception of a script that fails without the compiler."""
    report.error = error


def rated(report: Report) -> None:
    """Say how far the evidence for the verdict carries, and what tells more."""
    report.confidence, report.look_first = confidence(report).level, look_first(report)


def heard(report: Report, witnesses: Sequence[Witness]) -> None:
    """Take what PyTorch's own tools say."""
    report.witnesses = [*witnesses]


def examined(report: Report, found: Health) -> None:
    """Take what the compiled code costs."""
    report.health = found


def traced(report: Report, file: str) -> None:
    """Take a file with a trace of the script, or with pages of it."""
    report.traces = list(dict.fromkeys([*report.traces, file]))


def advised(report: Report, found: Sequence[Finding]) -> None:
    """Take what there is to advise on, the costliest first."""
    report.findings = by_cost(found)


def drifted(report: Report, found: Drift, advice: Sequence[Finding]) -> None:
    """Take how the losses of a training go, and what there is to say of that beside what is advised."""
    others = [one for one in report.findings if one.kind not in ("bias", "chaos")]
    report.drift, report.findings = found, by_cost([*others, *advice])


def compared(fault: Fault, found: Sequence[Version], torch: str) -> Fault:
    """The fault with what its repro does in other torches; in the job's own ``torch``, which comes first, it is known to fail."""
    own = Version(name=OWN, torch=torch, outcome="fails")
    return replace(fault, versions=(own, *found) if found else ())

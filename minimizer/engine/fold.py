"""The only writer of the report: folds the results of steps into it, a search's `Fault` and what later steps add.

Notes and timings are written by the journal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from minimizer.engine.findings import Diagnosed, Failing, Fault
from minimizer.report.confidence import confidence
from minimizer.report.culprit import Culprit
from minimizer.report.drift import Drift
from minimizer.report.examined import Attempt, Checked, Health, Version
from minimizer.report.finding import Finding, by_cost
from minimizer.report.model import Blame, Report, ScriptError, Witness
from minimizer.report.traces import look_first

OWN = "this job's"
OPERATOR = re.compile(r"/(aten\.\w+)")
"""Matches an operator in the name of a part of the compiler."""


def of_fault(report: Report, known: Fault) -> None:
    """Overwrite everything that the report says of the fault with what is known now.

    What no graph has told the device of is said to run on a CPU.
    """
    if known.failure is not None:
        report.environment.setdefault("device", "cpu")
    report.failure, report.culprits, report.observed = known.failure, [*known.culprits], [*known.observed]
    report.ladder, report.reduction, report.also_seen = [*known.ladder], known.reduction, [*known.also_seen]
    report.verification, report.versions = known.verification, [*known.versions]
    report.blame, report.flags, report.workaround = known.blame, [*known.flags], known.workaround
    report.ablation = [*known.ablation]
    report.layers, report.graph, report.generated_code = [*known.layers], [*known.graph], known.generated_code
    report.status, report.reason, report.summary = known.status, known.reason, known.summary


def fault_of(report: Report) -> Fault:
    """The fault in a report: of another job, or of a report that has just begun."""
    said = ((field.name, getattr(report, field.name)) for field in fields(Fault))
    known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said}
    return Fault(**known)


def failing(fault: Fault, environment: Mapping[str, str]) -> Failing:
    """The failure, as its diagnosis needs it."""
    failure = fault.announced
    return Failing(
        stage=failure.stage,
        said=f"{failure.message}\n{failure.traceback}",
        culprit=fault.culprits[0] if fault.culprits else Culprit(),
        ladder=fault.ladder,
        device=environment.get("device", "cpu"),
    )


def diagnosed(fault: Fault, found: Diagnosed) -> Fault:
    """The fault with a diagnosis, complete or partial."""
    known = replace(fault, blame=found.blame, flags=found.flags, ablation=found.ablation, workaround=found.workaround)
    if fault.culprits and found.blame is not None and found.blame.items:
        return known.blaming(blamed(fault.culprits[0], found.blame))
    return known


def blamed(culprit: Culprit, blame: Blame) -> Culprit:
    """The culprit with what the blame says of it.

    A script's culprit without an operator also gets the operator that the experiments confirmed.
    """
    changes: dict[str, object] = {}
    if not culprit.what and (culprit.nodes or not culprit.ops):
        changes["what"] = blame.what
    operators = [found[1] for item in blame.items if (found := OPERATOR.search(item))]
    if blame.confirmed and operators and not culprit.operators:
        changes["ops"] = ops = list(dict.fromkeys(operators))
        changes["nodes"] = [name.partition(".")[2] for name in ops]
    return culprit.model_copy(update=changes)


def prepared(report: Report, environment: Mapping[str, str]) -> None:
    """Store the description of the machine and its torch."""
    report.environment = dict(environment)


def on_device(report: Report, device: str) -> None:
    """Set the device that the script runs on."""
    report.environment["device"] = device


def checked(report: Report, found: Checked) -> None:
    """Store what was compared."""
    report.checked = found


def attempted(report: Report, tried: Sequence[Attempt]) -> None:
    """Store the routes to a repro tried so far."""
    report.attempts = [*tried]


def ended_in_eager(report: Report, error: ScriptError) -> None:
    """Store the exception of a script that fails in eager."""
    report.error = error


def rated(report: Report) -> None:
    """Set how strong the evidence for the verdict is, and what to look at first."""
    report.confidence, report.look_first = confidence(report).level, look_first(report)


def heard(report: Report, witnesses: Sequence[Witness]) -> None:
    """Store what PyTorch's own tools found."""
    report.witnesses = [*witnesses]


def examined(report: Report, found: Health) -> None:
    """Store what the compiled code costs."""
    report.health = found


def traced(report: Report, file: str) -> None:
    """Add a file: a trace of the script, or pages made from it."""
    report.traces = list(dict.fromkeys([*report.traces, file]))


def advised(report: Report, found: Sequence[Finding]) -> None:
    """Store the findings to advise on, the costliest first."""
    report.findings = by_cost(found)


def drifted(report: Report, found: Drift, advice: Sequence[Finding]) -> None:
    """Store how the losses of a training drift, with the advice on it, which replaces earlier advice on drift only."""
    others = [one for one in report.findings if one.kind not in ("bias", "chaos")]
    report.drift, report.findings = found, by_cost([*others, *advice])


def compared(found: Sequence[Version], torch: str) -> tuple[Version, ...]:
    """The outcomes of a repro in other releases of torch, after the job's own ``torch``, in which it fails."""
    own = Version(name=OWN, torch=torch, outcome="fails")
    return (own, *found) if found else ()

"""Puts what steps behind a verified repro find into the report: the diagnosis, the layers, the health run and the other torches.

Further culprits and witnesses still write into it themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from minimizer.engine.findings import Described, Diagnosed, Failing
from minimizer.report.culprit import Culprit
from minimizer.report.examined import Health, Version
from minimizer.report.model import Blame, Report

OWN = "this job's"
OPERATOR = re.compile(r"/(aten\.\w+)")
"""An operator in the name of a part of the compiler."""


def failing(report: Report) -> Failing:
    """The failure of a report, for its diagnosis."""
    failure = report.failure
    assert failure is not None
    return Failing(
        stage=failure.stage,
        said=f"{failure.message}\n{failure.traceback}",
        culprit=report.culprits[0] if report.culprits else Culprit(),
        ladder=tuple(report.ladder),
        device=report.environment.get("device", "cpu"),
    )


def diagnosed(report: Report, found: Diagnosed) -> None:
    """Take a diagnosis, as far as it has come."""
    report.blame, report.flags, report.workaround = found.blame, [*found.flags], found.workaround
    if report.culprits and found.blame is not None and found.blame.items:
        report.culprits[0] = blamed(report.culprits[0], found.blame)


def blamed(culprit: Culprit, blame: Blame) -> Culprit:
    """A culprit with what the blame says of it; for one of a script the operator, where experiments know it and it does not."""
    known = culprit.model_copy(deep=True)
    if not known.what and (known.nodes or not known.ops):
        known.what = blame.what
    operators = [found[1] for item in blame.items if (found := OPERATOR.search(item))]
    if blame.confirmed and operators and not known.operators:
        known.ops = list(dict.fromkeys(operators))
        known.nodes = [name.partition(".")[2] for name in known.ops]
    return known


def described(report: Report, found: Described) -> None:
    """Take the table of layers and the graph, as far as they are known; what localization has filled in stays else."""
    if found.layers is not None:
        report.layers = [*found.layers]
    if found.graph is not None:
        report.graph = [*found.graph]


def examined(report: Report, found: Health) -> None:
    """Take what the compiled code costs."""
    report.health = found


def compared(report: Report, found: Sequence[Version]) -> None:
    """Take what the repro does in other torches; in the job's own, which comes first, it is known to fail."""
    own = Version(name=OWN, torch=report.environment.get("torch", ""), outcome="fails")
    report.versions = [own, *found] if found else []

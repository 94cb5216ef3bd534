"""What a report says of a script in which nothing was found, and of what a rule left open there."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from minimizer.engine.after.conclude import settle
from minimizer.engine.between.answer import Answer
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.protocol import Checked
from minimizer.engine.journal import Journal
from minimizer.engine.survey.cases import Settled
from minimizer.excuses import EXCUSES
from minimizer.report.confidence import confidence
from minimizer.report.model import Report
from minimizer.sink import Sink
from minimizer.vocabulary import Status


class Unseen:
    """A sink that keeps nothing."""

    def event(self, type_: str, **data: object) -> None: ...

    def artifact(self, name: str, content: bytes) -> None: ...

    def discard(self, name: str) -> None: ...


COMPARED = {"frames": 1, "graphs": 1, "calls": 3, "planned": 3, "calls_made": 3}
HEALTHY = Settled(Status.HEALTHY, None, "No difference.", Checked(**COMPARED))


def report_of_run(checked: Checked) -> Report:
    """The report of a script of which a run, which compared this, shows no failure."""
    return report_of(replace(HEALTHY, checked=checked))


def report_of(found: Settled = HEALTHY, exact: Answer | None = None) -> Report:
    """The report of a verdict, with what the exact runs said; None: that nothing differs."""
    report = Report()
    settle(found, exact if exact is not None else Answer(looks=1), Journal(cast(Sink, Unseen()), report, Clock(60)))
    return report


def says_open(report: Report, rule: str) -> bool:
    """Whether a healthy report is not sure of itself by a rule, and says so in its first sentence."""
    first, sentence = report.summary.partition(". ")[0], EXCUSES[rule].sentence
    is_said = first.startswith("Not everything was compared: ") and sentence[:1].lower() + sentence[1:] in first
    return report.status is Status.HEALTHY and is_said and confidence(report).level == "low"


def is_sure(report: Report) -> bool:
    """Whether a healthy report leaves nothing of the main line open."""
    return (
        report.status is Status.HEALTHY
        and confidence(report).level == "medium"
        and "Not everything" not in report.summary
    )

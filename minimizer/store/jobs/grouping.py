"""Assigns a failure to a group: the group of its fingerprint, else the most similar one, else a new one.

Similarity requires the same kind, and averages over the operators of the culprit, the message, and the operators of the reduced graph
in order. A feature that is empty on both sides is left out of the average.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from minimizer.report.identity import fingerprint, root_operators
from minimizer.store.tables import bounds
from minimizer.store.tables.models import FailureGroupRow, FailureHistoryRow, FailureMemberRow, JobRow, RetestRow
from minimizer.vocabulary import Status

ALIKE = 0.85
"""Least similarity for one group. Rather too high: merging two groups is easy, noticing a wrong merge is not."""
CANDIDATES = 200
"""Number of groups of its kind, the newest, with which a failure is compared."""
BY_ITSELF = "minimizer"


@dataclass(frozen=True)
class Similarity:
    """Similarity by feature, from 0 to 1; ``None`` if the feature is empty on both sides."""

    operators: float | None
    message: float | None
    graph: float | None

    @property
    def score(self) -> float:
        known = [part for part in (self.operators, self.message, self.graph) if part is not None]
        return sum(known) / len(known) if known else 0.0

    def __str__(self) -> str:
        parts = {"operators": self.operators, "message": self.message, "graph": self.graph}
        said = ", ".join(f"{name} {value:.0%}" for name, value in parts.items() if value is not None)
        return f"{self.score:.0%} alike: {said}"


def features(report: dict[str, Any]) -> dict[str, Any]:
    """The features by which a failure is compared with others."""
    failure = report["failure"]
    # The message of a numerical difference consists of its values, which do not identify the fault.
    message = failure.get("message", "") if failure.get("exception_type") else ""
    graph = [node.get("op", "") for node in report.get("graph") or ()]
    return {"operators": root_operators(report), "message": message[:500], "graph": graph[:200]}


def similarity(one: dict[str, Any], other: dict[str, Any]) -> Similarity:
    """The similarity of two failures of the same kind, from their features."""
    ours, theirs = set(one["operators"]), set(other["operators"])
    return Similarity(
        len(ours & theirs) / len(ours | theirs) if ours | theirs else None,
        _ratio(one["message"].split(), other["message"].split()),
        _ratio(one["graph"], other["graph"]),
    )


def assign(session: Session, row: JobRow, report: dict[str, Any], now: datetime) -> None:
    """Assign an ended job to its group, and record its result in the group that it retests, if any."""
    _tell_retest(session, row, report, now)
    name = fingerprint(report)
    known = session.get(FailureMemberRow, row.number)
    if known is not None and known.fingerprint == name:
        return  # a second run: it stays in its group, which a user may have chosen
    session.execute(delete(FailureMemberRow).where(FailureMemberRow.job_number == row.number))
    session.flush()
    if name is None:
        return
    group, because = _find(session, row, name, features(report))
    if group is None:
        group = new_group(session, row.project_number, name, report["failure"]["kind"], features(report), now)
        because = "the first of its kind"
    session.add(FailureMemberRow(job_number=row.number, group_number=group.number, fingerprint=name, because=because))
    if group.fixed_in:
        note(session, group.number, BY_ITSELF, f"seen again, in job {row.id}", now)


def new_group(
    session: Session, project: int, name: str, kind: str, compared_by: dict[str, Any], now: datetime
) -> FailureGroupRow:
    """Add a group under its fingerprint, with a number appended if that name is taken."""
    taken = set(
        session.scalars(
            select(FailureGroupRow.signature).where(
                FailureGroupRow.project_number == project, FailureGroupRow.signature.startswith(name)
            )
        )
    )
    signature, count = name, 2
    while signature in taken:
        signature, count = f"{name}-{count}", count + 1
    group = FailureGroupRow(
        project_number=project,
        signature=signature,
        kind=kind,
        features=bounds.plain(compared_by),
        note="",
        issue_url="",
        created_at=now,
    )
    session.add(group)
    session.flush()
    return group


def note(session: Session, group: int, actor: str, what: str, now: datetime) -> None:
    """Add a line to a group's history."""
    session.add(FailureHistoryRow(group_number=group, time=now, actor=actor, what=bounds.text(what, 1000)))


def _find(session: Session, row: JobRow, name: str, mine: dict[str, Any]) -> tuple[FailureGroupRow | None, str]:
    in_project = FailureGroupRow.project_number == row.project_number
    same = (
        select(FailureGroupRow)
        .join(FailureMemberRow, FailureMemberRow.group_number == FailureGroupRow.number)
        .where(in_project, FailureMemberRow.fingerprint == name)
        .order_by(FailureMemberRow.job_number.desc())
    )
    if (group := session.scalars(same.limit(1)).first()) is not None:
        return group, "the same fingerprint"
    forgotten = select(FailureGroupRow).where(in_project, FailureGroupRow.signature == name)
    if (
        group := session.scalars(forgotten).one_or_none()
    ) is not None:  # its jobs were deleted, but the group was kept, with its notes
        return group, "the same fingerprint"
    newest = select(FailureGroupRow).where(in_project, FailureGroupRow.kind == name.rpartition("-")[0])
    found: Iterable[FailureGroupRow] = session.scalars(newest.order_by(FailureGroupRow.number.desc()).limit(CANDIDATES))
    scored = [(similarity(mine, group.features), group) for group in found]
    best = max(scored, key=lambda pair: pair[0].score, default=None)
    if best is not None and best[0].score >= ALIKE:
        return best[1], str(best[0])
    return None, ""


def _tell_retest(session: Session, row: JobRow, report: dict[str, Any], now: datetime) -> None:
    retest = session.get(RetestRow, row.number)
    if retest is None:
        return
    group = session.get_one(FailureGroupRow, retest.group_number)
    torch = bounds.text(str((report.get("environment") or {}).get("torch") or "another torch"), 64)
    if report["status"] == Status.HEALTHY:
        group.fixed_in = torch
        note(session, group.number, BY_ITSELF, f"fixed in torch {torch}: job {row.id} is healthy", now)
    elif report.get("failure"):
        note(session, group.number, BY_ITSELF, f"still fails in torch {torch}: job {row.id}", now)
    else:
        note(session, group.number, BY_ITSELF, f"the retest in torch {torch} was inconclusive: job {row.id}", now)


def _ratio(one: list[str], other: list[str]) -> float | None:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() if one or other else None

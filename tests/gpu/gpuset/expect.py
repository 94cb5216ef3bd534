"""What a run answered, and whether that is one of the right answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .rows import Side

EXPECTED, WRONG, KNOWN_WRONG, NO_ANSWER = "as expected", "WRONG", "wrong, as known", "NO ANSWER"
"""The verdicts on a run that ended. ``NO ANSWER``: it was stopped at its own limit, or left no report."""


@dataclass(frozen=True)
class Answer:
    """The end of a run of ``minimizer run``, as far as `set.json` speaks of it."""

    exit: int
    reason: str | None = None
    kind: str | None = None
    stage: str | None = None
    ops: tuple[str, ...] = ()
    nodes: int | None = None

    @classmethod
    def of(cls, status: int, report: dict[str, Any]) -> Answer:
        """From the exit status and ``report.json``."""
        failure, culprits = report.get("failure") or {}, report.get("culprits") or []
        return cls(
            status,
            report.get("reason"),
            failure.get("kind"),
            failure.get("stage"),
            tuple(op for culprit in culprits for op in culprit["ops"]),
            (report.get("reduction") or {}).get("nodes_after"),
        )

    def __str__(self) -> str:
        words = [f"exit {self.exit}", self.reason, self.kind, self.stage, *self.ops]
        return ", ".join(word for word in words if word)


def judge(answer: Answer | None, side: Side) -> str:
    """The verdict on an answer: it is right if one of the accepted ones fits in all that it names.

    ``exit``, ``reason``, ``kind`` and ``stage`` are a value or a list of allowed ones; ``op`` must be among the culprits'
    operators; ``nodes`` is the most that the repro's graph may have.
    """
    if answer is None:
        return KNOWN_WRONG if side.known_wrong else NO_ANSWER
    if any(_fits(answer, accepted) for accepted in side.accept):
        return EXPECTED
    return KNOWN_WRONG if side.known_wrong else WRONG


def describe(side: Side) -> str:
    """The accepted answers in words, for a line that says what was expected."""
    return " or ".join(", ".join(f"{name} {_words(value)}" for name, value in each.items()) for each in side.accept)


def _fits(answer: Answer, accepted: dict[str, Any]) -> bool:
    if unknown := accepted.keys() - {"exit", "reason", "kind", "stage", "op", "nodes"}:
        raise ValueError(f"set.json names what no answer has: {', '.join(sorted(unknown))}")
    for name in ("exit", "reason", "kind", "stage"):
        if name in accepted:
            allowed = accepted[name] if isinstance(accepted[name], list) else [accepted[name]]
            if getattr(answer, name) not in allowed:
                return False
    if "op" in accepted and accepted["op"] not in answer.ops:
        return False
    return "nodes" not in accepted or (answer.nodes is not None and answer.nodes <= accepted["nodes"])


def _words(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)

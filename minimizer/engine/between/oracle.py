"""The oracle for faults between graphs: is a candidate's first difference of the same sort, at the same moment?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minimizer.engine.between.assertion import claims
from minimizer.engine.between.difference import Change, Difference, difference_at_end, first_difference
from minimizer.engine.between.exact_runs import ALL, Found
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.executor import EXACT, Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.oracle.timeouts import trial_timeout
from minimizer.engine.reduce.python import Source
from minimizer.report.model import Mechanism

CLOSE = list(range(1, 17))
"""Calls and backwards with a full look around them: a candidate that shows its difference later is refused."""
BUILT_IN = (
    "list",
    "dict",
    "tuple",
    "set",
    "deque",
    "OrderedDict",
    "defaultdict",
    "Tensor",
    "Parameter",
    "int",
    "float",
    "bool",
    "str",
    "process",
)
GUARDED: tuple[Mechanism, ...] = ("stale_guard", "missed_hook")
"""Mechanisms in which code compiled for an earlier call is reused wrongly."""
Trait = tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """Requirements on a candidate's first difference: event, one of these traits, reuse if a guard is missing."""

    event: str
    needs_reuse: bool
    traits: frozenset[Trait]

    @staticmethod
    def of(found: Found, mechanism: Mechanism) -> Target:
        """The target that a confirmed difference defines."""
        difference = found.difference
        tellable = [c for c in difference.changes if c.field != "state"] or difference.changes  # a state is a hash
        named = min(tellable, key=lambda change: change.rank)
        same_rank = [c for c in difference.changes if _sort(c) == _sort(named)]
        needs_reuse = found.is_reused and mechanism in GUARDED
        return Target(difference.look.event, needs_reuse, frozenset(map(_trait, same_rank)))

    def is_met(self, difference: Difference | None) -> bool:
        """Whether a candidate's first difference meets the requirements."""
        if difference is None or difference.look.event != self.event:
            return False
        if self.needs_reuse and difference.look.compiled > 0:
            return False
        return bool(self.traits & set(map(_trait, difference.changes)))


class ExactOracle:
    """Judges scripts by exact runs."""

    def __init__(self, executor: Executor, path: Path, found: Found, mechanism: Mechanism) -> None:
        self._executor, self._path, self._target, self._noise = (
            executor, path, Target.of(found, mechanism), found.noise.without_moments(),
        )  # fmt: skip
        self._eager: dict[str, Any] = {"eager": ALL, "library": found.library}
        self._is_behind_rounding = found.difference.is_behind_rounding
        self._has_name = _has_name(found.eager, found.compiled)
        """Whether the difference can be asserted at the script's end: then it must be so in a candidate too."""
        self._slowest = 0.0

    def check(self, candidates: Sequence[Source]) -> list[bool]:
        """Whether each of the scripts shows the fault."""
        eager = self._run([c.text for c in candidates], **self._eager)
        rest = [i for i, outcome in enumerate(eager) if outcome.ending is Ending.SAME and outcome.exact is not None]
        rest = [i for i in rest if (log := eager[i].exact) is not None and log.calls > 0]
        compiled = dict(zip(rest, self._run([candidates[i].text for i in rest]), strict=True))
        return [i in compiled and self._shows(eager[i], compiled[i]) for i in range(len(candidates))]

    def logs(self, text: str) -> tuple[ExactLog, ExactLog] | None:
        """The logs of a script without the compiler and with it; None if either run does not end well."""
        (eager,), (compiled,) = self._run([text], **self._eager), self._run([text])
        if (
            eager.ending is not Ending.SAME
            or compiled.ending is not Ending.SAME
            or eager.exact is None
            or compiled.exact is None
        ):
            return None
        return eager.exact, compiled.exact

    def _shows(self, eager: Outcome, compiled: Outcome) -> bool:
        if (
            compiled.ending is not Ending.SAME
            or eager.exact is None
            or compiled.exact is None
            or not compiled.attempted
        ):
            return False
        difference = first_difference(eager.exact, compiled.exact, self._noise)
        if difference is not None and difference.is_behind_rounding and not self._is_behind_rounding:
            return False  # it may follow from that
        return self._target.is_met(difference) and (not self._has_name or _has_name(eager.exact, compiled.exact))

    def _run(self, texts: Sequence[str], **fields: Any) -> list[Outcome]:
        common = {"script": str(self._path), "args": [], "full": CLOSE, **fields}
        outcomes = self._executor.judge(
            [{**common, "text": text} for text in texts], timeout=trial_timeout(self._slowest), op=EXACT
        ) if texts else []  # fmt: skip
        self._slowest = max([self._slowest, *(o.seconds for o in outcomes if o.ending is Ending.SAME)])
        return outcomes


def _has_name(eager: ExactLog, compiled: ExactLog) -> bool:
    """Whether a change at the script's end can be asserted there."""
    return next(claims(difference_at_end(eager, compiled)), None) is not None


def _sort(change: Change) -> str:
    if change.path == "raised":
        return "raised"
    if change.kind in ("process", "stream", "environment"):
        return change.kind
    if change.path.endswith(".grad") or ".grad" in change.path:
        return "grad"
    return "result" if change.is_result else "state"


def _trait(change: Change) -> Trait:
    sort = _sort(change)
    if sort == "process":
        return sort, change.path
    if sort in ("raised", "grad"):
        return (sort,)
    kind = change.kind if change.kind in BUILT_IN else "object"
    kind = "Tensor" if kind == "Parameter" else kind
    if sort == "state":
        return sort, "value" if kind in ("int", "float", "bool", "str") else kind
    return sort, change.field

"""The oracle for faults between graphs: is a candidate's first difference of the same sort, at the same moment?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minimizer.engine.between.answer import Found
from minimizer.engine.between.assertion import claims
from minimizer.engine.between.difference import (
    Change,
    Difference,
    agree_at,
    difference_at_end,
    end_of,
    first_difference,
)
from minimizer.engine.between.drawn import reseeded
from minimizer.engine.between.script_runs import ALL
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.executor import EXACT, Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.oracle.timeouts import trial_timeout
from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.seeds import hold, states
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
        self._eager: dict[str, Any] = {"eager": ALL, "library": found.conditions.library}
        self._has_name = _has_name(found.eager, found.compiled)
        """Whether the difference can be asserted at the script's end: then it must be so in a candidate too."""
        self._modules = found.conditions.modules
        self._slowest = 0.0
        self._states = states()

    def check(self, candidates: Sequence[Source]) -> list[bool]:
        """Whether each of the scripts shows the fault; one that draws from a random state that it does not set, from several."""
        return hold(candidates, self._judge)

    def _judge(self, texts: Sequence[str]) -> tuple[list[bool], list[bool]]:
        """Whether each text shows the fault, all its runs from one more random state, and whether it draws in eager."""
        starts = [{"text": text, "state": next(self._states)} for text in texts]
        eager = self._run(starts, **self._eager)
        rest = [i for i, outcome in enumerate(eager) if (log := _log(outcome)) is not None and log.calls > 0]
        replays = [{**starts[i], "replay": _reads(eager[i])} for i in rest]
        compiled = dict(zip(rest, self._run(replays), strict=True))
        both = {i: (_log(eager[i]), _log(outcome)) for i, outcome in compiled.items() if outcome.attempted}
        logs = {i: (one, two) for i, (one, two) in both.items() if one is not None and two is not None}
        differences = {i: first_difference(*pair, self._noise) for i, pair in logs.items()}
        unsure = [i for i, difference in differences.items() if difference is not None and difference.is_of_results]
        told = [{**starts[i], "replay": _reads(eager[i])} for i in unsure]
        for i, outcome in zip(unsure, self._run(told, eager=ALL, library=True), strict=True):
            as_compiled, difference = _log(outcome), differences[i]
            if as_compiled is not None and difference is not None and agree_at(logs[i][1], as_compiled, difference):
                differences[i] = None  # eager computes the same where it chooses like compiled code
        shown = [
            self._target.is_met(differences.get(i)) and (not self._has_name or _has_name(*logs[i]))
            for i in range(len(texts))
        ]
        return shown, [outcome.draws for outcome in eager]

    def steady_at_end(self, text: str, changes: Sequence[Change]) -> list[Change]:
        """What eager sees there also where the script draws other random numbers."""
        (other,) = self._run([{"text": reseeded(text), "state": next(self._states)}], **self._eager)
        log = _log(other)
        state = end_of(log) if log is not None else {}
        return [change for change in changes if not other.draws or state.get(change.path, {}) == change.eager]

    def logs(self, text: str) -> tuple[ExactLog, ExactLog] | None:
        """The logs of a script without the compiler and with it; None if either run does not end well."""
        start = {"text": text, "state": next(self._states)}
        (eager,) = self._run([start], **self._eager)
        (compiled,) = self._run([{**start, "replay": _reads(eager)}])
        one, two = _log(eager), _log(compiled)
        return (one, two) if one is not None and two is not None else None

    def _run(self, requests: Sequence[dict[str, Any]], **fields: Any) -> list[Outcome]:
        common = {"script": str(self._path), "args": [], "full": CLOSE, "modules": self._modules, **fields}
        outcomes = self._executor.judge(
            [{**common, **request} for request in requests], timeout=trial_timeout(self._slowest), op=EXACT
        ) if requests else []  # fmt: skip
        self._slowest = max([self._slowest, *(o.seconds for o in outcomes if o.ending is Ending.SAME)])
        return outcomes


def _log(outcome: Outcome) -> ExactLog | None:
    """The log of a run; None if it did not end well."""
    return outcome.exact if outcome.ending is Ending.SAME else None


def _reads(outcome: Outcome) -> str | None:
    """What a run read of the machine, for the compiled one to read again."""
    return (outcome.exact.reads or None) if outcome.exact is not None else None


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

"""What a smaller script must show to have the same fault."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from minimizer.engine.between.answer import Found
from minimizer.engine.between.difference import Change, Difference
from minimizer.engine.between.noise import Noise
from minimizer.engine.between.oracle import ExactOracle, Target
from minimizer.engine.budget.patience import FIRST_TIMEOUT, LEAST_EXACT_TIMEOUT
from minimizer.engine.child.exact_log import Entry, ExactLog, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.reduce.python import Source
from minimizer.inside.questions import Conditions, ExactRequest
from minimizer.report.model import Mechanism


def difference(*changes: Change, event: str = "call exit", compiled: int = 0) -> Difference:
    return Difference(Look(event=event, unit=1, number=1, full=True, compiled=compiled), changes, None)


def change(path: str, kind: str, **sides: str) -> Change:
    eager: Entry = {"type": kind, **sides}
    return Change(path, eager, {name: "other" if name in sides else word for name, word in eager.items()})


def target(*changes: Change, mechanism: Mechanism = "lost_mutation", event: str = "call exit") -> Target:
    log = ExactLog()
    return Target.of(Found(difference(*changes, event=event), 1, 1, log, log, Noise(), is_reused=True), mechanism)


LIST = change("a.log", "list", items="[1]")
RESULT = change("result", "Tensor", values="[1.0]")
MODE = change("torch.is_grad_enabled()", "process", value="True")


@pytest.mark.parametrize(
    ("of", "shown", "is_met"),
    [
        (LIST, change("log", "list", items="[2]"), True),  # by another path
        (LIST, change("log", "dict", items="{}"), False),
        (LIST, RESULT, False),
        (RESULT, change("result", "Tensor", values="[7.0]"), True),
        (RESULT, change("result", "Tensor", dtype="torch.int64"), False),
        (MODE, MODE, True),
        (MODE, change("torch.get_default_dtype()", "process", value="x"), False),
    ],
)
def test_the_same_sort_of_thing_must_differ(of: Change, shown: Change, is_met: bool) -> None:
    assert target(of).is_met(difference(shown)) is is_met


def test_a_repro_asserts_what_the_fault_is_seen_in_before_anything_else() -> None:
    log = ExactLog()
    plate = change("plate", "Tensor", values="1.0")
    oracle = ExactOracle(
        cast(Executor, None),
        Path("script.py"),
        Found(difference(plate), 1, 1, log, log, Noise()),
        "lost_mutation",
    )
    out = Change("out", {"type": "generator"}, {"type": "tuple_iterator"})
    assert [claim.expression for claim in oracle.claims_at_end([out, plate])] == ["plate.item()", "type(out).__name__"]


def test_it_must_differ_at_the_same_sort_of_moment() -> None:
    assert not target(LIST).is_met(difference(LIST, event="end"))
    assert not target(LIST).is_met(None)


def test_where_a_guard_is_missing_the_call_must_run_old_code() -> None:
    stale, lost = target(RESULT, mechanism="stale_guard"), target(RESULT)
    fresh = difference(RESULT, compiled=1)
    assert not stale.is_met(fresh) and stale.is_met(difference(RESULT))
    assert lost.is_met(fresh)


def seen(path: str, length: int, x: float = 1.0) -> ExactLog:
    """A run that sees a list of this length, and a number, at its one call's exit, and at its end."""
    entry = {
        path: {"type": "list", "items": str([0] * length), "length": str(length)},
        "x": {"type": "float", "value": repr(x)},
    }
    looks = [
        Look(event=event, unit=unit, number=1, full=True, changed=entry if unit == 1 else {})
        for unit, event in enumerate(("call exit", "end"), 1)
    ]
    return ExactLog(looks=looks, calls=1)


@pytest.mark.parametrize(
    ("path", "candidate", "fails"),
    [("log", "log", True), ("log", "f.<closure>.log", False), ("f.<closure>.log", "f.<closure>.log", True)],
)
def test_what_has_a_name_at_the_end_keeps_one(path: str, candidate: str, fails: bool) -> None:
    """Or no reader could be shown what is lost."""
    found = Found(difference(LIST), 1, 1, seen(path, 1), seen(path, 0), Noise())
    assert shows(found, seen(candidate, 1), seen(candidate, 0)) is fails


def shows(found: Found, eager: ExactLog, compiled: ExactLog, as_compiled: ExactLog | None = None) -> bool:
    """Whether a candidate of which these are the runs shows a fault."""
    runs = cast(Executor, CannedRuns(eager, compiled, as_compiled))
    (answer,) = ExactOracle(runs, Path("script.py"), found, "lost_mutation").check([Source.parse("step()")])
    return answer


@pytest.mark.parametrize(("as_compiled", "is_fault"), [(0.0, False), (1e-8, True)])
def test_what_eager_computes_too_where_it_chooses_like_compiled_code_is_not_the_fault(
    as_compiled: float, *, is_fault: bool
) -> None:
    found = Found(difference(change("x", "float", value="300.0")), 1, 1, seen("log", 1, x=3.0), seen("log", 1), Noise())
    assert shows(found, seen("log", 1, x=1e-8), seen("log", 1, x=0.0), seen("log", 1, x=as_compiled)) is is_fault


def raised(error: str) -> ExactLog:
    """A run whose one call raises, or returns; nothing else is seen."""
    entry = {"raised": {"type": "exception", "value": error}}
    return ExactLog(looks=[Look(event="call exit", unit=1, number=1, full=True, changed=entry)], calls=1)


@pytest.mark.parametrize(("error", "is_fault"), [("IndexError", True), ("", False)])
def test_a_compiled_run_that_ends_by_what_it_raises_shows_it(error: str, *, is_fault: bool) -> None:
    """Or nothing could be taken out of a script that catches no exception of its compiled function."""
    escaped = change("raised", "exception", value="")
    found = Found(difference(escaped), 1, 1, raised(""), raised("IndexError"), Noise())
    runs = CannedRuns(raised(""), raised(error), None, ends=Ending.RUNTIME_ERROR)
    oracle = ExactOracle(cast(Executor, runs), Path("script.py"), found, "skipped_handler")
    assert oracle.check([Source.parse("step()")]) == [is_fault]


def test_a_run_that_an_error_ends_shows_nothing_else() -> None:
    runs = CannedRuns(seen("log", 1), seen("log", 0), None, ends=Ending.RUNTIME_ERROR)
    found = Found(difference(LIST), 1, 1, seen("log", 1), seen("log", 0), Noise())
    oracle = ExactOracle(cast(Executor, runs), Path("script.py"), found, "lost_mutation")
    assert oracle.check([Source.parse("step()")]) == [False]


def test_a_candidate_reads_of_the_machine_what_its_eager_run_has_read() -> None:
    runs = CannedRuns(seen("log", 1).model_copy(update={"reads": "{}"}), seen("log", 0), None)
    found = Found(difference(LIST), 1, 1, seen("log", 1), seen("log", 0), Noise())
    oracle = ExactOracle(cast(Executor, runs), Path("script.py"), found, "lost_mutation")
    assert oracle.check([Source.parse("step()")]) == [True]
    assert [request.replay for request in runs.asked] == [None, "{}"]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_candidates_printed_lines_are_moved_only_where_the_scripts_were(*, in_order: bool) -> None:
    """Or lines in another order would be its first difference."""
    runs = CannedRuns(seen("log", 1), seen("log", 0), None)
    conditions = Conditions(in_order=in_order)
    found = Found(difference(LIST), 1, 1, seen("log", 1), seen("log", 0), Noise(), conditions=conditions)
    oracle = ExactOracle(cast(Executor, runs), Path("script.py"), found, "lost_mutation")
    oracle.check([Source.parse("step()")])
    assert [request.in_order for request in runs.asked] == [in_order, in_order]


def test_the_first_candidate_already_has_no_more_time_than_the_scripts_own_runs_explain() -> None:
    """It may be one that waits for ever, and it has a process of its own beside another."""
    runs = CannedRuns(seen("log", 1), seen("log", 0), None)
    found = Found(difference(LIST), 1, 1, seen("log", 1), seen("log", 0), Noise())
    oracle = ExactOracle(cast(Executor, runs), Path("script.py"), found, "lost_mutation", slowest=0.5)
    oracle.check([Source.parse("step()")])
    assert max(runs.timeouts) <= 2 * LEAST_EXACT_TIMEOUT * crowding() < FIRST_TIMEOUT * crowding()


class CannedRuns:
    """An executor whose runs see these without the compiler, with it, and in eager that chooses like compiled code, which fails where
    there is none. The compiled one ``ends`` so."""

    jobs = 1

    def __init__(
        self, eager: ExactLog, compiled: ExactLog, as_compiled: ExactLog | None, *, ends: Ending = Ending.SAME
    ) -> None:
        self._eager, self._compiled, self._as_compiled, self._ends = eager, compiled, as_compiled, ends
        self.asked: list[ExactRequest] = []
        self.timeouts: list[float] = []

    def judge(self, requests: list[ExactRequest], *, timeout: float) -> list[Outcome]:
        self.timeouts.append(timeout)
        self.asked += requests
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ExactRequest) -> Outcome:
        is_eager = request.eager is not None
        log = self._as_compiled if is_eager and request.library else self._eager if is_eager else self._compiled
        ends = Ending.SAME if is_eager else self._ends
        return Outcome(ending=ends if log is not None else Ending.CRASH, exact=log, attempted=True)

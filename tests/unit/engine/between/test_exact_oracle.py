"""What a smaller script must show to have the same fault."""

from __future__ import annotations

import pytest

from minimizer.engine.between.difference import Change, Difference, Noise
from minimizer.engine.between.exact_runs import Found
from minimizer.engine.between.oracle import Target
from minimizer.engine.child.exact_log import Entry, ExactLog, Look
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


def test_it_must_differ_at_the_same_sort_of_moment() -> None:
    assert not target(LIST).is_met(difference(LIST, event="end"))
    assert not target(LIST).is_met(None)


def test_where_a_guard_is_missing_the_call_must_run_old_code() -> None:
    stale, lost = target(RESULT, mechanism="stale_guard"), target(RESULT)
    fresh = difference(RESULT, compiled=1)
    assert not stale.is_met(fresh) and stale.is_met(difference(RESULT))
    assert lost.is_met(fresh)

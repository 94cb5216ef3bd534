"""What later runs of a script are asked: whether it fails again, and how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from canned_surveys import AT, WRONG, CannedExecutor, asked_of, ended, error, finished, held, silent

from minimizer.engine.survey import runs
from minimizer.engine.survey.cases import Case
from minimizer.engine.survey.known_failure import each_instance, fails_again
from minimizer.vocabulary import Kind


@pytest.mark.parametrize(
    ("again", "same"),
    [
        (held(kind="wrong_output", verdict=WRONG), True),
        (held(kind="runtime_error", exception=error("ValueError")), False),
        (finished(), False),
        (finished(stopped=True), None),
        (ended(signal=6), False),
    ],
)
def test_the_first_failing_run_is_repeated(again: dict[str, Any], same: bool | None) -> None:
    executor = CannedExecutor([held(kind="wrong_output", verdict=WRONG), again])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    assert fails_again(asked.surveys, found) is same
    assert executor.killed == ("held" in again)


def test_an_error_that_is_missing_is_repeated() -> None:
    missing = {"graph": 1, "call": 2, "exception": error("IndexError", "out of range")}
    other = {**missing, "exception": error("ValueError", "no such value")}
    runs = [
        finished(missing=[missing]),
        held(),
        finished(missing=[other, missing]),
        finished(missing=[other]),
        finished(),
    ]
    asked = asked_of(CannedExecutor(runs, [finished(raised=[missing["exception"]])]))
    found = asked.run()
    assert isinstance(found, Case)
    assert (found.signature.kind, found.message) == (Kind.MISSING_ERROR, "IndexError: out of range")
    assert [fails_again(asked.surveys, found) for _ in range(3)] == [True, False, False]


def test_a_crash_is_repeated() -> None:
    executor = CannedExecutor([ended(signal=6, at=AT), held(), ended(signal=6), ended(signal=11)], [finished()])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    assert [fails_again(asked.surveys, found), fails_again(asked.surveys, found)] == [True, False]


@pytest.mark.parametrize(
    ("again", "same"),
    [
        (silent(), True),
        (silent(function="other"), False),
        (silent(hangs=False), None),
        (ended(timed_out=True, signal=9), False),
        (finished(), False),
    ],
)
def test_a_hang_is_repeated(again: dict[str, Any], same: bool | None) -> None:
    executor = CannedExecutor([silent(), held(), again])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    assert fails_again(asked.surveys, found) is same


def measured(**health: Any) -> dict[str, Any]:
    return finished(health={"eager_seconds": 2.0, "compiled_seconds": 1.0, **health})


def test_health_of_a_script_that_ended_well_has_the_compile_times_of_its_first_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warm = measured(compile_seconds=0.5, frames=["warm"])
    executor = CannedExecutor([finished(health={"compile_seconds": 9.0, "frames": ["cold"]}), warm])
    asked = asked_of(executor)
    monkeypatch.setattr(runs, "crowding", lambda: 4.0)
    asked.run()
    monkeypatch.setattr(runs, "crowding", lambda: 1.0)
    found = asked.surveys.health(trace="/trace")
    assert found is not None
    assert found.finished is not None
    assert (found.health.compile_seconds, found.health.frames, found.health.eager_seconds) == (9.0, ["cold"], 2.0)
    assert asked.surveys.is_crowded, "as the machine was when these were taken"
    assert executor.asked[-1].measure and executor.asked[-1].environ == {}


def test_health_of_a_failing_script_comes_from_a_cold_run_as_far_as_that_goes() -> None:
    broken = held(kind="compile_error", exception=error("ValueError"), health={"compile_seconds": 3.0})
    executor = CannedExecutor([held(kind="wrong_output", verdict=WRONG), broken])
    asked = asked_of(executor)
    executor.fresh_cache = lambda: Path("/fresh")  # type: ignore[attr-defined]
    asked.run()
    found = asked.surveys.health(trace="/trace")
    assert found is not None and found.health.compile_seconds == 3.0 and found.finished is None
    assert executor.asked[-1].environ == {"TORCHINDUCTOR_CACHE_DIR": "/fresh"}
    assert executor.killed == 1


def test_no_health_of_a_run_that_died() -> None:
    executor = CannedExecutor([ended(signal=11)])
    asked = asked_of(executor)
    executor.fresh_cache = lambda: Path("/fresh")  # type: ignore[attr-defined]
    assert asked.surveys.health(trace="/trace") is None


def of_instance(number: int, **fields: Any) -> dict[str, Any]:
    return {"name": f"layers.{number}", "graphs": [0, 1], "calls": 3, "backward": 3, **fields}


WRONG_CALLS = {"failed": {"wrong_output": 2}}


def test_equal_modules_are_told_apart_by_a_run_that_goes_on_behind_calls_that_fail() -> None:
    rows = [
        of_instance(0),
        of_instance(1, **WRONG_CALLS),
        of_instance(2, **WRONG_CALLS),
        of_instance(3, calls=0, backward=0),
        of_instance(4, failed={"wrong_gradient": 1}),
        of_instance(5, graphs=[7], **WRONG_CALLS),
    ]
    first = held(kind="wrong_output", verdict=WRONG, instance="layers.1")
    executor = CannedExecutor([first, finished(instances=rows)])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    known = each_instance(asked.surveys, found, seconds=12.0)
    assert known is not None and known.compared == "calls"
    assert (known.wrong, known.right, known.unclear) == (
        ["layers.1", "layers.2"],
        ["layers.0"],
        ["layers.3", "layers.4"],
    )
    watchdog = executor.watchdogs[-1]
    assert executor.asked[-1].each is True
    assert watchdog is not None and watchdog.limits.patience == 12.0


def test_of_gradients_only_a_backward_that_was_compared_is_right() -> None:
    rows = [of_instance(0, backward=0), of_instance(1), of_instance(2, failed={"wrong_gradient": 1})]
    gradient = {**WRONG, "kind": "wrong_gradient"}
    first = held(kind="wrong_gradient", verdict=gradient, phase="backward", instance="layers.2")
    asked = asked_of(CannedExecutor([first, finished(instances=rows)]))
    found = asked.run()
    assert isinstance(found, Case)
    known = each_instance(asked.surveys, found, seconds=12.0)
    assert known is not None
    assert (known.wrong, known.right, known.unclear) == (["layers.2"], ["layers.1"], ["layers.0"])


@pytest.mark.parametrize(
    "again",
    [
        finished(instances=[of_instance(1, **WRONG_CALLS)]),
        finished(instances=[of_instance(0), of_instance(1)]),
        held(kind="runtime_error", exception=error("ValueError")),
        ended(signal=6),
    ],
    ids=["only one", "not seen again", "held", "died"],
)
def test_a_run_that_does_not_show_the_failing_instance_among_others_tells_of_none(again: dict[str, Any]) -> None:
    asked = asked_of(CannedExecutor([held(kind="wrong_output", verdict=WRONG, instance="layers.1"), again]))
    found = asked.run()
    assert isinstance(found, Case)
    assert each_instance(asked.surveys, found, seconds=12.0) is None

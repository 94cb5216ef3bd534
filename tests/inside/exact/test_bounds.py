"""Bounds of what exact runs look at, and what they cannot read: a healthy script that needs each, and a fault behind it."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from healthy_verdict import is_sure, report_of, says_open
from in_process import Call, InProcess, compared, unwatched

from minimizer.engine.between.answer import Answer
from minimizer.engine.child import exact_log
from minimizer.inside.exact import boundaries, tensors, walk, written
from minimizer.inside.exact.observe import Look
from minimizer.inside.questions import ExactRequest

__all__ = ["unwatched"]

pytestmark = pytest.mark.usefixtures("unwatched")

STATE: dict[str, Any] = {}
"""What a script holds: each run starts without it."""
LARGE = tensors.LARGE_BYTES
Change = Callable[[], object]


def answer(script: Callable[[Call], None], **options: bool) -> Answer:
    return compared(sys.modules[__name__], script, STATE, **options)


def rules(found: Answer) -> set[str]:
    return {one.rule for one in found.excused}


def holding(make: Callable[[], dict[str, Any]], change: Change, *, lost: bool, calls: int = 4, at: int = 3) -> Answer:
    """Of a script that holds what ``make`` makes, which ``change`` changes in one of its calls; ``lost``: not if that is compiled."""

    def script(call: Call) -> None:
        STATE.update(make())
        for number in range(1, calls + 1):
            right = change if number == at else nothing
            call(right, nothing if lost else right)

    return answer(script)


def nothing() -> None:
    """A call that leaves the script's state alone."""


def differs_at(found: Answer, path: str) -> bool:
    return found.found is not None and any(f"STATE[{path!r}]" in one for one in found.found.difference.paths)


def log() -> dict[str, Any]:
    return {"log": []}


def noted() -> None:
    STATE["log"].append(1)


def test_without_a_bound_a_healthy_script_is_sure_and_a_fault_is_found() -> None:
    right = holding(log, noted, lost=False)
    assert (right.found, right.excused, right.runs) == (None, (), 3) and is_sure(report_of(exact=right))
    assert differs_at(wrong := holding(log, noted, lost=True), "log")
    assert wrong.found is not None and wrong.found.call == 3


@pytest.mark.needs_excuse("exact_looks")
@pytest.mark.fault_behind("exact_looks")
def test_a_fault_behind_the_last_look_that_there_is_room_for_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "MOST_LOOKS", 10)
    right = holding(log, noted, lost=False, calls=40)
    assert right.found is None and says_open(report_of(exact=right), "exact_looks")
    wrong = holding(log, noted, lost=True, calls=40, at=29)
    assert differs_at(wrong, "log") and wrong.found is not None and wrong.found.call == 29


@pytest.mark.needs_excuse("exact_truncated")
@pytest.mark.fault_behind("exact_truncated")
def test_a_walk_that_stops_is_told_before_all_else_and_sees_what_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_ENTRIES", 500)
    monkeypatch.setattr(walk, "MOST_VISITS", 1000)

    def many() -> dict[str, Any]:
        return {"log": [], "rows": [[[n]] for n in range(2000)]}

    far = holding(many, lambda: STATE["rows"][-1].append(1), lost=True)
    assert far.found is None and says_open(report_of(exact=far), "exact_truncated")
    assert differs_at(holding(many, noted, lost=True), "log")


@pytest.mark.needs_excuse("exact_sampled")
@pytest.mark.fault_behind("exact_sampled")
def test_large_tensors_are_sampled_between_graphs_and_read_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "MOST_BYTES", LARGE)

    def held() -> dict[str, Any]:
        return {"weight": torch.zeros(LARGE)}

    def between_samples() -> None:
        STATE["weight"].data[12_347] = 1

    right = holding(held, between_samples, lost=False)
    assert right.found is None and rules(right) == {"exact_sampled"} and is_sure(report_of(exact=right))
    assert differs_at(holding(held, between_samples, lost=True), "weight")
    monkeypatch.setattr(tensors, "MOST_AT_END", LARGE)
    wrong = holding(held, between_samples, lost=True)
    assert wrong.found is None and says_open(report_of(exact=wrong), "exact_truncated")


class Box:
    """An object of the script's."""

    def __init__(self) -> None:
        self.n = 0

    def count(self) -> None:
        self.n += 1


@pytest.mark.needs_excuse("exact_threads")
@pytest.mark.fault_behind("exact_threads")
@pytest.mark.parametrize("lost", [False, True], ids=["healthy", "faulty"])
@pytest.mark.parametrize("is_foreign", [False, True], ids=["an object", "a thread that Python did not start"])
def test_what_a_call_in_a_thread_changes_unseen_is_told_before_all_else(*, lost: bool, is_foreign: bool) -> None:
    def script(call: Call) -> None:
        STATE["log"], done = [], threading.Event()

        def work() -> None:
            call(Box.count, (lambda _: None) if lost else Box.count, Box())
            done.set()

        _thread.start_new_thread(work, ()) if is_foreign else threading.Thread(target=work).start()
        done.wait()
        call(noted, noted)

    found = answer(script)
    assert found.found is None and says_open(report_of(exact=found), "exact_threads")


def test_elements_are_kept_in_the_looks_of_one_call_or_backward_in_whatever_thread() -> None:
    """A call in a thread neither goes by what the main thread looked at last, nor is it left out when it is asked for."""

    def script(call: Call) -> None:
        one = torch.ones(3)
        call(lambda: one * 2, lambda: one * 2)
        thread = threading.Thread(target=lambda: call(lambda: one * 3, lambda: one * 3))
        thread.start()
        thread.join()

    def looks(of: int | None) -> list[exact_log.Look]:
        runs = InProcess(sys.modules[__name__], script, STATE, written=False)
        (outcome,) = runs.judge([ExactRequest(text=None, script="script.py", whole=of)])
        assert outcome.exact is not None
        return outcome.exact.looks

    units = {look.thread: look.unit for look in looks(None) if look.event == "call exit"}
    assert len(units) == 2
    for unit in units.values():
        assert {look.unit for look in looks(unit) if any("whole" in e for e in look.changed.values())} == {unit}


@pytest.mark.fault_behind("exact_threads")
def test_what_a_call_in_a_thread_returns_is_compared() -> None:
    def script(call: Call) -> None:
        thread = threading.Thread(target=lambda: call(lambda _: 1, lambda _: 2, Box()))
        thread.start()
        thread.join()

    found = answer(script)
    assert found.found is not None and found.found.difference.paths == {"result"}


class Opaque(torch.Tensor):
    """A tensor that computes by code of its class."""

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Opaque:
        made: Opaque = torch.Tensor._make_wrapper_subclass(cls, held.shape)  # type: ignore[attr-defined]
        made.held = held
        return made

    held: torch.Tensor

    @classmethod
    def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.needs_excuse("exact_unreadable")
@pytest.mark.fault_behind("exact_unreadable")
def test_a_tensor_that_cannot_be_read_is_told_before_all_else_and_what_it_holds_is_seen() -> None:
    def opaque() -> dict[str, Any]:
        return {"x": Opaque(torch.zeros(3))}

    def moved() -> None:
        STATE["x"].held.add_(1)

    right = holding(opaque, moved, lost=False)
    assert right.found is None and says_open(report_of(exact=right), "exact_unreadable")
    assert differs_at(holding(opaque, moved, lost=True), "x")


def test_a_tensor_without_values_leaves_nothing_open() -> None:
    assert is_sure(report_of(exact=holding(lambda: {"x": torch.zeros(3, device="meta")}, nothing, lost=False)))


@pytest.mark.needs_excuse("exact_machine")
@pytest.mark.fault_behind("exact_machine")
def test_a_lock_is_known_by_its_type_and_what_is_beside_it_is_seen() -> None:
    def guarded() -> dict[str, Any]:
        return {"lock": threading.Lock(), "log": []}

    def replaced() -> None:
        STATE["lock"] = None

    right = holding(guarded, noted, lost=False)
    assert right.found is None and rules(right) == {"exact_machine"} and is_sure(report_of(exact=right))
    assert differs_at(holding(guarded, noted, lost=True), "log")
    assert differs_at(holding(guarded, replaced, lost=True), "lock")


@pytest.mark.needs_excuse("exact_observer")
@pytest.mark.fault_behind("exact_observer")
def test_an_error_of_ours_is_told_before_all_else_and_costs_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(Look, "_module", broken)

    def model() -> dict[str, Any]:
        return {"model": torch.nn.ReLU(), "log": []}

    def evaluated() -> None:
        STATE["model"].eval()

    within = holding(model, evaluated, lost=True)
    assert within.found is None and says_open(report_of(exact=within), "exact_observer")
    assert differs_at(holding(model, noted, lost=True), "log")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in which a script's files are its own."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(written, "MOST_PRINTED", 100)
    monkeypatch.setattr(written, "MOST_BYTES", 2000)


def print_much(lines: int) -> None:
    os.write(1, b"a line of twenty ....\n" * lines)


def save_much(size: int) -> None:
    Path("model.bin").write_bytes(b"." * size)


@pytest.mark.needs_excuse("exact_output")
@pytest.mark.fault_behind("exact_output")
@pytest.mark.usefixtures("room", "capfd")
@pytest.mark.parametrize("write", [print_much, save_much])
def test_output_beyond_the_bound_is_told_before_all_else_and_its_length_is_seen(write: Callable[[int], None]) -> None:
    def script(of_compiled: int) -> Callable[[Call], None]:
        return lambda call: call(lambda: write(3000), lambda: write(of_compiled))

    right = answer(script(3000), written=True)
    assert right.found is None and says_open(report_of(exact=right), "exact_output")
    assert answer(script(2999), written=True).found is not None

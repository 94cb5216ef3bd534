"""The watchdog: hang, slow, enough seen, or nothing to say. Time is a number here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from minimizer.engine.child.protocol import Phase, Stacks
from minimizer.engine.child.rank_stacks import RankState
from minimizer.engine.child.watchdog import GRACE, SAMPLES, SLOW_FACTOR, Action, Limits, Watchdog

LIB = "/venv/lib/python3.11/site-packages/torch"
HEAD = "Current thread 0x00007f0000000000 (most recent call first):\n"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Task:
    """Plays a task for a watchdog."""

    watchdog: Watchdog
    clock: Clock

    @staticmethod
    def watched(*, crowding: float = 1.0, others: Sequence[RankState] = (), **limits: Any) -> Task:
        clock = Clock()
        allowed = Limits(**{"floor": 60.0, **limits})
        return Task(Watchdog(allowed, clock=clock, crowd=lambda: crowding, others=lambda: others), clock)

    def says(self, doing: str = "compile", **more: Any) -> Task:
        """With ``calls``, how many it has compared by then."""
        checked = {"calls": more.pop("calls")} if "calls" in more else None
        self.watchdog.heard(Phase(doing=doing, checked=checked, **more))
        return self

    def after(self, seconds: float) -> Action | None:
        self.clock.now += seconds
        return self.watchdog.due()

    def shows(self, *frames: str) -> None:
        """Innermost first, each as ``file:function``."""
        lines = "".join('  File "{0}", line 5 in {2}\n'.format(*frame.partition(":")) for frame in frames)
        self.watchdog.heard(Stacks(text=HEAD + lines))

    def sampled(self, *stacks: list[str], until: float = 1000.0) -> Action | None:
        """Show the stacks in turn whenever one is asked for; the first action that is none of sampling."""
        turn = 0
        while self.clock.now < until:
            action = self.after(0.2)
            if action is Action.SAMPLE:
                self.shows(*stacks[turn % len(stacks)])
                turn += 1
            elif action is not None:
                return action
        return None


def lowering(name: str) -> list[str]:
    """The compiler at work: many calls deep, elsewhere each time."""
    return [f"{LIB}/_inductor/lowering.py:{name}{i}" for i in range(9)] + [f"{LIB}/_inductor/compile_fx.py:inner"]


STUCK = ["/job/pass.py:fix", f"{LIB}/_inductor/compile_fx.py:inner"]
WAITING = ["/usr/lib/python3.11/subprocess.py:communicate", f"{LIB}/_inductor/compile_fx.py:inner"]
TRAINING = ["/job/script.py:train"]
IN_COLLECTIVE = [
    f"{LIB}/distributed/distributed_c10d.py:all_reduce",
    f"{LIB}/distributed/c10d_logger.py:wrapper",
    *TRAINING,
]


def test_one_place_for_long_is_a_hang() -> None:
    task = Task.watched().says("compile")
    assert task.after(59) is None
    assert task.sampled(STUCK) is Action.KILL
    verdict = task.watchdog.verdict
    assert verdict is not None and verdict.hangs
    assert verdict.where == ":fix" and "fix (pass.py, line 5)" in verdict.text
    assert 60 <= verdict.seconds == task.clock.now < 75


@pytest.mark.parametrize("doing", ["compile", "run", "backward", "compiled"])
def test_whatever_is_compiled_or_runs_compiled_is_watched(doing: str) -> None:
    assert Task.watched().says(doing).sampled(STUCK) is Action.KILL


@pytest.mark.parametrize("doing", ["compare", "setup", "eager", ""])
def test_our_own_work_and_eager_are_not(doing: str) -> None:
    assert Task.watched().says(doing).sampled(STUCK) is None


def test_on_a_machine_that_has_too_much_to_do_everything_takes_longer() -> None:
    crowded = Task.watched(crowding=3.0).says()
    assert crowded.sampled(STUCK, until=179.0) is None
    assert crowded.sampled(STUCK) is Action.KILL


def test_a_task_that_was_given_up_is_killed_once() -> None:
    task = Task.watched().says("compile")
    assert task.sampled(STUCK) is Action.KILL
    assert task.sampled(STUCK) is None


def test_progress_is_no_hang() -> None:
    task = Task.watched()
    for _ in range(50):
        task.says("compile")
        assert task.after(59) is None


def test_samples_of_an_earlier_phase_do_not_count() -> None:
    task = Task.watched().says("compile")
    task.after(60)
    for _ in range(SAMPLES):
        task.shows(*STUCK)
    task.says("run")
    assert task.after(60) is Action.SAMPLE
    assert task.watchdog.verdict is None


def test_a_graph_that_is_slow_in_eager_has_more_time() -> None:
    task = Task.watched().says("run", eager_seconds=10.0)
    assert task.after(199) is None
    assert task.sampled(STUCK) is Action.KILL


def test_a_compiler_that_is_seen_at_work_gets_several_times_as_long_and_is_called_slow() -> None:
    task = Task.watched().says("compile")
    assert task.sampled(lowering("a"), lowering("b"), lowering("c")) is Action.KILL
    assert task.clock.now >= 60 * SLOW_FACTOR
    verdict = task.watchdog.verdict
    assert verdict is not None and not verdict.hangs


def test_one_that_moves_at_first_and_then_stays_hangs() -> None:
    task = Task.watched().says("compile")
    assert task.sampled(lowering("a"), lowering("b"), until=100) is None
    assert task.sampled(STUCK) is Action.KILL
    assert task.watchdog.verdict is not None and task.watchdog.verdict.hangs
    assert task.watchdog.verdict.where == ":fix"
    assert task.watchdog.verdict.stayed == pytest.approx(60, abs=10)


def test_one_that_was_at_work_is_not_stuck_in_the_next_loop() -> None:
    task = Task.watched().says("compile")
    assert task.sampled(lowering("a"), lowering("b"), until=200) is None
    assert task.sampled(STUCK, until=250) is None
    assert task.sampled(lowering("a"), lowering("b"), until=60 * SLOW_FACTOR - 30) is None
    assert task.sampled(STUCK) is Action.KILL
    assert task.watchdog.verdict is not None and not task.watchdog.verdict.hangs


def test_waiting_for_a_cpp_compiler_is_a_hang_only_when_it_is_very_late() -> None:
    task = Task.watched().says("compile")
    assert task.sampled(WAITING, until=60 * SLOW_FACTOR - 1) is None
    assert task.sampled(WAITING) is Action.KILL
    assert task.watchdog.verdict is not None and task.watchdog.verdict.hangs


def test_without_a_stack_nothing_is_said() -> None:
    """A script that closes all descriptors cannot be sampled: its time limit is all there is."""
    task = Task.watched().says("compile")
    assert task.sampled([]) is None
    assert task.watchdog.seen() is None


def test_what_is_stopped_by_others_has_been_seen() -> None:
    task = Task.watched(slow_factor=float("inf")).says("compiled")
    assert task.sampled(lowering("a"), lowering("b")) is None
    seen = task.watchdog.seen()
    assert seen is not None and not seen.hangs and seen.where.endswith(":inner")


# the script's own code ------------------------------------------------------------------------------------------------


def test_the_scripts_own_code_may_take_as_long_as_it_likes() -> None:
    assert Task.watched().says("script", calls=0).sampled(TRAINING) is None


def test_dynamo_that_does_not_come_back_is_a_hang() -> None:
    """There is no graph yet, and so no phase but the script's."""
    dynamo = [f"{LIB}/_dynamo/symbolic_convert.py:step", f"{LIB}/_dynamo/convert_frame.py:_compile", *TRAINING]
    task = Task.watched().says("script", calls=0)
    assert task.sampled(dynamo) is Action.KILL
    assert task.watchdog.verdict is not None and task.watchdog.verdict.where.endswith(":step")


def test_a_script_of_which_enough_was_seen_is_stopped() -> None:
    task = Task.watched(quiet=60.0).says("script", calls=8, trusted=True)
    assert task.after(59) is None
    assert task.after(1) is Action.STOP
    assert task.after(0.2) is not Action.STOP


def test_one_that_goes_on_to_its_backward_is_asked_once_more() -> None:
    task = Task.watched(quiet=60.0, patience=300.0).says("script", calls=1)
    assert task.after(300) is Action.STOP
    task.says("script", calls=2)
    assert task.after(59) is not Action.STOP
    assert task.after(1) is Action.STOP
    assert task.after(60) is not Action.STOP


@pytest.mark.parametrize("phase", [{"calls": 8, "trusted": False}, {"calls": 0, "trusted": True}, {"trusted": True}])
def test_one_with_more_to_compare_is_not(phase: dict[str, Any]) -> None:
    task = Task.watched(quiet=60.0).says("script", **phase)
    assert task.after(1e4) is not Action.STOP


def test_patience_ends_when_something_was_compared() -> None:
    task = Task.watched(patience=300.0)
    task.says("script", calls=0)
    assert task.after(301) is not Action.STOP
    task.says("compile", calls=1)
    assert task.after(1) is None
    task.says("script", calls=1, trusted=False)
    assert task.after(0.2) is Action.STOP


@pytest.mark.parametrize("calls", [0, 3])
def test_a_script_that_stands_still_is_ended_when_its_share_is_over(calls: int) -> None:
    """One that waits in C code, as for another rank, does not hear that it is asked to stop."""
    task = Task.watched(share=100.0, patience=100.0).says("script", calls=calls)
    assert task.after(99) is not Action.STOP
    assert task.after(1) is Action.STOP
    assert task.sampled(IN_COLLECTIVE) is Action.STOP
    assert task.sampled(IN_COLLECTIVE) is Action.KILL
    verdict = task.watchdog.verdict
    assert verdict is not None and verdict.out_of_time and not verdict.hangs
    assert verdict.users_line == "script.py, line 5"
    assert task.clock.now == pytest.approx(100 + 2 * GRACE, abs=1)


@pytest.mark.parametrize("doing", ["script", ""])
def test_a_rank_that_waits_for_one_that_has_ended_waits_for_ever(doing: str) -> None:
    """A run in eager announces nothing."""
    task = Task.watched(waits=20.0, others=[RankState(1, ended="ValueError: no data")]).says(doing)
    assert task.sampled(IN_COLLECTIVE) is Action.KILL
    verdict = task.watchdog.verdict
    assert verdict is not None and verdict.hangs and verdict.is_among_ranks
    assert task.clock.now < 30
    assert verdict.of_ranks(0) == (
        "rank 0 waits in all_reduce (script.py, line 5); rank 1 has ended (ValueError: no data)"
    )


@pytest.mark.parametrize("others", [[], [RankState(1)], [RankState(1, ended=""), RankState(2)]])
def test_a_rank_that_waits_for_one_that_may_still_come_is_left_alone(others: Sequence[RankState]) -> None:
    assert Task.watched(waits=20.0, others=others).says("script").sampled(IN_COLLECTIVE) is None


COMPILED_WAIT = [
    f"{LIB}/_ops.py:redispatch",
    "/opt/minimizer/inside/values/communication.py:_passed_on",
    "/opt/minimizer/inside/values/communication.py:wait_tensor",
    f"{LIB}/_ops.py:__call__",
    "/tmp/torchinductor/ab/cabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz.py:call",
    f"{LIB}/_inductor/utils.py:run",
    f"{LIB}/_functorch/_aot_autograd/runtime_wrappers.py:wrapper",
    "/opt/minimizer/inside/watch/comparer.py:compared",
    *TRAINING,
]


def test_a_rank_that_waits_in_compiled_code_waits_for_others_and_does_not_hang_in_the_compiler() -> None:
    task = Task.watched(waits=20.0, others=[RankState(1)]).says("script")
    assert task.sampled(COMPILED_WAIT) is None
    task = Task.watched(waits=20.0, others=[RankState(1, ended="")]).says("script")
    assert task.sampled(COMPILED_WAIT) is Action.KILL
    verdict = task.watchdog.verdict
    assert verdict is not None and verdict.is_among_ranks
    assert verdict.of_ranks(0) == "rank 0 waits in wait_tensor (script.py, line 5); rank 1 has ended"


def test_a_rank_outside_of_a_collective_is_left_alone() -> None:
    """It may evaluate for long, while the others wait for it."""
    task = Task.watched(waits=20.0, others=[RankState(1, ended="")]).says("script")
    assert task.sampled(TRAINING) is None


def test_what_is_compiled_when_the_share_is_over_has_the_time_of_a_hang_first() -> None:
    task = Task.watched(share=100.0, floor=60.0).says("script")
    assert task.after(99) is not Action.STOP
    assert task.says("compile").after(1) is Action.STOP
    assert task.after(58) is None
    assert task.sampled(STUCK) is Action.KILL
    assert task.watchdog.verdict is not None and task.watchdog.verdict.hangs


@pytest.mark.parametrize("doing", ["compile", "compare"])
def test_what_is_at_work_when_the_share_is_over_is_ended_too(doing: str) -> None:
    task = Task.watched(share=100.0, floor=60.0).says(doing)
    assert task.after(100) is Action.STOP
    assert task.sampled(lowering("a"), lowering("b")) is Action.STOP
    assert task.sampled(lowering("a"), lowering("b")) is Action.KILL
    assert task.watchdog.verdict is not None and task.watchdog.verdict.out_of_time
    assert task.clock.now == pytest.approx(160 + 2 * GRACE, abs=1)


def test_a_task_that_has_said_nothing_yet_is_ended_without_being_asked() -> None:
    assert Task.watched(share=100.0).sampled() is Action.KILL


def test_a_script_that_does_not_stop_is_given_up_as_slow() -> None:
    task = Task.watched(quiet=10.0).says("script", calls=8, trusted=True)
    assert task.after(10) is Action.STOP
    assert task.sampled(TRAINING) is Action.STOP
    assert task.sampled(TRAINING) is Action.KILL
    assert task.watchdog.verdict is not None and not task.watchdog.verdict.hangs


def test_the_time_that_a_task_waits_for_its_turn_is_no_silence() -> None:
    task = Task.watched(patience=100.0, share=300.0)
    task.clock.now += 1000.0
    task.watchdog.begin()
    assert task.says().after(59.0) is None
    assert task.says("script").after(30.0) is None

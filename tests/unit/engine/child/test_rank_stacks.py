"""What a rank that is not watched does, by the stacks that it wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from minimizer.engine.child.rank_stacks import STILL, RankState, others, state
from minimizer.inside.questions import RANK_ENDED, STACKS_EVERY

USER = '  File "/home/me/train.py", line {line} in main\n'
GLOO = '  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 3 in all_reduce\n'
INSIDE = '  File "/x/site-packages/torch/{file}.py", line {line} in {function}\n'
ENTRY = INSIDE.format(file="_dynamo/convert_frame", line=9, function="__call__")


def dump(*frames: str) -> str:
    """A dump of one thread, its innermost frame first."""
    return "Timeout!\nThread 0x00007f0000000000 (most recent call first):\n" + "".join(frames)


def test_a_rank_in_a_collective_stands_once_it_was_seen_there_often_enough() -> None:
    waiting = dump(GLOO, USER.format(line=7))
    seen = state(1, waiting * STILL)
    assert seen.stands(60) and seen.seconds == (STILL - 1) * STACKS_EVERY
    assert seen.words == "rank 1 waits in all_reduce (train.py, line 7)"
    assert not state(1, waiting * (STILL - 1)).stands(60)


def test_what_a_rank_did_before_it_waits_does_not_count() -> None:
    """Imports and compilations are deeper stacks of the same lines of the script."""
    imports = dump(
        *[INSIDE.format(file=f"part{i}", line=i, function="<module>") for i in range(9)], USER.format(line=1)
    )
    waiting = dump(GLOO, USER.format(line=7))
    seen = state(1, imports * 5 + waiting * STILL)
    assert (seen.stands(60), seen.seconds) == (True, (STILL - 1) * STACKS_EVERY)
    assert seen.words == "rank 1 waits in all_reduce (train.py, line 7)"


def test_a_rank_that_moves_does_not_stand() -> None:
    passes = [dump(INSIDE.format(file=f"_inductor/pass_{i}", line=i, function=f"f{i}") * 8, ENTRY) for i in range(9)]
    assert not state(1, "".join(passes)).stands(60)


def test_a_rank_may_compile_for_longer_than_it_may_wait() -> None:
    stuck = dump(INSIDE.format(file="_inductor/scheduler", line=5, function="fuse"), ENTRY, USER.format(line=7))
    assert not state(2, stuck * STILL).stands(60)
    seen = state(2, stuck * (int(60 / STACKS_EVERY) + 1))
    assert seen.stands(60)
    assert seen.words == "rank 2 has been in the compiler for 60 s, in fuse (train.py, line 7)"


RUNS = INSIDE.format(file="_inductor/output_code", line=4, function="__call__")
SAVES = INSIDE.format(file="distributed/checkpoint/state_dict_saver", line=4, function="save")
PACKS = INSIDE.format(file="distributed/distributed_c10d", line=4, function="_object_to_tensor")


@pytest.mark.parametrize(
    "frames", [[], [RUNS], [SAVES], [PACKS, GLOO]], ids=["own", "compiled", "checkpoint", "pickling"]
)
def test_what_is_no_waiting_may_take_any_time(frames: list[str]) -> None:
    """As when one rank evaluates or saves while the others wait."""
    assert not state(1, dump(*frames, USER.format(line=7)) * 1000).stands(60)


def test_an_operator_of_torch_that_waits_for_others_is_a_collective() -> None:
    wait = [
        INSIDE.format(file=f, line=4, function=n)
        for f, n in (("_ops", "__call__"), ("distributed/_functional_collectives", "wait_tensor"))
    ]
    assert state(1, dump(*wait, USER.format(line=7)) * STILL).words == "rank 1 waits in wait_tensor (train.py, line 7)"


def test_a_rank_says_how_it_ended() -> None:
    ended = state(1, dump(GLOO, USER.format(line=7)) + f"{RANK_ENDED} ValueError: no data\n")
    assert ended.stands(60) and ended.words == "rank 1 has ended (ValueError: no data)"
    assert state(1, f"{RANK_ENDED}\n").words == "rank 1 has ended"


@pytest.mark.parametrize("text", ["", "nonsense", "Timeout!\n"])
def test_a_rank_that_says_nothing_is_unknown_and_does_not_stand(text: str) -> None:
    assert state(1, text) == RankState(1)
    assert not RankState(1).stands(60)


def test_a_rank_that_writes_no_more_is_unknown(tmp_path: Path) -> None:
    """It may have ended, and it may use the timer of ``faulthandler`` for itself."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 2):
        (folder / str(rank)).write_text(dump(GLOO, USER.format(line=7)))
    os.utime(folder / "2", (time.time() - 1000,) * 2)
    first, *rest = others(tmp_path, folder, 4, own=3)
    assert first.chain and rest == [RankState(1), RankState(2)]

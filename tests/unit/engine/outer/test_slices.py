"""Slices of a flat program keep what the value of an event comes from, by names, by memory and through gradients."""

from __future__ import annotations

import pytest
from sample_trace import EVENTS, event, traced

from minimizer.engine.outer.program import OuterProgram, parse
from minimizer.engine.outer.slices import direct_needs, read_later, watched
from minimizer.errors import ChildFailed
from minimizer.inside.questions import SidesStep
from minimizer.inside.tasks.needed import needed

SEED, DRAW, FIRST, LOSS, BACKWARD, GRAD, STEP, RESET, VIEW, ZERO, SECOND, _, LOSS_1, LAST = range(len(EVENTS))


def slice_of(program: OuterProgram, target: int) -> list[int]:
    """The events that one comes from, as the child follows them."""
    steps = [
        SidesStep(one.code, needs=sorted(direct), is_setting=one.is_setting, draws=one.draws)
        for one, direct in zip(program.events, direct_needs(program), strict=True)
    ]
    return needed(steps, target)


@pytest.mark.parametrize(
    ("target", "events"),
    [
        (LOSS, [SEED, DRAW, FIRST]),
        (GRAD, [SEED, DRAW, FIRST, LOSS, BACKWARD]),
        # The view changes the memory of `w`, and the step that changes it comes from the gradient.
        (SECOND, [SEED, DRAW, FIRST, LOSS, BACKWARD, GRAD, STEP, VIEW, ZERO]),
        (DRAW, [SEED]),
    ],
)
def test_a_slice_follows_names_memory_and_gradients(target: int, events: list[int]) -> None:
    assert slice_of(parse(traced()), target) == events


def test_a_gradient_comes_from_the_backwards_since_it_was_set() -> None:
    program = parse(traced(events=[*EVENTS, event("last = w.grad", makes="last")]))

    assert direct_needs(program)[LAST] >= {RESET}
    assert LAST in direct_needs(program)[len(EVENTS)]
    assert BACKWARD not in direct_needs(program)[LAST]


def test_many_writes_of_one_tensor_need_one_another_and_not_all_before() -> None:
    writes = [event("w.sub_(1)", writes=["w"]) for _ in range(20_000)]
    backwards = [event("other.backward()", "backward", grads=["w"]) for _ in range(2000)]
    program = parse(traced(events=[*writes, *backwards]))

    assert max(map(len, direct_needs(program))) == 1
    assert slice_of(program, 19_999) == list(range(19_999))
    assert len(slice_of(program, 21_999)) == 1999


@pytest.mark.parametrize(
    "wrong",
    [
        event("x = ", makes="x"),
        event("x = 1; y = 2", makes="x"),
        event("x = 1", makes="x", under=["open('/etc/passwd')"]),
        event("x = 1", makes="x", raises="Error):\n    import os #"),
    ],
)
def test_what_is_no_single_statement_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ChildFailed):
        parse(traced(events=[wrong]))


TWO_CALLS = [event("y = graph_0(x, w)", "graph", "y"), event("z = graph_0(x, w)", "graph", "z")]


@pytest.mark.parametrize(
    ("behind", "alive"),
    [
        ([event("s = y + z", makes="s")], ("y",)),
        ([event("s = y[1:]", makes="part")], ()),
        ([event("part = y[1:]", makes="part"), event("s = part.sum()", makes="s")], ("y",)),
        ([event("y.add_(1)", makes="y", writes=["y"])], ("y",)),
        ([event("y.copy_(z)", makes="y", writes=["y"]), event("s = y.sum()", makes="s")], ()),
        ([event("y[:] = z", writes=["y"]), event("s = y.sum()", makes="s")], ()),
        ([event("s = graph_0(y, w)", "graph", "s")], ("y",)),
        ([event("y[0] = z", writes=["y"]), event("s = y.sum()", makes="s")], ("y",)),
        (
            [
                event("part = y[1:]", makes="part"),
                event("part.copy_(z)", makes="part", writes=["part"]),
                event("s = y.sum()", makes="s"),
            ],
            ("y",),
        ),
        ([event("y.copy_(y)", makes="y", writes=["y"]), event("s = y.sum()", makes="s")], ("y",)),
        ([event("s = torch.zeros_like(y)", makes="s")], ()),
        ([event("s = y.new_zeros(3)", makes="s")], ()),
        ([event("s = z.expand_as(y)", makes="s")], ()),
        ([event("s = torch.where(y > 0, z, torch.zeros_like(y))", makes="s")], ("y",)),
        ([event("y.backward()", "backward", grads=["w"])], ()),
        ([event("z.backward(y)", "backward", grads=["w"])], ("y",)),
        ([event("torch.autograd.backward([z, y], [z, z])", "backward", grads=["w"])], ()),
        ([event("(s,) = torch.autograd.grad(z, w, y)", "backward", "s")], ("y",)),
        ([event("s = z.sum()", makes="s")], ()),
    ],
)
def test_a_result_is_alive_as_long_as_its_values_are_read(behind: list[dict[str, object]], alive: tuple[str]) -> None:
    storages = {"x": 1, "w": 2, "y": 3, "z": 4, "part": 3, "s": 5}
    program = parse(traced(events=[EVENTS[0], EVENTS[1], *TWO_CALLS, *behind], storages=storages))

    assert read_later(program)[3] == alive
    assert read_later(program)[2] == (), "its own result is compared anyway"


def test_a_look_of_the_script_keeps_a_result_alive() -> None:
    storages = {"x": 1, "w": 2, "y": 3, "z": 4}
    looks = [{"after": 3, "values": ["z"], "source": ("train.py", 3, "")}]
    early = parse(traced(events=[EVENTS[0], EVENTS[1], *TWO_CALLS], storages=storages, looks=looks))
    late = parse(
        traced(
            events=[EVENTS[0], EVENTS[1], *TWO_CALLS],
            storages=storages,
            looks=[{"after": 4, "values": ["y"], "source": ("train.py", 3, "")}],
        )
    )

    assert read_later(early)[3] == ()
    assert read_later(late)[3] == ("y",)


def test_of_many_results_the_latest_storages_are_watched() -> None:
    storages = {**{f"y{index}": index for index in range(20)}, "part": 19}
    names = [*(f"y{index}" for index in range(20)), "part"]
    assert watched(names[:16], storages) == tuple(names[:16])
    assert watched(names, storages) == tuple(names[4:])

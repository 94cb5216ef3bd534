"""What an event needs that is run again from the inputs of its program."""

from __future__ import annotations

from minimizer.inside.questions import SidesStep
from minimizer.inside.tasks.needed import needed


def test_an_event_needs_what_it_comes_from_and_the_switches() -> None:
    steps = [
        SidesStep("a"),
        SidesStep("switch", is_setting=True),
        SidesStep("b", needs=[0]),
        SidesStep("c"),
        SidesStep("d", needs=[2]),
    ]

    assert needed(steps, 4) == [0, 1, 2]


def test_where_one_draws_all_that_have_drawn_before_it_are_needed() -> None:
    seed = SidesStep("torch.manual_seed(1)", is_setting=True, draws=True)
    steps = [
        seed,
        SidesStep("x = ones"),
        SidesStep("y = rand(x)", needs=[1], draws=True),
        SidesStep("z = rand", draws=True),
        SidesStep("w", needs=[3]),
    ]

    assert needed(steps, 4) == [0, 1, 2, 3]
    assert needed([*steps, SidesStep("v", needs=[1])], 5) == [1]

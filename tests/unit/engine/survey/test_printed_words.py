"""What two runs of a script print, compared by its words."""

from __future__ import annotations

import pytest

from minimizer.engine.survey.printed import NOTHING, first_difference


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss 0.4931", "loss 1e-05"),
        ("took 1.2 s, 3 MiB", "took 800 ms, 2,048 kB"),
        ("tensor([0.1000, 2.0000])", "tensor([1.0000e-01,\n        2.0000e+00])"),
        ("at 0x7f00, (6, 2), 12:30:01", "at 0x7fff, (7,  3), 12:31:59"),
        ("  step 1", "step 2."),
    ],
)
def test_numbers_their_units_and_spaces_are_no_words(one: str, other: str) -> None:
    assert first_difference(one, other) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("loss nan", "loss 0.5", ("loss nan", "loss #")),
        ("step 1\nstep 2", "step 1", ("step #", NOTHING)),
        ("layer2 ok", "layer3 ok", ("layer2 ok", "layer3 ok")),
        ("", "1 reset", (NOTHING, "# reset")),
    ],
)
def test_the_first_line_with_other_words_is_found(one: str, other: str, expected: tuple[str, str]) -> None:
    assert first_difference(one, other) == expected

"""What an examination of graphs says, by its end."""

from __future__ import annotations

import pytest

from minimizer.engine.advice.drift import NO_TIME, unexamined
from minimizer.engine.child.curves import Examined
from minimizer.engine.child.outcome import Ending, Outcome

WHOLE = Examined(results=2)


@pytest.mark.parametrize(
    ("ending", "examined", "why"),
    [
        (Ending.SAME, WHOLE, None),
        (Ending.SAME, Examined(results=0), "no graph was called often enough"),
        (Ending.SAME, Examined(results=2, few=2), "of 2 graphs too few calls could be kept"),
        (Ending.SAME, Examined(results=2, failed=1), "calls of 1 graph could not be run again"),
        (Ending.SAME, Examined(results=2, is_late=True), NO_TIME),
        (Ending.SAME, None, "the run for it did not end well"),
        (Ending.RUNTIME_ERROR, WHOLE, "the run for it did not end well"),
        (Ending.LOST, None, "the run for it did not end well"),
        (Ending.TIMEOUT, None, NO_TIME),
    ],
)
def test_only_an_examination_that_came_to_its_end_clears_the_compiler(
    ending: Ending, examined: Examined | None, why: str | None
) -> None:
    assert unexamined(Outcome(ending=ending, examined=examined)) == why

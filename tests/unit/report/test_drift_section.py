"""The section on the losses of a training: its plot, and what it says where there is none."""

from __future__ import annotations

from minimizer.report.as_markdown import render
from minimizer.report.culprit import Source
from minimizer.report.drift import Drift
from minimizer.report.drift_section import floor, plot
from minimizer.report.model import Report
from minimizer.vocabulary import Status

CHAOS = Drift(
    verdict="chaos",
    what="At step 3 the loss of `net` parts.",
    steps=4,
    source=Source(file="train.py", line=9, code="loss.backward()"),
    at=[1, 2, 3, 4],
    eager=[4.0, 3.0, 2.0, 1.0],
    compiled=[4.0, 3.0, 2.5, None],
    redrawn=[[4.0, 3.5, 3.0, None], [4.0, 2.5, 1.5, 1.0]],
)


def rendered(drift: Drift | None) -> str:
    return render(Report(status=Status.HEALTHY, drift=drift), script_name="train.py", repro=None)


def test_the_curves_are_drawn_with_the_range_of_redrawn_ones() -> None:
    text = rendered(CHAOS)
    assert "## Losses\n\nAt step 3 the loss of `net` parts." in text
    assert "of `train.py:9` by step" in text and "highest of 2 runs of eager" in text
    assert "| 4 | 1 | - | - | - |" in text


def test_a_plot_ends_where_a_loss_is_no_number() -> None:
    assert plot(CHAOS).splitlines()[2:] == [
        '    x-axis "step" 1 --> 3',
        '    y-axis "loss"',
        "    line [4, 3, 2]",
        "    line [4, 3, 2.5]",
        "    line [4, 2.5, 1.5]",
        "    line [4, 3.5, 3]",
        "```",
    ]
    assert plot(CHAOS.model_copy(update={"compiled": [4.0, None, None, None]})) == ""


def test_the_floor_is_unknown_where_a_run_has_lost_its_loss() -> None:
    assert floor(CHAOS) == ([4.0, 2.5, 1.5, None], [4.0, 3.5, 3.0, None])


def test_equal_curves_are_one_sentence_and_no_loss_no_section() -> None:
    equal = rendered(CHAOS.model_copy(update={"verdict": "equal", "what": "All equal."}))
    assert "## Losses\n\nAll equal.\n" in equal and "mermaid" not in equal
    assert "Losses" not in rendered(None)

"""Logs in another order are a finding where exact runs have seen that the script asks for it, and only there."""

from __future__ import annotations

from minimizer.engine.advice.reordered import finding
from minimizer.report.examined import Checked
from minimizer.report.excused import excused

TEXT = """import torch

torch._dynamo.config.reorderable_logging_functions.add(print)
"""


def test_lines_in_another_order_are_told_with_the_first_of_them_and_the_line_that_allows_it() -> None:
    one = finding(Checked(excused=[excused("exact_reordered", "printed text[3]")]), TEXT, "train.py")
    assert one is not None and (one.kind, one.cost) == ("logs_reordered", None)
    assert "in another order from line 4 of its output on" in one.what
    assert one.source is not None and (one.source.file, one.source.line) == ("train.py", 3)


def test_a_setting_that_moves_nothing_is_no_finding() -> None:
    assert finding(Checked(excused=[excused("exact_backend", "raised")]), TEXT, "train.py") is None

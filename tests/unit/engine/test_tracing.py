"""A program that was traced is kept where it cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sample_trace import traced

from minimizer.engine.outer import runs
from minimizer.engine.outer.program import parse
from minimizer.engine.outer.runs import compared
from minimizer.errors import BudgetExceeded, ChildFailed

EXECUTOR: Any = None
"""No child is asked."""


@pytest.mark.parametrize("error", [ChildFailed("malformed"), BudgetExceeded("over")])
def test_a_child_that_fails_in_the_comparison_says_why(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(runs, "side_by_side", fail)

    assert compared(EXECUTOR, parse(traced()), Path("inputs.pt"), 1.0) == (None, str(error))


def test_a_mode_with_cuda_graphs_is_not_compared() -> None:
    program = parse(traced())
    graph = replace(program.graphs["graph_0"], compile_kwargs=(("mode", '"reduce-overhead"'),))

    sides, why = compared(EXECUTOR, replace(program, graphs={"graph_0": graph}), Path("inputs.pt"), 1.0)

    assert sides is None
    assert "CUDA graphs" in why

"""Runs of whole scripts without the compiler: what makes one no candidate."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.reduce.python.rerun import Rerun


@pytest.mark.parametrize("memory", ["torch.empty(2)", "torch.Tensor(2)", "torch.empty_like(torch.ones(2))"])
def test_a_script_that_reads_what_nobody_has_written_does_not_end_well(
    memory: str, child: Executor, home: Path
) -> None:
    """Freed memory often holds the same on both sides, so that such a script passes in eager by chance."""
    rerun = Rerun(child, script(home, ""))
    text = f"import torch\ntorch.testing.assert_close({memory}, {memory})\n"
    assert not rerun.ends_well(text)
    assert rerun.ends_well(text.replace(memory, f"{memory}.zero_()"))

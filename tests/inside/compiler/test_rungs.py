"""The rungs of the ladder reach a script whatever entry to the compiler it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.reduce.python.rerun import Rerun

BROKEN = """
import torch
import torch._dynamo as dynamo

def broken(graph, inputs):
    raise ValueError("broken")

def f(x):
    return x + 1

"""


@pytest.mark.parametrize(
    "entry",
    [
        "torch.compile(f, backend=broken, fullgraph=True)",
        "torch.compile(backend=broken, mode='max-autotune')(f)",
        "torch._dynamo.optimize(broken)(f)",
        "dynamo.optimize(backend=broken, nopython=True)(f)",
        "dynamo.optimize_assert(broken)(f)",
    ],
)
def test_a_rung_takes_the_place_of_the_scripts_own_backend(entry: str, child: Executor, home: Path) -> None:
    rerun = Rerun(child, script(home, ""))
    text = f"{BROKEN}{entry}(torch.ones(2))\n"
    assert rerun.failure(text)[0] is not None
    for backend in ("eager", "aot_eager"):
        signature, outcome = rerun.failure(text, backend=backend)
        assert (signature, outcome.ending) == (None, "same")

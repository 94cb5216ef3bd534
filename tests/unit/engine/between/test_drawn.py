"""Assertions of what follows from random numbers: by what eager gives in the same run."""

from __future__ import annotations

import pytest

from minimizer.engine.between.drawn import CHECK, reseeded, run_twice

TEXT = "import torch\nf = torch.compile(g)\nout = f(torch.rand(2))\n"


def test_other_numbers_are_drawn_by_other_seeds() -> None:
    text = "import random, torch\ntorch.manual_seed(0)\nrandom.seed(41)\nx.view(1)\n"
    assert reseeded(text) == "import random, torch\ntorch.manual_seed(1)\nrandom.seed(42)\nx.view(1)\n"


def test_a_script_runs_twice_from_one_seed() -> None:
    (text,) = run_twice(TEXT, "out.tolist()")
    assert text == (
        "import torch\n\n"
        "def run():\n"
        "    torch.manual_seed(0)\n"
        "    f = torch.compile(g)\n"
        "    out = f(torch.rand(2))\n"
        "    return out.tolist()\n"
        "with torch.compiler.set_stance('force_eager'):\n"
        "    expected = run()\n"
        "actual = run()\n"
    )
    assert CHECK.startswith("assert actual == expected, ")


@pytest.mark.parametrize(("reads", "is_apart"), [("x", True), ("scale", False)])
def test_functions_stay_outside_unless_they_read_what_the_script_binds(reads: str, *, is_apart: bool) -> None:
    defined = f"@torch.compile\ndef f(x):\n    return x * {reads}"
    first, *rest = run_twice(f"import torch\n{defined}\nscale = 2\nout = f(torch.rand(2))\n", "out.tolist()")
    assert (defined in first, len(rest)) == (is_apart, int(is_apart))


@pytest.mark.parametrize(
    "text",
    [
        "import torch as t\nt.manual_seed(0)\nout = f(t.rand(2))\n",
        f"{TEXT}run = 1\n",
        f"{TEXT}def h():\n    global x\n",
    ],
)
def test_what_would_mean_something_else_in_a_function_is_left_alone(text: str) -> None:
    assert list(run_twice(text, "out")) == []

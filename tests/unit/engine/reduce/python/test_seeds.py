"""Seeds in a script's text, and the random states that its trials start from."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, ExceptionInfo, Outcome
from minimizer.engine.reduce.python import Rerun, Source, reduce_script
from minimizer.engine.reduce.python.seeds import depends_on_state, seeded, with_seed
from minimizer.inside.questions import ScriptRequest

DRAWN = "import torch\ntorch.manual_seed(0)\nfail_if(torch.rand)\n"


@pytest.mark.parametrize(
    ("text", "is_set"),
    [
        ("import torch\ntorch.manual_seed(0)", True),
        ("from torch import manual_seed as fix\nfix(0)", True),
        ("import numpy as np\nnp.random.seed(0)", True),
        ("import torch\ndef set_all():\n    torch.cuda.manual_seed_all(0)", True),
        ("import torch\ng = torch.Generator().manual_seed(0)\ntorch.rand(1, generator=g)", False),
        ("import torch\nplant.seed(3)", False),
        ("import torch\nx = torch.rand(1)", False),
    ],
)
def test_only_a_global_generator_counts_as_seeded(text: str, *, is_set: bool) -> None:
    assert depends_on_state(ast.parse(text)) is not is_set


@pytest.mark.parametrize(
    ("text", "seeded_"),
    [
        ("import torch\nx = torch.rand(1)\n", "import torch\ntorch.manual_seed(0)\nx = torch.rand(1)\n"),
        (
            "'''Doc.'''\nfrom torch import rand\nimport random\nx = rand(1)\n",
            "'''Doc.'''\nfrom torch import rand\nimport random\nimport torch\ntorch.manual_seed(0)\nrandom.seed(0)\nx = rand(1)\n",
        ),
    ],
)
def test_a_script_without_a_seed_is_given_one_behind_its_imports(text: str, seeded_: str) -> None:
    assert with_seed(Source.parse(text)).text == ast.unparse(ast.parse(seeded_)) + "\n"


def test_the_first_seed_with_which_it_still_fails_is_taken() -> None:
    source = Source.parse("import torch\nx = torch.rand(1)\n")
    assert "manual_seed(2)" in seeded(source, lambda tried: ["manual_seed(2)" in one.text for one in tried]).text
    assert seeded(source, lambda tried: [False] * len(tried)) is source
    own = Source.parse(DRAWN)
    assert seeded(own, lambda tried: pytest.fail("it has a seed")) is own


class Drawing:
    """An executor of scripts that fail where they call ``fail``, or ``fail_if`` with random numbers: that in half of all states, unless they are seeded."""

    jobs = 1

    def __init__(self) -> None:
        self.asked: list[ScriptRequest] = []

    def judge(self, requests: Sequence[ScriptRequest], **_: Any) -> list[Outcome]:
        self.asked += requests
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: ScriptRequest) -> Outcome:
        text, draws = request.text, "rand" in request.text
        by_chance = "fail_if(torch.rand" in text
        fails = by_chance and ("manual_seed" in text or request.state % 2 == 0)
        if not request.compile or not (fails or "fail()" in text):
            return Outcome(ending=Ending.SAME, draws=draws)
        error = ExceptionInfo(
            type="RuntimeError",
            message="no",
            root_type="RuntimeError",
            root_message="no",
            frames=[("script.py", "f", "f()")],
        )
        return Outcome(ending=Ending.RUNTIME_ERROR, exception=error, draws=draws)


def reduced(text: str) -> tuple[str, Drawing]:
    runs = Drawing()
    rerun = Rerun(cast(Executor, runs), Path("script.py"))
    rerun.target, _ = rerun.failure(text)
    assert rerun.target is not None
    return reduce_script(Source.parse(text), check=rerun.check).best.text, runs


def test_a_seed_that_matters_stays() -> None:
    assert "torch.manual_seed(" in reduced(DRAWN)[0]


def test_a_seed_that_does_not_matter_goes() -> None:
    assert "manual_seed" not in reduced("import torch\ntorch.manual_seed(0)\nx = torch.rand(1)\nfail()\n")[0]


def test_both_runs_of_a_trial_start_alike_and_no_two_trials_do() -> None:
    _, runs = reduced("import torch\ntorch.manual_seed(0)\nx = torch.rand(1)\nfail()\n")
    states: dict[int, list[bool]] = {}
    for request in runs.asked:
        states.setdefault(request.state, []).append(request.compile)
    assert all(sides in ([True], [False], [False, True]) for sides in states.values())
    assert [False, True] in states.values() and len(states) > 2

"""Where Dynamo was given no frame the compiler is to blame for nothing, and processes that a script starts are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Finished
from minimizer.engine.reduce.python.rerun import Rerun
from minimizer.engine.survey.cases import Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.vocabulary import Reason

LOOKS = """
# torch.compile stands in this comment
import os
if os.environ.get("TORCHDYNAMO_DISABLE") != "1":
    {end}
"""
ENDS = ["raise AssertionError('is on')", "os.abort()", "os._exit(3)", "raise SystemExit(3)"]


def finished(child: Executor, home: Path, text: str) -> Finished:
    found = survey(child, script(home, text))
    assert found.finished is not None, found.held.failure if found.held else found.log
    return found.finished


@pytest.mark.parametrize("end", ENDS)
def test_a_script_that_looks_at_the_switch_is_no_failure_of_the_compiler(end: str, child: Executor, home: Path) -> None:
    path = script(home, LOOKS.format(end=end))
    surveys = Surveys(child, path, args=[], steps=None, hang_after=200, values=True)
    found = Triage(surveys, on_note=lambda _: None).run()
    assert isinstance(found, Settled)
    assert found.reason is Reason.NOTHING_COMPILED


@pytest.mark.parametrize("end", ENDS)
def test_nor_is_it_one_to_be_reduced(end: str, child: Executor, home: Path) -> None:
    assert Rerun(child, script(home, "")).failure(LOOKS.format(end=end))[0] is None


ATTEMPTS = {
    "no graph": "f = torch.compile(lambda x: 3)\nf(torch.ones(2))",
    "an error of Dynamo's": (
        "import torch._dynamo.symbolic_convert as convert\n"
        "def broken(*args): raise RuntimeError('broken')\n"
        "convert.InstructionTranslator.run = broken\n"
        "torch.compile(torch.nn.ReLU())(torch.ones(2))"
    ),
    "all of a frame": "torch.compile(lambda x: x + 1, fullgraph=True, backend='eager')(torch.ones(2))",
    "an export": "torch._dynamo.export(lambda x: x + 1)(torch.ones(2))",
    "one that is forgotten": "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\ntorch._dynamo.reset()",
}


@pytest.mark.parametrize("text", ATTEMPTS.values(), ids=ATTEMPTS)
def test_an_attempt_counts_however_it_ends(text: str, child: Executor, home: Path) -> None:
    assert finished(child, home, f"import torch\n{text}\n").attempted


def test_a_crash_or_an_error_behind_an_attempt_is_still_one_of_the_compiler(child: Executor, home: Path) -> None:
    rerun = Rerun(child, script(home, ""))
    compiles = "import os, torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
    for end in ("os.abort()", "raise AssertionError('no')"):
        signature, outcome = rerun.failure(f"{compiles}{end}\n")
        assert signature is not None, outcome


CHILDREN = """
import subprocess, sys, torch
import multiprocessing

def work():
    pass

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
    for _ in torch.utils.data.DataLoader(torch.ones(4), num_workers=1):
        pass
    subprocess.run([sys.executable, "-c", "pass"])
"""


def test_processes_that_the_script_starts_are_counted(child: Executor, home: Path) -> None:
    assert finished(child, home, CHILDREN).children == 4


def test_those_that_the_compiler_starts_are_not(child: Executor, home: Path) -> None:
    """A kernel that nothing has built before: the C++ compiler is started."""
    text = "import torch\ntorch.compile(lambda x: x * 1.2345 + 3.21)(torch.ones(1000))\n"
    found = finished(child, home, text)
    assert (found.checked.calls, found.children) == (1, 0)

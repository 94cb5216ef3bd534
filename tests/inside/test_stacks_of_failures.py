"""The stack of a failure: the script's own frames first, the frame that raised last, none of ours, none of the machine's folders."""

from __future__ import annotations

from typing import Any

import pytest
from children import script
from surveyed import BACKENDS, RELU_BUG

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case, ScriptCase, Settled
from minimizer.report.stack import MOST_LINES, shortened
from minimizer.vocabulary import Reason

LOWERING = """
import torch
from torch._inductor.lowering import lowerings

def broken(*args, **kwargs):
    raise RuntimeError("there is no erf today")

lowerings[torch.ops.aten.erf.default] = broken

def model(x):
    return torch.erf(x) + 1

torch.compile(model)(torch.ones(3))
"""
ABORTS = LOWERING.replace('raise RuntimeError("there is no erf today")', "import os; os.abort()")
AT_RUN_TIME = BACKENDS + "torch.compile(lambda x: torch.sin(x), backend=breaks)(torch.ones(3))\n"
REJECTED = BACKENDS + "torch.compile(lambda x: torch.sin(x), backend=rejects)(torch.ones(3))\n"
CPP = RELU_BUG.format("compile_error") + "import torch\ntorch.compile(torch.relu)(torch.ones(3))\n"
DYNAMO = """
import torch

def model(x):
    print(x)
    return x + 1

torch.compile(model, fullgraph=True)(torch.ones(3))
"""
IN_EAGER = """
import torch

def model(x):
    return x @ torch.ones(5, 2)

torch.compile(model)(torch.ones(2, 3))
"""


@pytest.mark.parametrize(
    ("text", "users_line", "raises", "said"),
    [
        (LOWERING, "torch.compile(model)(torch.ones(3))", "in broken", "RuntimeError: there is no erf today"),
        (ABORTS, "in <module>", "in broken", "Fatal Python error: Aborted"),
        (AT_RUN_TIME, "torch.compile(lambda", "in run", "ValueError: only when it runs"),
        (REJECTED, "torch.compile(lambda", "in rejects", "NotImplementedError: no sin here"),
        (CPP, "torch.compile(torch.relu)", "torch/_inductor/cpp_builder.py", "error: "),
        (DYNAMO, "fullgraph=True", "torch/_dynamo/", "Unsupported: "),
        (IN_EAGER, "torch.compile(model)", "in model", "RuntimeError: mat1 and mat2"),
    ],
    ids=["a lowering raises", "a lowering aborts", "at run time", "a backend raises", "C++", "Dynamo", "eager"],
)
@pytest.mark.examples(3)
def test_the_stack_leads_from_the_script_to_what_raises(
    text: str, users_line: str, raises: str, said: str, triage: Any
) -> None:
    found = triage(text)
    found = found.otherwise if isinstance(found, ScriptCase) else found
    assert isinstance(found, Case | Settled)
    assert found.stack.count("\n") > 3
    shown = shortened(found.stack)
    assert all(words in shown for words in (users_line, raises, said)), shown
    assert len(shown.splitlines()) <= MOST_LINES + 20
    assert "minimizer/inside" not in shown and "site-packages" not in shown
    assert str(found) and 'File "script.py", line ' in shown
    if isinstance(found, Case):
        found.survey.close()


def test_what_fails_in_eager_has_its_line_in_the_module_of_the_project(triage: Any, home: Any) -> None:
    (home / "parts").mkdir(exist_ok=True)
    (home / "parts" / "net.py").write_text("import torch\n\ndef model(x):\n    return x @ torch.ones(5, 2)\n")
    found = triage("import torch\nfrom parts.net import model\ntorch.compile(model)(torch.ones(2, 3))\n")
    assert found.reason is Reason.FAILS_IN_EAGER
    assert found.exception.source == ("parts/net.py", 4, "return x @ torch.ones(5, 2)")
    assert found.exception.library is None


def test_a_library_is_named_beside_the_line_that_calls_it(child: Executor, triage: Any, home: Any) -> None:
    library = home / "site-packages" / "lib_of_layers"
    library.mkdir(parents=True, exist_ok=True)
    (library / "__init__.py").write_text("def apply(x):\n    return x @ x\n")
    text = (
        "import sys, torch\n"
        "sys.path.append(__file__.replace('script.py', 'site-packages'))\n"
        "from lib_of_layers import apply\n"
        "torch.compile(apply)(torch.ones(2, 3))\n"
    )
    found = triage(text)
    assert script(home, text).exists() and found.reason is Reason.FAILS_IN_EAGER
    assert found.exception.source[:2] == ("script.py", 4)
    assert found.exception.library == ("lib_of_layers/__init__.py", 2, "return x @ x")

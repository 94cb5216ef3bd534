"""Inductor without kernels, the cheapest way to its passes and caches: what they get wrong shows there, and no kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.engine.diagnose.ladder import cheapest
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Case, Settled
from minimizer.inside.questions import WITHOUT_KERNELS
from minimizer.vocabulary import Kind

NO_COMPILER = "import torch\ntorch._inductor.config.cpp.cxx = ('/no/compiler',)\n"
MERGED = """
    def merge(graph):  # an optimization that is wrong: sin(x) is taken for x
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.sin.default:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    torch._inductor.config.post_grad_custom_post_pass = merge
    torch.compile(lambda x: (x.sin() + 0.25).exp() * 2)(torch.ones(7))
"""
KERNEL = """
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch.compile(lambda x: (x + 0.25).relu())(torch.ones(7))
"""


@pytest.mark.parametrize(
    ("text", "way"), [pytest.param(MERGED, WITHOUT_KERNELS, id="pass"), pytest.param(KERNEL, None, id="kernel")]
)
def test_it_is_the_cheapest_way_to_what_is_wrong_without_kernels(
    child: Executor, triage: Callable[..., Case | Settled], text: str, way: str | None
) -> None:
    case = triage("import torch\n" + dedent(text))
    assert isinstance(case, Case), case.summary
    assert case.signature.kind is Kind.WRONG_OUTPUT
    program = case.program.as_compiled()
    assert cheapest(program, Oracle(child, case.survey, (case.signature,), None)) == way
    case.survey.close()


@pytest.mark.parametrize(("backend", "ending"), [(WITHOUT_KERNELS, Ending.SAME), (None, Ending.COMPILE_ERROR)])
def test_nothing_is_compiled_for_a_script(child: Executor, home: Path, backend: str | None, ending: Ending) -> None:
    text = NO_COMPILER + "f = torch.compile(lambda x: (x + 0.5).tanh(), mode='default')\nf(torch.ones(3))\n"
    _, outcome = Rerun(child, script(home, text)).failure(text, backend)
    assert outcome.ending is ending

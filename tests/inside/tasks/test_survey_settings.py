"""What a script has set, and what its setting names: it travels with the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from children import script, survey
from surveyed import BACKENDS, RELU_BUG, finished, held

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case


def test_a_backend_of_the_scripts_own_is_known_by_its_name(triage: Any) -> None:
    case = triage(
        """
import torch

def negative(graph_module, inputs):
    return lambda *args: tuple(-out for out in graph_module(*args))

torch.compile(lambda x: x + 1, backend=negative)(torch.ones(3))
"""
    )
    assert isinstance(case, Case)
    assert case.program.compile_kwargs == (("backend", "negative"),)
    assert any(line.startswith("def negative(") for line in case.program.setup)
    case.survey.close()


BESIDE = """
import torch

SIGN = -1


@torch.library.custom_op("own::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


def negative(graph_module, inputs):
    return lambda *args: tuple(SIGN * out for out in graph_module(*args))
"""


@pytest.mark.parametrize(
    ("imports", "backend", "operator"),
    [
        ("from beside import negative", "negative", "torch.ops.own.double"),
        ("import beside as b", "b.negative", "b.double"),
        ("from beside import negative as other, double as twice", "other", "twice"),
    ],
)
def test_a_backend_and_an_operator_of_a_module_beside_the_script_travel_with_the_graph(
    triage: Any, home: Path, imports: str, backend: str, operator: str
) -> None:
    script(home, BESIDE, "beside.py")
    case = triage(
        f"import torch\n{imports}\n\nSIGN = 1\n"
        f"torch.compile(lambda x: {operator}(x + 1), backend={backend})(torch.ones(3))\n"
    )
    assert isinstance(case, Case)
    assert case.program.compile_kwargs == (("backend", "negative"),)
    setup = "\n".join(case.program.setup)
    assert "def negative(" in setup and 'custom_op("own::double"' in setup.replace("'", '"')
    assert "beside_SIGN = -1" in setup and "beside_SIGN * out" in setup, (
        "that of the module, and not that of the script"
    )
    assert "import beside" not in setup and "from beside" not in setup
    case.survey.close()


@pytest.mark.parametrize(
    "how",
    [
        "torch._inductor.config.post_grad_custom_post_pass = negate\ntorch.compile(f)(torch.ones(3))",
        "torch.compile(f, options={'post_grad_custom_post_pass': negate})(torch.ones(3))",
    ],
)
def test_a_function_of_the_script_that_is_a_pass_is_known_by_its_name(triage: Any, how: str) -> None:
    case = triage(
        f"""
import torch
import torch._inductor.config

def negate(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
        node.target = torch.ops.aten.cos.default

def f(x):
    return torch.sin(x)

{how}
"""
    )
    assert isinstance(case, Case)
    assert any(line.startswith("def negate(") for line in case.program.setup)
    assert not any("__main__" in text for text in (*case.program.setup, *dict(case.program.compile_kwargs).values()))
    case.survey.close()


def test_the_number_of_threads_that_a_script_sets_travels(child: Executor, home: Path) -> None:
    text = f"import torch\n{RELU_BUG.format('accuracy')}torch.set_num_threads(3)\ntorch.compile(torch.relu)(torch.ones(4))\n"
    found = held(survey(child, script(home, text)))
    assert found.program is not None
    assert "torch.set_num_threads(3)" in found.program["setup"]


def test_an_object_that_cannot_be_copied_may_be_a_setting(child: Executor, home: Path) -> None:
    """Configs are copied to know what the script has set; a pass that holds a lock has no copy."""
    text = (
        BACKENDS
        + """
import threading
import torch._inductor.config

class Pass:
    def __init__(self):
        self.lock = threading.Lock()

torch._inductor.config.post_grad_custom_post_pass = Pass()
x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: x.sin().exp(), backend=COMPILER)(x).sum().backward()
"""
    )
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'aot_eager'"))))
    assert (answer.exception, answer.notes) == (None, [])
    assert (answer.checked.calls, answer.checked.backward) == (1, 1)
    found = held(survey(child, script(home, text.replace("COMPILER", "wrong"))))
    assert found.failure.kind == "wrong_output"
    assert found.program is not None
    assert found.program["opaque_settings"] == ["torch._inductor.config.post_grad_custom_post_pass"]


@pytest.mark.parametrize("part", ["cuda.matmul", "mkldnn.matmul"])
def test_a_precision_set_for_one_backend_travels(child: Executor, home: Path, part: str) -> None:
    line = f'torch.backends.{part}.fp32_precision = "{"tf32" if part == "cuda.matmul" else "bf16"}"'
    text = f"import torch\n{line}\ntorch.compile(lambda x: x + 1, backend=COMPILER)(torch.ones(3))\n"
    answer = finished(survey(child, script(home, text.replace("COMPILER", "'aot_eager'"))))
    assert (answer.exception, answer.notes, answer.checked.calls) == (None, [], 1)
    program = held(survey(child, script(home, BACKENDS + text.replace("COMPILER", "wrong")))).program
    assert program is not None
    assert line in program["setup"]

"""Gradients of the script's own backward, which a replay of it may not show."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script, survey
from surveyed import finished, held

from minimizer.engine.child.executor import Executor

BACKEND = """
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

def plain(graph, inputs):
    return make_boxed_func(graph.forward)

def in_one_buffer(graph, inputs):
    kept = []
    def run(*args):
        kept.append(graph(*args))
        return kept[-2] if len(kept) > 1 else kept[-1]
    return make_boxed_func(run)

stale = aot_autograd(fw_compiler=plain, bw_compiler=in_one_buffer)
"""


def test_gradients_that_the_backward_before_has_left_are_wrong(child: Executor, home: Path) -> None:
    """A replay on equal values returns what the script's own backward should have returned."""
    text = (
        BACKEND
        + """
w = torch.ones(3, requires_grad=True)
f = torch.compile(lambda w, x: (w * x).sin(), backend=stale)
for step in range(3):
    f(w, torch.full((3,), float(step))).sum().backward()
"""
    )
    found = held(survey(child, script(home, text)))
    assert (found.failure.phase, found.failure.kind) == ("backward", "wrong_gradient")


PRODUCT = "y = (w * x).sin()\n    return y, x * w"
VIEWS = "y = (w * x).sin()\n    return y, y.t()"


@pytest.mark.parametrize(
    ("body", "loop"),
    [
        pytest.param(
            PRODUCT, "y.register_hook(lambda grad: grad * 3)\ny.sum().backward()", id="cotangent changed by a hook"
        ),
        pytest.param(PRODUCT, "y.sum().backward(retain_graph=True)\n(y * y).sum().backward()", id="two backwards"),
        pytest.param(PRODUCT, "y.sum().backward(inputs=[x])", id="for one input"),
        pytest.param(
            VIEWS,
            "z.register_hook(lambda grad: grad * 3)\n(y.sum() + z.sum()).backward()",
            id="a view among the outputs",
        ),
        pytest.param(PRODUCT, "torch.autograd.grad(z.sum(), [w, x], allow_unused=True)", id="one output used"),
        pytest.param(PRODUCT, "y.sum().backward()\nw.grad.zero_()", id="gradients cleared in place"),
        pytest.param(PRODUCT, "y.backward(torch.ones(3, 1).expand(3, 4))", id="expanded cotangent"),
        pytest.param(
            PRODUCT, "w.data.mul_(0.5)\n(y.sum() + z.sum()).backward()", id="weights written to before the backward"
        ),
        pytest.param(
            PRODUCT,
            "with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):\n    y, z = f(w, x)\ny.sum().backward()",
            id="tensors kept in half precision",
        ),
    ],
)
@pytest.mark.examples(3)
def test_right_gradients_are_no_alarm(child: Executor, home: Path, body: str, loop: str) -> None:
    lines = loop.replace("\n", "\n    ")
    text = f"""
import torch
from torch.autograd.graph import saved_tensors_hooks

w = torch.full((4,), 0.5, requires_grad=True)

@torch.compile(backend="aot_eager")
def f(w, x):
    {body}

for _ in range(2):
    x = torch.randn(3, 4, requires_grad=True)
    y, z = f(w, x)
    {lines}
"""
    answer = finished(survey(child, script(home, text)))
    assert answer.exception is None
    assert answer.checked.backward >= 2


IN_ONE_PLACE = BACKEND.replace(
    """        kept.append(graph(*args))
        return kept[-2] if len(kept) > 1 else kept[-1]
""",
    """        for index, one in enumerate(graph(*args)):
            if one is not None:
                if len(kept) <= index:
                    kept.append(torch.empty_like(one))
                kept[index].copy_(one)
        return [one.view(one.shape) for one in kept]
""",
)
ACCUMULATED = """
w = torch.ones(3, requires_grad=True)
f = torch.compile(lambda w: w.sin(), backend=stale)
for _ in range(2):
    f(w).sum().backward()
    BETWEEN
"""


@pytest.mark.parametrize(
    ("between", "is_told"),
    [
        ("", True),
        pytest.param("w.grad = None", False, id="not held any more"),
        pytest.param("w.grad = w.grad.clone()", False, id="in memory of its own"),
    ],
)
def test_a_backward_that_writes_over_a_gradient_that_is_held_is_told(
    child: Executor, home: Path, between: str, *, is_told: bool
) -> None:
    """Autograd adds to the gradient what lies in its own memory by then; each replay is right."""
    answer = finished(survey(child, script(home, IN_ONE_PLACE + ACCUMULATED.replace("BETWEEN", between))))
    said = "the backward of call 1 of graph 0 writes over a gradient of an earlier one, which the script still holds"
    assert answer.written_over == (said if is_told else "")
    assert answer.checked.backward == 2


def test_a_cotangent_that_is_passed_through_is_not_written_over(child: Executor, home: Path) -> None:
    """The gradient of an addition is the tensor itself that it is called with."""
    text = """
import torch

x = torch.ones(4, requires_grad=True)
f = torch.compile(lambda x: x + 1, backend="aot_eager")
f(x).backward(torch.ones(4))
f(x).backward(x.grad)
"""
    answer = finished(survey(child, script(home, text)))
    assert answer.written_over == "" and answer.checked.backward == 2


@pytest.mark.parametrize(
    ("before", "behind", "told"),
    [
        ("w.data.mul_(0.5)", "", "the backward of call 0 of graph 0"),
        pytest.param("", "w.data.mul_(0.5)", "", id="behind the backward"),
        pytest.param("w.data = w.data * 0.5", "", "the backward of call 0 of graph 0", id="by other memory"),
    ],
)
def test_a_backward_before_which_an_input_has_changed_is_told(
    child: Executor, home: Path, before: str, behind: str, told: str
) -> None:
    text = f"""
import torch

w = torch.full((4,), 0.5, requires_grad=True)
f = torch.compile(lambda w: w.sin(), backend="aot_eager")
for _ in range(2):
    y = f(w).sum()
    {before}
    y.backward()
    {behind}
"""
    answer = finished(survey(child, script(home, text)))
    assert answer.behind_change == told

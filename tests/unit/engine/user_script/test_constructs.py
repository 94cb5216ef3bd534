"""Constructs of a reduced script, in the words of the trade."""

from __future__ import annotations

import ast

import pytest

from minimizer.engine.user_script.constructs import construct_of, context_of

FUNCTION = """\
import torch
from torch.func import jvp, vmap

class R(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x
    @staticmethod
    def backward(ctx, g):
        return g
    @staticmethod
    def jvp(ctx, t):
        return t
"""
DONATED = "This backward function was compiled with non-empty donated buffers which requires create_graph=False"


@pytest.mark.parametrize(
    ("end", "what", "line"),
    [
        ("jvp(R.apply, (x,), (x,))", "jvp of an `autograd.Function`", 12),
        ("R.apply(x).sum().backward()", "backward of an `autograd.Function`", 9),
        ("vmap(R.apply)(x)", "an `autograd.Function`", 4),
        ("R.apply(x)", "an `autograd.Function`", 4),
    ],
)
def test_the_rule_of_a_function_that_is_called_is_named(end: str, what: str, line: int) -> None:
    found = construct_of(ast.parse(FUNCTION + end))
    assert found is not None and (found.what, found.line) == (what, line)


@pytest.mark.parametrize(
    ("decorator", "what"),
    [
        ("functools.lru_cache", "`functools.lru_cache` around `f`"),
        ("cached(maxsize=None)", "`functools.lru_cache` around `f`"),
        ("torch.no_grad()", None),
        ("functools.wraps(print)", None),
        ("functools.partial(torch.compile, dynamic=True)", None),
    ],
)
def test_a_wrapper_of_the_standard_library_is_named(decorator: str, what: str | None) -> None:
    text = f"import functools, torch\nfrom functools import lru_cache as cached\n@{decorator}\ndef f(x):\n    return TABLE[x]\n"
    found = construct_of(ast.parse(text))
    assert (found.what if found is not None else None) == what
    assert found is None or found.line == 3


@pytest.mark.parametrize(
    ("text", "said", "what", "line"),
    [
        (
            "import torch\ny.backward()\ntorch.autograd.grad(y, w, retain_graph=True)\n",
            DONATED,
            "second gradient through a graph whose buffers were donated (`torch.autograd.grad`)",
            3,
        ),
        ("y.backward()\ny.backward()\n", DONATED, "second gradient through a graph whose buffers were donated (`backward`)", 2),
        ("y.backward(retain_graph=True)\n", "", "second gradient through one graph (`backward`)", 1),
        ("from torch.autograd import grad\ngrad(y, x, create_graph=True)", "", "gradient that is differentiated again (`torch.autograd.grad`)", 2),
        ("y.backward(retain_graph=False)\n", "", None, 0),
        ("y.backward()\n", "", None, 0),
    ],
)  # fmt: skip
def test_a_gradient_that_keeps_its_graph_is_named(text: str, said: str, what: str | None, line: int) -> None:
    found = construct_of(ast.parse(text), said)
    assert (found and (found.what, found.line)) == (what and (what, line))


def test_a_handler_counts_inside_of_a_function() -> None:
    handler = "try:\n    torch.linalg.cholesky(x)\nexcept ValueError:\n    pass\n"
    inside = "".join(f"    {line}\n" for line in handler.splitlines())
    found = construct_of(ast.parse(f"import torch\ndef f(x):\n{inside}"))
    assert found is not None and found.what == "`except` clause around `torch.linalg.cholesky`" and found.line == 5
    assert construct_of(ast.parse(f"import torch\n{handler}")) is None, "there it may catch what the compiler raises"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import torch\ntorch.vmap(f)(x)", "`torch.vmap`"),
        ("import torch\ndef f(x):\n    with torch.no_grad():\n        return x", "`with torch.no_grad` block"),
        ("import torch\nwith torch.no_grad():\n    f(x)", None),
        ("f(x)", None),
        ("class Proxy:\n    @property\n    def __class__(self): ...\nf(Proxy())", "property `Proxy.__class__`"),
        ("class Ring:\n    def __init__(self): ...\n    def __eq__(self, other): ...\nf(Ring())", "`Ring.__eq__`"),
        (
            "class Step:\n    def __init__(self): ...\n    def __call__(self): ...\n    def step(self): ...\nf(Step())",
            None,
        ),
    ],
)
def test_what_is_around_a_computation_is_a_hint(text: str, what: str | None) -> None:
    found = context_of(ast.parse(text))
    assert (found and found.what) == what

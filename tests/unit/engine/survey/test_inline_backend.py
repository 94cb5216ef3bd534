"""Which backend a script writes in its call of the compiler, without a name for it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from minimizer.engine.survey.inline_backend import InlineBackend, inline_backend

ABOVE = """
import torch
import torch._dynamo
from functools import partial
from torch._dynamo.backends.common import aot_autograd

period = 3

def plain(graph, inputs):
    return graph.forward

def stale(graph, inputs, period):
    return graph.forward

named = aot_autograd(fw_compiler=plain)
"""


def found(below: str) -> InlineBackend | None:
    return inline_backend(ABOVE + dedent(below))


@pytest.mark.parametrize(
    ("below", "binding", "reads"),
    [
        pytest.param(
            "f = torch.compile(g, backend=aot_autograd(fw_compiler=plain))",
            "own_backend = aot_autograd(fw_compiler=plain)",
            ["aot_autograd", "plain"],
            id="a call",
        ),
        pytest.param(
            "f = torch.compile(g, backend=lambda graph, inputs: stale(graph, inputs, period))",
            "own_backend = lambda graph, inputs: stale(graph, inputs, period)",
            ["period", "stale"],
            id="a lambda",
        ),
        pytest.param(
            "@torch.compile(backend=partial(stale, period=2))\ndef f(x):\n    return x",
            "own_backend = partial(stale, period=2)",
            ["partial", "stale"],
            id="in a decorator",
        ),
        pytest.param(
            "model.compile(backend=partial(stale, period=2))", "own_backend = partial(stale, period=2)", ["partial", "stale"], id="a method"
        ),
        pytest.param(
            "f, g = (torch.compile(one, backend=partial(stale, period=2)) for one in (h, k))\nk = torch.compile(h, backend='eager')\n"
            "m = torch.compile(h, backend=named)",
            "own_backend = partial(stale, period=2)",
            ["partial", "stale"],
            id="beside literals and names",
        ),
    ],
)  # fmt: skip
def test_an_expression_becomes_a_statement(below: str, binding: str, reads: list[str]) -> None:
    assert found(below) == InlineBackend("own_backend", binding, reads)


def test_what_a_main_binds_has_its_name() -> None:
    below = """
        def main():
            def late(graph, inputs):
                return graph.forward
            f = torch.compile(g, backend=late)

        main()
    """
    assert found(below) == InlineBackend("late", "", ["late"])


def test_a_name_of_the_script_is_not_taken() -> None:
    backend = found("own_backend = 1\nf = torch.compile(g, backend=partial(stale, period=2))")
    assert backend is not None and backend.name == "own_backend_2"


@pytest.mark.parametrize(
    "below",
    [
        pytest.param("f = torch.compile(g)", id="none"),
        pytest.param("f = torch.compile(g, backend=named)", id="one with a name"),
        pytest.param("f, h = torch.compile(g, backend=lambda g, i: g), torch.compile(g, backend=partial(stale, period=2))", id="two"),
        pytest.param("def make(period):\n    return torch.compile(g, backend=partial(stale, period=period))", id="of an argument"),
        pytest.param("def make():\n    period = 4\n    return torch.compile(g, backend=partial(stale, period=period))", id="of a local"),
        pytest.param("def make(named):\n    return torch.compile(g, backend=named)", id="an argument with the name of a global"),
        pytest.param("fs = [torch.compile(g, backend=partial(stale, period=period)) for period in (1, 2)]", id="of a comprehension"),
        pytest.param("def make(backend):\n    return torch.compile(g, backend=backend)\nmake(partial(stale, period=2))", id="handed on"),
        pytest.param("f = torch.compile(g, backend=lambda g, i: g)\nh = partial(torch.compile, backend=plain)", id="by another entry"),
        pytest.param("f = torch.compile(g, backend=lambda g, i: g)\nh = torch.compile(g, **options)", id="beside options"),
        pytest.param("period = 4\nf = torch.compile(g, backend=partial(stale, period=period))", id="of what changes"),
    ],
)  # fmt: skip
def test_what_the_text_does_not_tell_is_not_guessed(below: str) -> None:
    assert found(below) is None

"""Edits that write the same in fewer statements."""

from __future__ import annotations

import ast
import tracemalloc
from collections.abc import Sequence

import pytest
from one_pass import reduced

from minimizer.engine.reduce.python import Source, reduce_script, shorter


@pytest.mark.parametrize(
    ("text", "needs", "expected"),
    [
        (
            "for name in ('a', 'b'):\n    f(name)",
            ["f(", "'b'"],
            "f('b')",
        ),
        ("for n in range(0, 30, 10):\n    f(n)", ["f(20)"], "f(20)"),
        ("for n, (a, b) in enumerate(zip(range(3), range(9, 0, -3))):\n    f(n, a, b)", ["f(2, 2, 3)"], "f(2, 2, 3)"),
        (
            "def batches():\n    yield make(1), 1\nfor n, (a, b) in enumerate(batches()):\n    f(a)",
            ["f(", "make(1)"],
            "def batches():\n    yield (make(1), 1)\nf(make(1))",
        ),
        (
            "def batches():\n    yield make(1)\n    yield make(2)\nfor a in batches():\n    f(a)",
            ["f(", "make(2)"],
            "def batches():\n    yield make(1)\n    yield make(2)\nf(make(1))",
        ),
        (
            "def batches():\n    for a in make():\n        yield a\nfor a in batches():\n    f(a)",
            ["f(", "yield a", "make()"],
            None,
        ),
        ("for n in zip(strict=True):\n    f(n)", ["f(", "strict"], None),
        ("def some(n=3):\n    yield n\nfor m in some():\n    f(m)", ["f(", "yield"], None),
        (f"for n in range({10**30}):\n    f(n)", ["f("], None),
        ("for n in range(1, 9, 0):\n    f(n)", ["f("], None),
        ("b = enumerate(b)\nfor n in b:\n    f(n)", ["f("], None),
        (
            "import torch\n@torch.compile\ndef f(x):\n    return round(x.shape[0])\n"
            "for n in (12, 17):\n    f(torch.ones(n))\nf(1)",
            ["round", "torch.ones", "dynamic=True", "f(1)"],
            "import torch\nf = torch.compile(lambda x: round(x.shape[0]), dynamic=True)\nf(torch.ones(17))\nf(1)",
        ),
        (
            "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nf = nn.Linear(F.relu(1))",
            ["Linear", "relu"],
            "import torch\nf = torch.nn.Linear(torch.nn.functional.relu(1))",
        ),
        ("from torch import nn\nf = nn.Linear(1)", ["Linear"], "from torch import nn\nf = nn.Linear(1)"),
        ("x = torch.ones(1)\nf(x)\nf(x)", ["f(", "torch.ones"], "f(torch.ones(1))\nf(torch.ones(1))"),
        (
            "x = torch.ones(1)\ndef f(x):\n    g()\n    return x\nf(x)\nf(x)",
            ["return x", "torch.ones"],
            "def f(x):\n    g()\n    return x\nf(torch.ones(1))\nf(torch.ones(1))",
        ),
        ("x = torch.ones(n)\nf(x)\nf(x)", ["f(", "torch.ones"], "x = torch.ones(n)\nf(x)\nf(x)"),
        (
            "@decorated\ndef f(x):\n    y = g(x)\n    if c:\n        y = y + 2\n    return y",
            ["if c", "y + 2"],
            "@decorated\ndef f(x):\n    y = g(x)\n    return y + 2 if c else y",
        ),
        (
            "@decorated\ndef f(x):\n    if c:\n        return 1\n    return 2",
            ["if c", "1", "2"],
            "@decorated\ndef f(x):\n    return 1 if c else 2",
        ),
        (
            "from torch import compile\n@compile(backend='eager')\ndef f(x):\n    return x + 1",
            ["x + 1", "backend"],
            "from torch import compile\nf = compile(lambda x: x + 1, backend='eager')",
        ),
        (
            "model = lambda x: x + 1\nmodel = wrap(model)\nprint(model)\nprint(model)",
            ["wrap", "x + 1"],
            "model = wrap(lambda x: x + 1)\nprint(model)\nprint(model)",
        ),
        (
            "import torch\ndef forward(positions):\n    return torch.nn.Linear(1, 1)(positions)\npositions = torch.randn(1)\n"
            "(slope,) = torch.autograd.grad(torch.compile(forward)(positions), positions, create_graph=True)\nslope.backward()",
            ["Linear", "randn", "positions, create_graph", "backward", "slope"],
            "import torch\nforward = torch.compile(lambda positions: torch.nn.Linear(1, 1)(positions))\npositions = torch.randn(1)\n"
            "slope, = torch.autograd.grad(forward(positions), positions, create_graph=True)\nslope.backward()",
        ),
        ("def f(x):\n    return x + 1\ng = h(f)", ["x + 1", "h("], "g = h(lambda x: x + 1)"),
        (
            "d = deque(maxlen=1)\nfor n in (1, 2):\n    f(d, n)",
            ["d = deque([", "f(d, 2"],
            "d = deque([1], maxlen=1)\nf(d, 2)",
        ),
        (
            "def f(m, args, out):\n    log.append(out)\nnet.register_forward_hook(f)",
            ["log.append", "register"],
            "net.register_forward_hook(lambda m, args, out: log.append(out))",
        ),
        (
            "import torch\n@torch.compile(dynamic=True)\ndef bucket_ids(tokens):\n"
            "    return tokens * min(tokens.shape[0], 2.0)\nbucket_ids(torch.arange(2))\nbucket_ids(1)",
            ["shape", "dynamic", "(1)"],
            "import torch\nf = torch.compile(lambda x: x * min(x.shape[0], 2.0), dynamic=True)\nf(torch.arange(2))\nf(1)",
        ),
        (
            "import torch\npriority = {'caption': 1, 'vqa': 1}\n@torch.compile\ndef routed(x):\n"
            "    return x * (1.0 if list(priority)[0] == 'caption' else 2)\nrouted(1)\nrouted(priority)",
            ["list", "(1)"],
            "import torch\na = {'b': 1, 'vqa': 1}\nf = torch.compile(lambda x: x * (1.0 if list(a)[0] == 'b' else 2))\n"
            "f(1)\nf(a)",
        ),
    ],
)
def test_a_script_becomes_shorter(text: str, needs: Sequence[str], expected: str | None) -> None:
    assert reduced(text, shorter.statements, needs).replace("\n\n", "\n") == (expected or text)


@pytest.mark.parametrize(
    ("loop", "last"),
    [
        ("for n in range(300000):\n    f(n)", "f(299999)"),
        ("for n, m in zip(range(300000), range(300000)):\n    f(m)", "f(299999)"),
        ("for n in range(300000):\n    f(n)\n    break", ""),
    ],
)
def test_no_more_rounds_of_a_long_loop_are_written_than_are_tried(loop: str, last: str) -> None:
    source = Source.parse(loop)
    (statement,) = (s for s in source.statements if isinstance(s, ast.For))
    tracemalloc.start()
    try:
        candidates = [c.text.strip() for c in shorter._one_round(source, statement)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(candidates) <= 2 * (shorter.MOST_ROUNDS + 1)
    assert last in candidates or not last
    assert most < 2**20


def test_no_line_becomes_longer_than_a_formatter_leaves_it() -> None:
    text = f"@decorated\ndef f(x):\n    if {'c' * 50}:\n        return {'a' * 20}\n    return {'b' * 20}"
    assert reduced(text, shorter.statements, ["if", "return"]).replace("\n\n", "\n") == text


UNEVEN = """
for step in range(2):
    y = f(x)
    if step:
        grad(y, w)
    y.backward()
"""


def test_a_loop_whose_rounds_need_different_statements_is_written_out() -> None:
    source = Source.parse(UNEVEN)

    class Result:
        def __init__(self) -> None:
            self.is_used = False

        def backward(self) -> None:
            self.is_used = True
            said.append("backward")

    said: list[str] = []

    def fails(text: str) -> bool:
        """A backward, then a gradient of what a later call returns."""
        said.clear()
        names = {"f": lambda x: Result(), "grad": lambda y, w: said.append(f"grad {y.is_used}"), "x": 1, "w": 2}
        try:
            exec(text, names)
        except Exception:
            return False
        return said[:2] == ["backward", "grad False"]

    reduced = reduce_script(source, check=lambda candidates: [fails(one.text) for one in candidates])
    assert reduced.best.text == "f(x).backward()\ngrad(f(x), w)\n"
    assert reduced.history[-1].trial <= reduced.trials


@pytest.mark.parametrize(
    "loop", ["for n in range(3):\n    f(n)", "for n in range(9):\n    f(n)", "for n in g():\n    f(n)"]
)
def test_a_loop_whose_rounds_are_all_needed_stays(loop: str) -> None:
    calls = len(range(9)) if "9" in loop else 3

    def fails(text: str) -> bool:
        seen: list[int] = []
        try:
            exec(text, {"f": seen.append, "g": lambda: range(3)})
        except Exception:
            return False
        return seen == [*range(calls)]

    reduced = reduce_script(Source.parse(loop), check=lambda candidates: [fails(one.text) for one in candidates])
    assert reduced.best.text == f"{loop}\n"

"""How a script reaches the compiler is seen in its syntax tree."""

from __future__ import annotations

import pytest

from minimizer.engine.reduce.python.entries import is_compiled


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.compile(f)(x)",
        "import torch\n@torch.compile\ndef f(x):\n    return x",
        "import torch\n@torch.compile(fullgraph=True)\ndef f(x):\n    return x",
        "import torch as t\nt.compile(f)",
        "from torch import compile as c\nc(f)",
        "import torch\nmap(torch.compile, functions)",
        "model.compile()",
        "Model().eval().compile(dynamic=True)",
        'import subprocess\nsubprocess.run(["python", "-c", """\nimport torch\ntorch.compile(f)(x)\n"""])',
    ],
)
def test_calls_and_names_count(text: str) -> None:
    assert is_compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        "# torch.compile(f)\nx = 1",
        '"""torch.compile computes wrong values"""',
        'print("torch.compile")',
        'print("""\ntorch.compile computes\nwrong values\n""")',
        "import re\nre.compile('x')",
        "compile('x', 'f', 'exec')",
        "torch.compile(",
    ],
)
def test_words_do_not(text: str) -> None:
    assert not is_compiled(text)

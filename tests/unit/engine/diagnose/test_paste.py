"""Where a workaround goes in a script, and that a program is left."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from sample_script import SCRIPT

from minimizer.engine.diagnose.paste import (
    Pasted,
    diff,
    disable_call,
    disable_equal_modules,
    disable_function,
    disable_module,
    other_backend,
    paste,
)


def test_code_goes_before_what_compiles() -> None:
    pasted = paste(SCRIPT, "x = 1")

    assert "x = 1\nmodel = torch.compile(Net())" in pasted.text
    assert pasted.where == "before line 11 (model = torch.compile(Net()))"


def test_the_line_that_is_quoted_ends_without_a_colon() -> None:
    pasted = paste("import torch\nwith torch.no_grad():\n    torch.compile(f)(x)\n", "x = 1")

    assert pasted.where == "before line 2 (with torch.no_grad())"


def test_code_goes_before_the_decorator_that_compiles() -> None:
    assert paste("import torch\n@torch.compile\ndef f(): pass\n", "x = 1").text.startswith(
        "import torch\nx = 1\n@torch"
    )


def test_code_goes_behind_the_imports_where_nothing_compiles() -> None:
    pasted = paste('"""Doc."""\nfrom __future__ import annotations\nimport torch', "x = 1")

    assert pasted.text == '"""Doc."""\nfrom __future__ import annotations\nimport torch\nx = 1\n'


def test_the_innermost_function_is_disabled() -> None:
    pasted = disable_function(SCRIPT, 6)

    assert pasted is not None
    assert "    @torch.compiler.disable\n    def act(self, x):" in pasted.text


@pytest.mark.parametrize("head", ["import torch", "from torch import nn"])
def test_a_static_method_is_disabled_below_its_decorator(head: str) -> None:
    text = f"{head}\nclass Rows:\n    @staticmethod\n    def twice(x):\n        return 2 * x\n"

    pasted = disable_function(text, 5)

    assert pasted is not None
    assert "    @staticmethod\n    @torch.compiler.disable\n    def twice(x):\n" in pasted.text
    ast.parse(pasted.text)


@pytest.mark.parametrize(
    "text",
    ["import torch\n@torch.compile\ndef f(x):\n    return x\n", "def f(x):\n    return x\n\ng = torch.compile(f)\n"],
)
def test_the_compiled_function_itself_is_not_disabled(text: str) -> None:
    line = text.splitlines().index("    return x") + 1

    assert disable_function(text, line) is None


@pytest.mark.parametrize(
    ("before", "operator", "after"),
    [
        ("y = torch.roll(x, 1)", "aten.roll", "y = torch.compiler.disable(torch.roll)(x, 1)"),
        ("y = f(F.softshrink(x), 1)", "aten.softshrink", "y = f(torch.compiler.disable(F.softshrink)(x), 1)"),
        ("y = F.interpolate(x, 2)", "aten.upsample_nearest2d", "y = torch.compiler.disable(F.interpolate)(x, 2)"),
        ("y = x[0].roll(1)", "aten.roll", "y = torch.compiler.disable(torch.Tensor.roll)(x[0], 1)"),
        ("x.t().exp_()", "aten.exp", "torch.compiler.disable(torch.Tensor.exp_)(x.t())"),
        ("y = torch.sin(x) + torch.roll(x, 1)", "aten.roll", "y = torch.sin(x) + torch.compiler.disable(torch.roll)(x, 1)"),
    ],
)  # fmt: skip
def test_one_call_runs_in_eager(before: str, operator: str, after: str) -> None:
    text = f"import torch\nimport torch.nn.functional as F\ndef g(x):\n    {before}\n"

    pasted = disable_call(text, 4, [operator])

    assert pasted is not None
    assert pasted.text == text.replace(before, after)
    assert pasted.code in after
    assert pasted.where == f"in line 4: {before}"


@pytest.mark.parametrize(
    "line",
    [
        "y = x.sin()",  # no name of the operator, and no function of torch
        "y = torch.roll(torch.roll(x, 1), 2)",
        "y = torch.sin(x) + torch.cos(x)",
        "g = torch.compile(f)",
        "y = torch.nn.GELU()(x)",  # a class, all of whose instances would run in eager
        "y = self.roll(x)",
        "y = (x.roll)(1)",
        "torch.manual_seed(0)",
    ],
)
def test_no_call_runs_in_eager_where_it_is_not_clear_which(line: str) -> None:
    assert disable_call(f"import torch\n{line}\n", 2, ["aten.roll"]) is None


def test_no_call_runs_in_eager_where_torch_has_another_name() -> None:
    assert disable_call("import torch as t\ny = t.roll(x, 1)\n", 2, ["aten.roll"]) is None


def test_one_module_is_disabled_where_the_model_has_a_name() -> None:
    pasted = disable_module(SCRIPT, "blocks.2.act")

    assert pasted is not None
    assert pasted.code == "model.blocks[2].act = torch.compiler.disable(model.blocks[2].act)"
    assert f"model = torch.compile(Net())\n{pasted.code}\n" in pasted.text


def test_a_module_of_a_global_is_reached_from_there() -> None:
    pasted = disable_module("import torch\nnet = Net()\n@torch.compile\ndef step(x):\n    return net(x)\n", "net.act")

    assert pasted is not None
    assert pasted.text.startswith("import torch\nnet = Net()\nnet.act = torch.compiler.disable(net.act)\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("g = torch.compile(f)", 'g = torch.compile(f, backend="aot_eager")'),
        ("@torch.compile\ndef f(): pass", '@torch.compile(backend="aot_eager")\ndef f(): pass'),
        ("g = torch.compile(ä(f), dynamic=True,)", 'g = torch.compile(ä(f), dynamic=True, backend="aot_eager")'),
        ("@torch.compile()\ndef f(): pass", '@torch.compile(backend="aot_eager")\ndef f(): pass'),
        (
            "g = torch.compile(\n    net,\n    fullgraph=True,  # (why),\n)\n",
            'g = torch.compile(\n    net,\n    fullgraph=True, backend="aot_eager"  # (why),\n)\n',
        ),
        ("torch.compile((net))(é)", 'torch.compile((net), backend="aot_eager")(é)'),
        ("torch.compile(  # )\n)", 'torch.compile(backend="aot_eager"  # )\n)'),
        (
            "torch.compile(torch.compile(f, dynamic=(True)))",
            'torch.compile(torch.compile(f, dynamic=(True), backend="aot_eager"), backend="aot_eager")',
        ),
        ("s = '\x0c\x85\u2028'\r\ntorch.compile(f)", "s = '\x0c\x85\u2028'\r\ntorch.compile(f, backend=\"aot_eager\")"),
    ],
)
def test_another_backend_is_named_at_every_compile(before: str, after: str) -> None:
    pasted = other_backend(before, "aot_eager")

    assert pasted is not None
    assert pasted.text == after
    ast.parse(after)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: paste(text, "x = 1\n"),
        lambda text: disable_function(text, 8),
        lambda text: disable_module(text, "net.act"),
    ],
)
def test_tabs_and_odd_line_ends_are_no_obstacle(change: Callable[[str], Pasted | None]) -> None:
    text = """
s = "\x0c, \x85, \u2028"
import torch
if s:
\tnet = Net()
class Net:
\tdef act(self, x):
\t\treturn x
g = torch.compile(net)"""

    pasted = change(text)

    assert pasted is not None
    ast.parse(pasted.text)
    assert len(pasted.text.split("\n")) == len(text.split("\n")) + 1 + (not pasted.text.endswith("net)"))


@pytest.mark.parametrize(
    ("script", "is_missing"),
    [("import torch as th\n", True), ("from torch import nn\n", True), ("import torch.nn\n", False), ("", True)],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: paste(text, "torch._dynamo.reset()"),
        lambda text: disable_function(text, text.count("\n")),
        lambda text: disable_module(text, "net.act"),
    ],
)
def test_what_is_pasted_can_name_torch(change: Callable[[str], Pasted | None], script: str, is_missing: bool) -> None:
    pasted = change(f"{script}net = object()\nre.compile('')\ndef f():\n    return 1\n")

    assert pasted is not None
    assert pasted.code.startswith("import torch\n") == is_missing
    assert pasted.code in pasted.text


def test_a_backend_of_the_scripts_own_is_left_alone() -> None:
    assert other_backend("torch.compile(f, backend=mine)", "aot_eager") is None


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("blocks.2.act", "for equal in model.blocks:\n    equal.act = torch.compiler.disable(equal.act)"),
        ("stages.1.blocks.0", "for place in range(len(model.stages[1].blocks)):\n"
         "    model.stages[1].blocks[place] = torch.compiler.disable(model.stages[1].blocks[place])"),
        ("act", None),
        ("1", None),
    ],
)  # fmt: skip
def test_all_elements_of_a_list_are_disabled(path: str, code: str | None) -> None:
    pasted = disable_equal_modules(SCRIPT, path)
    assert (pasted and pasted.code) == code
    if pasted is not None:
        ast.parse(pasted.text)


def test_a_line_that_opens_a_block_is_not_quoted_as_if_the_change_were_in_it() -> None:
    text = "import torch\nwith torch.no_grad():\n    torch.compile(f)(x)\n"
    assert diff(text, paste(text, "y = 2").text, "train.py").splitlines() == [
        "--- a/train.py", "+++ b/train.py", "@@ -1,3 +1,4 @@", " import torch", "+y = 2", " with torch.no_grad():",
        "     torch.compile(f)(x)",
    ]  # fmt: skip

"""Remedies as edits of the script, and where none can be made."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import pytest

from minimizer.engine.advice.edits import edits
from minimizer.engine.advice.rules import Cause
from minimizer.engine.child.compilations import StackLine
from minimizer.engine.diagnose.paste import diff
from minimizer.report.finding import Finding, FindingKind

LR = "2/0: self.param_groups[0]['lr'] == 0.01"
SIZE = "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4"


def changes(
    kind: FindingKind,
    said: str,
    text: str,
    line: int = 0,
    *,
    refused: bool = False,
    function_line: int = 0,
    whole: Sequence[str] = (),
) -> dict[str, str]:
    """The lines that each edit adds, by its words."""
    text = dedent(text).lstrip("\n")
    place = StackLine(file="a.py", line=line) if line else None
    finding = Finding(kind=kind, what="", stack=list(whole))
    cause = Cause(finding, said, place, refused, function_line, is_whole=bool(whole))
    return {
        edit.what: "\n".join(
            one[1:].strip() for one in diff(text, edit.text, "a.py").splitlines()[2:] if one.startswith("+")
        )
        for edit in edits(text, cause, "a.py")
    }


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.compile(f)", "g = torch.compile(f, dynamic=True)"),
        ("torch.compile(f, dynamic=False, fullgraph=True)", "g = torch.compile(f, dynamic=True, fullgraph=True)"),
        ("torch.compile(f, dynamic=True)", None),
        ("torch.compile(f, **options)", None),
    ],
)
def test_dynamic_is_set_at_every_compile(call: str, expected: str | None) -> None:
    found = changes("recompiles", SIZE, f"import torch\ng = {call}\n")
    assert found == ({"`dynamic=True`": expected} if expected else {})


def test_dynamic_is_set_at_a_bare_decorator_and_at_a_module_that_compiles_itself() -> None:
    text = """
        import torch
        @torch.compile
        def f(x): ...
        model.compile()
    """
    assert changes("recompiles", SIZE, text)["`dynamic=True`"] == (
        "@torch.compile(dynamic=True)\nmodel.compile(dynamic=True)"
    )


MARKED = "torch._dynamo.mark_dynamic({}, 0)"
FUNCTION = """import torch
{decorator}
def f(w, x):
    return w @ x
{call}
"""


@pytest.mark.parametrize(
    ("decorator", "call", "marked"),
    [
        ("@torch.compile(dynamic=False)", "for one in data:\n    y = f(w, one)", "one"),
        ("@torch.compile(dynamic=False)", "print(f(w, x=one).sum())", "one"),
        ("", "g = torch.compile(f, dynamic=False)\nz = f(w, other)\ny = g(w, one)", "one"),
        ("", "g, h = torch.compile(k), torch.compile(f, dynamic=False)\ny = h(w, one)", ""),
        ("", "g = torch.compile(k)\ny = g(w, one)", ""),
        ("@torch.compile(dynamic=False)", "y = f(w, one[:3])", ""),
        ("@torch.compile(dynamic=False)", "y = [f(w, one) for one in data]", ""),
        ("@torch.compile(dynamic=False)", "y = f(*both)", ""),
        ("@torch.compile(dynamic=False)", "for one in data: f(w, one)", ""),
    ],
)
def test_the_dimension_that_changes_is_marked_before_each_call(decorator: str, call: str, marked: str) -> None:
    found = changes("recompiles", SIZE, FUNCTION.format(decorator=decorator, call=call), function_line=3)
    assert found.get("`mark_dynamic`", "") == (MARKED.format(marked) if marked else "")


@pytest.mark.parametrize(
    ("compiled", "is_marked"),
    [
        ("net = torch.compile(Net(), dynamic=False)", True),
        ("net = Net()\nnet.compile(dynamic=False)", True),
        ("net = torch.compile(Net(), dynamic=False)\nother = torch.compile(other)", False),  # which has the method?
        ("nets[0] = torch.compile(Net(), dynamic=False)\nnet = nets[0]", False),
    ],
)
def test_the_dimension_that_changes_is_marked_at_calls_of_a_module(compiled: str, is_marked: bool) -> None:
    text = f"import torch\nclass Net(torch.nn.Module):\n    def forward(self, x): ...\n{compiled}\nif True:\n    net(batch)\n"
    found = changes("recompiles", SIZE, text, function_line=3)
    assert found.get("`mark_dynamic`") == (MARKED.format("batch") if is_marked else None)
    assert "`dynamic=True`" in [*found][: 1 + is_marked]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.optim.SGD(ps, lr=1e-2)", "opt = torch.optim.SGD(ps, lr=torch.tensor(1e-2))"),
        ("torch.optim.SGD(ps, rate)", "opt = torch.optim.SGD(ps, torch.tensor(rate))"),
        (
            "torch.optim.AdamW(ps, lr=1e-2, foreach=True)",
            "opt = torch.optim.AdamW(ps, lr=torch.tensor(1e-2), foreach=True, capturable=True)",
        ),
        ("torch.optim.SGD(ps, lr=torch.tensor(0.1))", None),
        ("Muon(ps, lr=0.1)", None),
        ("torch.optim.swa_utils.AveragedModel(net, device)", None),
        ("torch.optim.lr_scheduler.StepLR(o, 3)", None),
    ],
)
def test_a_learning_rate_becomes_a_tensor(call: str, expected: str | None) -> None:
    found = changes("recompiles", LR, f"import torch\nopt = {call}\n")
    assert found == ({"A learning rate in a tensor": expected} if expected else {})


BRANCHES = [
    ("if y.sum() > 0:\n    return y\nreturn -y", "return torch.where(y.sum() > 0, y, -y)"),
    ("if y.sum() > 0:\n    return y\nelse:\n    return -y", "return torch.where(y.sum() > 0, y, -y)"),
    ("if c.any():\n    y = a\nelse:\n    y = b", "y = torch.where(c.any(), a, b)"),
    ("if c.any():\n    y = y + 1", "y = torch.where(c.any(), y + 1, y)"),
    ("if not c.any():\n    y = y * 2", "y = torch.where(torch.logical_not(c.any()), y * 2, y)"),
    ("if y.max().item() < float('inf'):\n    y = a", "y = torch.where(y.max() < float('inf'), a, y)"),
    ("if y.abs().max().item() > 3:\n    y = a", "y = torch.where(y.abs().max() > 3, a, y)"),
    ("return a if c.sum() > 0 else b", "return torch.where(c.sum() > 0, a, b)"),
]


@pytest.mark.parametrize(("body", "expected"), BRANCHES)
def test_a_branch_becomes_where(body: str, expected: str) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    found = changes("graph_breaks", "generic_jump TensorVariable()", f"import torch\ndef f(a, b, c, y):\n{lines}\n", 3)
    assert found == {"`torch.where` in the place of the branch": expected}


@pytest.mark.parametrize(
    "body",
    [
        "if c.any():\n    y = a\nelse:\n    z = b",
        "if c.any():\n    y = a\n    z = b",
        "if c.any() and flag:\n    y = a",
        "if c.any():\n    return a\ny = b",
        "if c.any():\n    log(y)",
        "while c.any():\n    c = c - 1",
        "if a.flag:\n    y = a\nelif c.any():\n    y = b\nelse:\n    y = c",
        "if c.any():\n    y += 1",
        "if c.any():\n    y = a.add_(1)",
        "if int(c.mean()) > 0:\n    y = a",
    ],
)
def test_a_branch_that_is_no_choice_of_one_value_is_left_alone(body: str) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    assert not changes("graph_breaks", "generic_jump", f"import torch\ndef f(a, b, c, y):\n{lines}\n", 3)


def test_a_setting_that_dynamo_names_is_set_before_the_compile() -> None:
    said = "Unsupported Tensor.item() call\n  Hint: Set `torch._dynamo.config.capture_scalar_outputs = True` or"
    found = changes("graph_breaks", said, "import torch\ng = torch.compile(f)\n", 1)
    assert found == {
        "`torch._dynamo.config.capture_scalar_outputs = True`": "torch._dynamo.config.capture_scalar_outputs = True"
    }


def test_a_setting_that_hides_failures_is_never_a_remedy() -> None:
    assert not changes("graph_breaks", "set torch._dynamo.config.suppress_errors = True", "import torch\n", 1)


def test_prints_and_log_lines_wait_for_the_end_of_the_graph() -> None:
    text = (
        "import logging, torch\nlog = logging.getLogger()\n@torch.compile\ndef f(x):\n    log.info('x')\n    return x\n"
    )
    added = "torch._dynamo.config.reorderable_logging_functions.add({})"
    assert added.format("print") in changes("graph_breaks", "builtin operator `print` with", text, 5).values()
    assert added.format("log.info") in changes("graph_breaks", "logging.Logger method not supported", text, 5).values()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("print('shape', tuple(x.shape), 3)", "print(f'shape {tuple(x.shape)} 3')"),
        ("print('shape', x, sep='')", None),
        ("print(*x, 1)", None),
        ("print(x)", None),
        ("print('file', path.replace('\\\\', '/'))", None),
    ],
)
def test_a_print_of_several_values_becomes_one_of_a_string(call: str, expected: str | None) -> None:
    text = f"import torch\n@torch.compile\ndef f(x):\n    {call}\n    return x\n"
    found = changes("graph_breaks", "builtin operator `print` with", text, 4)
    what = "A print of one string that waits for the end of the graph"
    assert (found.get(what, "").splitlines() or [None])[-1] == expected


def test_a_larger_limit_comes_last_and_only_where_it_was_reached() -> None:
    text = "import torch\ng = torch.compile(f)\n"
    assert not changes("recompiles", "0/0: name == 'a'", text)
    assert list(changes("recompiles", SIZE, text, refused=True)) == ["`dynamic=True`", "A recompile limit of 64"]


def test_no_edit_of_a_text_that_is_newer_than_our_python() -> None:
    assert not changes("recompiles", SIZE, "import torch\ng = torch.compile(f) ??\n")


ALIGNED = """
    import torch

    class Rows:
        {decorator}
        def aligned(self, x):
            {body}

    @torch.compile
    def forward(rows, x):
        return rows.aligned(x) + 1
"""
STACK = ["a.py line 9, in forward: def forward(rows, x):", "a.py line 6: return x"]
RAISED = "Observed exception\n  Developer debug context: raised exception TypeError('no')"


@pytest.mark.parametrize(
    ("decorator", "body", "stack", "is_disabled"),
    [
        ("", "return x if x.data_ptr() % 16 else x.clone()", STACK, True),
        ("@staticmethod", "return x if x.data_ptr() % 16 else x.clone()", STACK, True),
        ("", "yield x if x.data_ptr() % 16 else x.clone()", STACK, False),  # it would run when it is iterated
        ("", "return (lambda: x.data_ptr() % 16)()", STACK, False),  # the lambda has no place for a decorator
        ("", "return x if x.data_ptr() % 16 else x.clone()", STACK[:1], False),  # the compiled function itself
    ],
)
def test_what_leaves_all_to_eager_is_disabled_alone(
    decorator: str, body: str, stack: list[str], is_disabled: bool
) -> None:
    found = changes("graph_breaks", RAISED, ALIGNED.format(decorator=decorator, body=body), 6, whole=stack)
    assert found == ({"`torch.compiler.disable` on `aligned`": "@torch.compiler.disable"} if is_disabled else {})


def test_a_break_that_leaves_the_rest_compiled_disables_nothing() -> None:
    text = ALIGNED.format(decorator="", body="return x if x.data_ptr() % 16 else x.clone()")
    assert not changes("graph_breaks", RAISED, text, 6)


@pytest.mark.parametrize(
    ("said", "setting"),
    [
        ("Hint: Set `torch._dynamo.config.capture_scalar_outputs = True`", "capture_scalar_outputs"),
        ("Hint: Change `torch._dynamo.config.trace_autograd_ops` to `True`.", "trace_autograd_ops"),
        ("Hint: Set torch._dynamo.trace_autograd_ops=True", "trace_autograd_ops"),
    ],
)
def test_a_setting_is_known_in_each_form_in_which_dynamo_advises_it(said: str, setting: str) -> None:
    changed = f"torch._dynamo.config.{setting} = True"
    assert changed in changes("graph_breaks", said, "import torch\n")[f"`{changed}`"]


def test_a_branch_on_no_value_of_a_tensor_is_not_put_in_where() -> None:
    text = ALIGNED.format(decorator="", body="return x if x.data_ptr() % 16 else x.clone()")
    assert not changes("graph_breaks", RAISED, text, 6)
    assert changes("graph_breaks", "Data-dependent branching", text, 6)


COPIED = "Attempted to copy.deepcopy a tensor"


@pytest.mark.parametrize(
    ("copying", "cloning"),
    [
        ("copy.deepcopy(x)", "anchor = x.detach().clone()"),
        ("copy.deepcopy(self.state[0])", "anchor = self.state[0].detach().clone()"),
        ("copy.deepcopy(x + 1)", None),
        ("copy.deepcopy(x, memo)", None),
        ("copy.deepcopy(x) + copy.deepcopy(y)", None),
        ("x.deepcopy()", None),
    ],
)
def test_a_tensor_is_cloned_in_the_place_of_a_deep_copy(copying: str, cloning: str | None) -> None:
    found = changes("graph_breaks", COPIED, f"import copy\ndef f(x):\n    anchor = {copying}\n", 3)
    assert found == ({"`clone` in the place of `copy.deepcopy`": cloning} if cloning else {})

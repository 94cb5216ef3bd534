"""From which compile time on a graph is a finding, its words, and the blocks that are compiled one by one."""

from __future__ import annotations

import ast
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest

from minimizer.engine.advice.compile_time import LONG, LONG_WITH_BLOCKS
from minimizer.engine.advice.edits import edits
from minimizer.engine.advice.regional import each_block
from minimizer.engine.advice.rules import Cause, causes, compiling
from minimizer.engine.child.compilations import StackLine
from minimizer.engine.child.protocol import Compilation, EqualBlocks, Health
from minimizer.report.finding import Finding

LINE = StackLine(file="train.py", line=12, code="loss = model(x)")
LAYERS = EqualBlocks(path="layers", count=12, of=12, nodes=200)


def found(*compiled: dict[str, Any], seconds: float = 100.0, crowding: float = 1.0) -> list[Cause]:
    """The findings of a run of so many seconds; each graph has 210 nodes and took 50 s, unless said otherwise."""
    defaults: dict[str, Any] = {"place": LINE, "is_first": True, "seconds": 50.0, "nodes": 210, "blocks": [LAYERS]}
    health = Health(compilations=[Compilation(**defaults | one) for one in compiled], seconds=seconds)
    return causes(health, "", "train.py", crowding)


def test_a_graph_of_equal_blocks_is_told_with_its_phases() -> None:
    (cause,) = found({"backward": 15.0, "dynamo": 1.0, "aot": 5.0, "lowering": 4.0, "code": 40.0}, seconds=60)
    assert (cause.finding.kind, cause.blocks) == ("compile_time", ("layers",))
    assert cause.finding.cost is not None and cause.finding.cost.words == "50.0 s compiling"
    assert cause.finding.source is not None and cause.finding.source.line == 12
    assert cause.finding.what == (
        "Of 60 s that the script runs, compiling the graph that is called here takes 50 s, its backward included "
        "(Dynamo 1.0 s, AOTAutograd 5.0 s, Inductor's lowering 4.0 s, code generation 40.0 s). "
        "It compiles the same code again for each of the 12 modules of `layers`."
    )


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": LONG_WITH_BLOCKS - 1},
        {"is_first": False},
        {"blocks": []},
        {"blocks": [LAYERS.model_copy(update={"count": 3})]},
        {"blocks": [LAYERS.model_copy(update={"nodes": 90})]},
    ],
    ids=["a short one", "a recompile", "no blocks", "few blocks", "blocks that are a small part"],
)
def test_a_compilation_that_nobody_waits_for_is_no_finding(change: dict[str, Any]) -> None:
    assert found({}) and not found(change, seconds=50)


def test_blocks_that_differ_are_not_counted() -> None:
    (cause,) = found({"blocks": [LAYERS.model_copy(update={"of": 14})]})
    assert cause.finding.what.endswith("for each of 12 of the 14 modules of `layers`.")


def test_a_program_that_runs_longer_than_it_compiles_has_no_finding() -> None:
    assert found({}, seconds=99) and not found({}, seconds=101)


def test_a_run_that_was_held_in_a_call_has_no_finding() -> None:
    """Its time is not known, and half of it neither."""
    assert not found({}, seconds=0)


def test_a_machine_with_other_things_to_do_is_no_finding() -> None:
    assert found({}, crowding=2.4) and not found({}, crowding=2.6)


def test_a_very_long_one_without_equal_blocks_is_told_and_nothing_is_tried() -> None:
    (cause,) = found({"seconds": LONG, "code": LONG, "blocks": []})
    assert cause.finding.what.endswith("takes 60 s (code generation 60.0 s).") and not list(
        edits("import torch\nm = torch.compile(m)\n", cause, "a.py")
    )


def test_compiling_counts_every_compilation() -> None:
    one = Compilation(place=LINE, is_first=True, seconds=2.04)
    assert compiling(Health(compilations=[one, one.model_copy(update={"is_first": False})])) == 4.1


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        ("model = torch.compile(model)", "for block in model.layers:\n    block.compile()"),
        (
            "fast = torch.compile(model, mode='default', fullgraph=True)",
            "fast = model\nfor block in fast.layers:\n    block.compile(mode='default', fullgraph=True)",
        ),
        (
            "self.net = torch.compile(Net(3), **options)",
            "self.net = Net(3)\nfor block in self.net.layers:\n    block.compile(**options)",
        ),
        ("model.compile(dynamic=True)", "for block in model.layers:\n    block.compile(dynamic=True)"),
        (
            "block = 3; pass\nmodel.compile()",
            "block = 3; pass\nfor block_0 in model.layers:\n    block_0.compile()",
        ),
        ("model = torch.compile(model)\nother = torch.compile(critic)", None),
        ("step = torch.compile(optimizer.step)", None),
        ("def loss(x): ...\nloss = torch.compile(loss)", None),
        ("class Net:\n    def generate(self): ...\ngo = torch.compile(model.generate)", None),
        ("a = 1; model.compile()", None),
        ("pattern = re.compile('x')", None),
        ("print(torch.compile(model)(x))", None),
        ("fast = torch.compile(model)\ncheck(model(x), fast(x))", None),  # `model` is eager's side
        ("model.compile()\ndef other(net):\n    return torch.compile(net)", None),
        ("trainer.compile(optimizer=adam)", None),
    ],
)
@pytest.mark.parametrize("indent", ["", "    "])
def test_blocks_are_compiled_in_the_place_of_the_whole(compiled: str, expected: str | None, indent: str) -> None:
    def script(lines: str) -> str:
        body = "\n".join(indent + line for line in lines.splitlines())
        return f"import torch, re\n{'if True:' if indent else ''}\n{body}\n"

    text = each_block(script(compiled), ast.parse(script(compiled)), ["layers"])
    assert text == (script(expected) if expected is not None else None)


def test_each_list_has_its_loop_and_a_module_may_be_the_list() -> None:
    text = "import torch\nm.compile()\n"
    assert each_block(text, ast.parse(text), ["stages.0.blocks", ""]) == dedent("""\
        import torch
        for block in m.stages[0].blocks:
            block.compile()
        for block in m:
            block.compile()
    """)


def test_a_module_that_is_called_repeatedly_is_compiled_alone() -> None:
    (cause,) = found({"blocks": [EqualBlocks(path="core.cell", count=60, of=61, nodes=200, is_one=True)]})
    assert "compiles the same code again for each of 60 of the 61 calls of `core.cell`." in cause.finding.what
    text = "import torch\nmodel = torch.compile(model, dynamic=False)\n"
    (edit,) = edits(text, cause, "a.py")
    assert edit.what == "Compiling what is called repeatedly alone"
    assert edit.text == "import torch\nmodel.core.cell.compile(dynamic=False)\n"


def test_the_remedy_is_that_of_its_own_kind_only() -> None:
    text = "import torch\nm.compile()\n"
    cause = Cause(Finding(kind="compile_time", what=""), blocks=("layers",))
    (edit,) = edits(text, cause, "a.py")
    assert (edit.what, edit.lowers) == ("Compiling equal blocks one by one", "s of compiling")
    assert not list(edits(text, replace(cause, finding=Finding(kind="slow", what="")), "a.py"))

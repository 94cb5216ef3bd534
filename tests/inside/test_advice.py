"""Findings and remedies with the real compiler: from a timed run of a script to what a change of it does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from children import script

from minimizer.engine.advice import compile_time, memory
from minimizer.engine.advice.remedies import advise, known_of
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import HANG_AFTER
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys
from minimizer.report.finding import Finding
from minimizer.report.model import Report
from minimizer.sink import FolderSink


def advised(child: Executor, tmp_path: Path, text: str) -> list[Finding]:
    """The findings on a script, with the remedies that were tried."""
    path, found = script(tmp_path, text), list[Finding]()
    surveys = Surveys(child, path, args=[], steps=None, hang_after=HANG_AFTER, values=False)
    run = surveys.health(trace=str(child.place.folder("trace")))
    assert run is not None

    def keep(findings: list[Finding]) -> None:
        found[:] = findings

    advise(run, surveys, path, Journal(FolderSink(tmp_path / "out"), Report(), Clock(600)), keep)
    return found


COSTLY = """
    import torch

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            if x.sum() > 100:
                x = x / 2
            return x * self.step

    counted = torch.compile(Counted(), backend="eager")
    for _ in range(5):
        print(counted(torch.ones(3)).sum().item())
"""


def test_each_finding_has_its_line_and_a_remedy_that_was_measured(child: Executor, tmp_path: Path) -> None:
    recompiles, breaks = advised(child, tmp_path, COSTLY)

    assert recompiles.kind == "recompiles" and breaks.kind == "graph_breaks"
    assert recompiles.source is not None and recompiles.source.code == "self.step += 1"
    assert recompiles.helped is not None and "allow_unspec_int_on_nn_module" in recompiles.helped.diff
    assert breaks.source is not None and breaks.source.code == "if x.sum() > 100:"
    assert breaks.helped is not None and breaks.helped.after == 0


GIVEN = """
    import torch

    @torch.compile(backend="eager")
    def total(x, controls):
        for name, control in controls.items():
            x = x + control
        return x

    for names in ("a", "b", "ab", "ca", "abc"):
        print(total(torch.ones(2), {name: torch.ones(2) for name in names}).sum().item())
"""


def test_a_dict_with_other_keys_in_each_call_is_one_finding(child: Executor, tmp_path: Path) -> None:
    (finding,) = advised(child, tmp_path, GIVEN)
    assert "compiled again 4 times, since the keys of `controls` change (guards that failed: `list(" in finding.what
    assert finding.source is not None and finding.source.code == "for name, control in controls.items():"


def test_a_dict_with_one_more_set_of_keys_is_none(child: Executor, tmp_path: Path) -> None:
    assert not advised(child, tmp_path, GIVEN.replace('"a", "b", "ab", "ca", "abc"', '"a", "ab"'))


ALIGNED = """
    import torch

    def aligned(x):
        return x if x.data_ptr() % 16 == 0 else x.clone()

    @torch.compile(backend="eager")
    def forward(x):
        return aligned(x.sin()).cos() + 1

    for _ in range(3):
        print(forward(torch.ones(3)).sum().item())
"""


def test_a_helper_that_leaves_all_to_eager_is_disabled_alone(child: Executor, tmp_path: Path) -> None:
    (finding,) = advised(child, tmp_path, ALIGNED)
    assert "keeps `forward` in eager as a whole, since tracing it raises `TypeError(" in finding.what
    (remedy,) = finding.remedies
    assert (remedy.what, remedy.before, remedy.after) == ("`torch.compiler.disable` on `aligned`", 1, 0)
    assert remedy.helped and "+@torch.compiler.disable" in remedy.diff


CHANGING = """
    import torch

    @torch.compile(backend="eager")
    def scaled(x):
        if x.sum() > 0:
            return x
        return x / 0

    print(scaled(torch.ones(2)).tolist())
    if "where" in scaled.__wrapped__.__code__.co_names:
        print("changed")
"""


def test_a_remedy_that_changes_what_is_printed_is_told_not_to_help(child: Executor, tmp_path: Path) -> None:
    (finding,) = advised(child, tmp_path, CHANGING)
    assert [remedy.helped for remedy in finding.remedies] == [False]
    assert "lines where it printed" in finding.remedies[0].note


SIZED = """
    import torch

    @torch.compile(dynamic=False, backend="eager")
    def scaled(x, y):
        {line}
        return x * y

    for size in (2, 3, 4, 5, 6):
        batch = torch.ones(3, size)
        print(scaled(torch.ones(3, 1), y=batch).sum().item())
"""


def test_the_dimension_that_changes_is_marked_before_all_are_dynamic(child: Executor, tmp_path: Path) -> None:
    (finding,) = [one for one in advised(child, tmp_path, SIZED.format(line="x = x + 1")) if one.kind == "recompiles"]
    (remedy,) = finding.remedies
    assert (remedy.what, remedy.helped, remedy.after) == ("`mark_dynamic`", True, 0)
    assert "+    torch._dynamo.mark_dynamic(batch, 1)" in remedy.diff


def test_a_mark_that_the_program_cannot_keep_is_told_not_to_help(child: Executor, tmp_path: Path) -> None:
    sized = SIZED.format(line="x = x + ({2: 0, 3: 1, 4: 2}.get(y.size(1), 7))")
    (finding,) = [one for one in advised(child, tmp_path, sized) if one.kind == "recompiles"]
    first = finding.remedies[0]
    assert (first.what, first.helped) == ("`mark_dynamic`", False) and first.note


DEEP = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(60))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x.sin()

    torch.manual_seed(0)
    net = torch.compile(Net(), backend="aot_eager")
    net(torch.randn(2, 8)).sum().backward()
    print(net.layers[0].weight.grad.norm().item())
"""


def test_equal_blocks_are_compiled_one_by_one(child: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_time, "LONG_WITH_BLOCKS", 0.01)
    monkeypatch.setattr(compile_time, "MOSTLY", 0.0)

    (finding,) = advised(child, tmp_path, DEEP)

    assert finding.kind == "compile_time" and "for each of the 60 modules of `layers`" in finding.what
    assert "its backward included" in finding.what
    assert finding.source is not None and finding.source.code.startswith("net(torch.randn")
    (remedy,) = finding.remedies
    assert remedy.helped and remedy.unit == "s of compiling" and "+    block.compile(backend=" in remedy.diff


UNROLLED = """
    import torch

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = torch.nn.Linear(8, 8)

        def forward(self, x, state):
            gate, new = self.gates(torch.cat([x, state], -1)).chunk(2, -1)
            return state + gate.sigmoid() * (new.tanh() - state)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = Cell()

        def forward(self, signal):
            state = torch.zeros(2, 4)
            for x in signal.unbind(1):
                state = self.cell(x, state)
            return state

    torch.manual_seed(0)
    net = Net()
    net = torch.compile(net, backend="aot_eager")
    net(torch.randn(2, 40, 4)).sum().backward()
    print(net.cell.gates.weight.grad.norm().item())
"""


@pytest.mark.quality("slow")
def test_a_module_that_is_called_again_and_again_is_compiled_alone(
    child: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_time, "LONG_WITH_BLOCKS", 0.01)
    monkeypatch.setattr(compile_time, "MOSTLY", 0.0)

    finding = next(one for one in advised(child, tmp_path, UNROLLED) if one.kind == "compile_time")

    assert "for each of the 40 calls of `cell`" in finding.what
    (remedy,) = finding.remedies
    assert remedy.helped and '+net.cell.compile(backend="aot_eager")' in remedy.diff


LEAN = """
    import torch

    class Lean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, up):
            ctx.save_for_backward(x, up)
            return torch.relu(x @ up).sum(1)

        @staticmethod
        def backward(ctx, grad):
            x, up = ctx.saved_tensors
            inner = grad[:, None] * (x @ up > 0)
            return inner @ up.T, x.T @ inner

    @torch.compile(backend="aot_eager_decomp_partition")
    def step(x, up):
        for _ in range(3):
            x = x + Lean.apply(torch.nn.functional.layer_norm(x, (8,)), up)[:, None]
        return x.sum()

    torch.manual_seed(0)
    up = torch.randn(8, 512, requires_grad=True)
    step(torch.randn(2048, 8), up).backward()
    print(up.grad.norm().item())
"""


@pytest.mark.quality("slow")
def test_what_compiled_code_keeps_beyond_eager_is_told_and_a_budget_lowers_it(
    child: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not advised(child, tmp_path, LEAN), "so little is worth nobody's time"
    monkeypatch.setattr(memory, "MORE", 1_000_000)

    (finding,) = advised(child, tmp_path, LEAN)

    assert (
        finding.kind == "memory" and finding.source is not None and finding.source.code.startswith("step(torch.randn")
    )
    assert finding.helped is not None and "+torch._functorch.config.activation_memory_budget" in finding.helped.diff


HEALTHY = """
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(model, backend="eager")
    update = torch.compile(optimizer.step, backend="eager")
    for size in (2, 3, 4, 5):
        step(torch.ones(size, 4)).sum().backward()
        update()
    model.eval()
    with torch.no_grad(), torch.profiler.record_function("evaluation"):
        print(step(torch.ones(1, 4)).sum().item())
"""


def test_a_healthy_program_has_no_finding(child: Executor, tmp_path: Path) -> None:
    assert not advised(child, tmp_path, HEALTHY)


def test_nothing_is_known_before_a_run(tmp_path: Path) -> None:
    surveys = cast(Any, SimpleNamespace(first=None))
    assert not known_of(surveys, tmp_path / "none.py", cast(Any, None))

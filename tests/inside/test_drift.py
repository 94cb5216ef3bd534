"""The losses of trainings with the real compiler: chaos, bias, and curves that are equal or not to be compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import SECONDS, script

from minimizer.engine.advice import drift
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import HANG_AFTER
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys
from minimizer.inside.questions import CurveRequest
from minimizer.report.drift import Drift
from minimizer.report.finding import Finding
from minimizer.report.model import Report
from minimizer.sink import FolderSink

Told = list[tuple[Drift, list[Finding]]]


def examined(child: Executor, tmp_path: Path, text: str) -> Told:
    """All that was kept on the losses of a script."""
    path, told = script(tmp_path, text), Told()
    surveys = Surveys(child, path, args=[], steps=None, hang_after=HANG_AFTER, values=False)
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(1200))
    drift.examine(surveys, path, journal, lambda found, findings: told.append((found, findings)))
    return told


ECHO = """
    import torch

    def other_rounding(module, inputs):
        def run(*args):
            return [moved(out) for out in module(*args)]
        return run

    def moved(out):
        up = torch.nextafter(out.detach(), torch.full_like(out, float("inf"))) - out.detach()
        return out + up * torch.tensor([1.0, -1.0]).repeat(out.numel() // 2).view_as(out)

    class Echo(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.again = torch.nn.Linear(24, 24, bias=False)
            torch.nn.init.normal_(self.again.weight, 0, {gain} / 24**0.5)

        def forward(self, state):
            for _ in range(8):
                state = torch.tanh(self.again(state))
            return state

    torch.manual_seed(0)
    net = Echo()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    compiled = torch.compile(net, backend={backend})
    for step in range(30):
        start = torch.randn(4, 24)
        loss = (compiled(start) - start.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_training_that_amplifies_rounding_is_chaos(child: Executor, tmp_path: Path) -> None:
    ((found, (finding,)),) = examined(child, tmp_path, ECHO.format(gain=6.0, backend="other_rounding"))
    assert (found.verdict, finding.kind, len(found.redrawn)) == ("chaos", "chaos", drift.REDRAWN)
    assert finding.source is not None and finding.source.code == "loss.backward()"
    assert "as in 8 runs of eager with other roundings" in found.what


def test_the_same_training_that_does_not_amplify_it_is_within_the_floor(child: Executor, tmp_path: Path) -> None:
    ((found, findings),) = examined(child, tmp_path, ECHO.format(gain=1.0, backend="other_rounding"))
    assert (found.verdict, findings) == ("within", [])
    assert found.partings[0].differs is not None and found.partings[0].parts is None
    assert [one.what for one in found.partings] == ["loss", "gradient norm", "parameter norm"]


def test_a_training_on_eagers_kernels_is_equal_to_the_bit(child: Executor, tmp_path: Path) -> None:
    ((found, findings),) = examined(child, tmp_path, ECHO.format(gain=6.0, backend="'aot_eager'"))
    assert (found.verdict, findings, found.redrawn) == ("equal", [], [])


UPDATE = """
    import torch

    def without_low_bits(x):
        return (x.view(torch.int32) & -65536).view(torch.float32).to(torch.bfloat16)

    def cheap_casts(module, inputs):
        for node in module.graph.find_nodes(op="call_method", target="to"):
            if node.args[1:] == (torch.bfloat16,) and {cuts}:
                node.op, node.target, node.args = "call_function", without_low_bits, node.args[:1]
        module.recompile()
        return module

    @torch.compile(backend=cheap_casts)
    def update(weight, gradient):
        moved = weight.float() - 0.1 * gradient.float()
        weight.copy_(moved.to(torch.bfloat16))

    torch.manual_seed(0)
    weight = torch.randn(32, 8, dtype=torch.bfloat16, requires_grad=True)
    for step in range(60):
        x = torch.randn(64, 32, dtype=torch.bfloat16)
        loss = torch.nn.functional.cross_entropy((x @ weight).float(), x[:, :8].argmax(1))
        weight.grad = None
        loss.backward()
        with torch.no_grad():
            update(weight, weight.grad)
"""


def test_casts_that_cut_are_a_bias_of_their_operator(child: Executor, tmp_path: Path) -> None:
    told = examined(child, tmp_path, UPDATE.format(cuts=True))
    found, (finding,) = told[-1]
    assert (found.verdict, finding.kind) == ("bias", "bias")
    assert finding.source is not None and finding.source.code == "weight.copy_(moved.to(torch.bfloat16))"
    assert "`aten.to` are off to one side, also where it is compiled alone" in finding.what
    assert "roundings of bfloat16 towards zero" in finding.what
    assert [(one.what, one.helped) for one in finding.remedies] == [("`emulate_precision_casts`", False)]


def test_casts_that_round_are_none(child: Executor, tmp_path: Path) -> None:
    ((found, findings),) = examined(child, tmp_path, UPDATE.format(cuts=False))
    assert (found.verdict, findings) == ("equal", [])


SHORT = """
    import os
    import torch
    weight = torch.ones(3, requires_grad=True)
    scaled = torch.compile(lambda x: x * {factor}, backend="eager")
    for _ in range({steps}):
        scaled(weight).sum().backward()
"""
IN_EAGER = '"TORCHDYNAMO_DISABLE" in os.environ'


@pytest.mark.parametrize(
    ("steps", "factor", "why"),
    [
        ("3", "2", "the script calls only 3 backwards of a loss"),
        (f"9 + ({IN_EAGER})", "2", "the compiled run does not take the same steps"),
        ("9", "int.from_bytes(os.urandom(2), 'big')", "they differ between two runs of eager"),
    ],
)
def test_what_cannot_be_compared_is_said_with_the_reason(
    child: Executor, tmp_path: Path, steps: str, factor: str, why: str
) -> None:
    ((found, findings),) = examined(child, tmp_path, SHORT.format(steps=steps, factor=factor))
    assert (found.verdict, findings) == ("untold", [])
    assert found.what == f"The losses with the compiler and without were not compared: {why}."


def test_of_a_script_without_a_loss_nothing_is_said(child: Executor, tmp_path: Path) -> None:
    assert not examined(child, tmp_path, SHORT.format(steps="0", factor="2"))


def test_a_script_is_ended_behind_its_steps(child: Executor, tmp_path: Path) -> None:
    path = script(tmp_path, SHORT.format(steps="9", factor="2"))
    (outcome,) = child.judge([CurveRequest(script=str(path), steps=5, seconds=SECONDS)], timeout=SECONDS)
    assert outcome.ending is Ending.SAME and outcome.curve is not None
    assert [step[1:] for step in outcome.curve.steps] == [(6.0, None, None)] * 5

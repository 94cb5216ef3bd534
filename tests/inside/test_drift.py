"""The losses of trainings with the real compiler: chaos, bias, and curves that are equal or not to be compared."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from children import SECONDS, script

from minimizer.engine.advice import drift
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import HANG_AFTER
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys
from minimizer.inside.questions import CurveRequest, ErrorsRequest
from minimizer.inside.watch import losses
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
    (untold, _), (unexplained, none), (found, (finding,)) = examined(
        child, tmp_path, ECHO.format(gain=6.0, backend="other_rounding")
    )
    assert untold.what.endswith(f"were not compared: {drift.NO_TIME}.") and not none
    assert f"off to one side was not examined: {drift.NO_TIME}." in unexplained.what  # kept for an end in between
    assert (found.verdict, finding.kind, len(found.redrawn)) == ("chaos", "chaos", drift.REDRAWN)
    assert finding.source is not None and finding.source.code == "loss.backward()"
    assert "as in 8 runs of eager with other roundings" in found.what


def test_the_same_training_that_does_not_amplify_it_is_within_the_floor(child: Executor, tmp_path: Path) -> None:
    found, findings = examined(child, tmp_path, ECHO.format(gain=1.0, backend="other_rounding"))[-1]
    assert (found.verdict, findings) == ("within", [])
    assert found.partings[0].differs is not None and found.partings[0].parts is None
    assert [one.what for one in found.partings] == ["loss", "gradient norm", "parameter norm"]


def test_a_training_on_eagers_kernels_is_equal_to_the_bit(child: Executor, tmp_path: Path) -> None:
    found, findings = examined(child, tmp_path, ECHO.format(gain=6.0, backend="'aot_eager'"))[-1]
    assert (found.verdict, findings, found.redrawn) == ("equal", [], [])


def test_what_was_not_examined_is_no_chaos(child: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "KEPT_BYTES", 1 << 10)
    told = examined(child, tmp_path, ECHO.format(gain=6.0, backend="other_rounding"))
    assert not any(findings for _, findings in told)
    found, _ = told[-1]
    assert found.verdict in ("within", "apart")
    assert "off to one side was not examined: of 1 graph too few calls could be kept." in found.what


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
    found, findings = examined(child, tmp_path, UPDATE.format(cuts=False))[-1]
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
        (f"9 // ({IN_EAGER})", "2", "the script did not end well when it ran compiled"),
        ("9", "int.from_bytes(os.urandom(2), 'big')", "they differ between two runs of eager"),
    ],
)
@pytest.mark.examples(2)
def test_what_cannot_be_compared_is_said_with_the_reason(
    child: Executor, tmp_path: Path, steps: str, factor: str, why: str
) -> None:
    found, findings = examined(child, tmp_path, SHORT.format(steps=steps, factor=factor))[-1]
    assert (found.verdict, findings) == ("untold", [])
    assert found.what == f"The losses with the compiler and without were not compared: {why}."


def test_of_a_script_without_a_loss_nothing_is_said(child: Executor, tmp_path: Path) -> None:
    assert not examined(child, tmp_path, SHORT.format(steps="0", factor="2"))


def test_a_script_is_ended_behind_its_steps(child: Executor, tmp_path: Path) -> None:
    path = script(tmp_path, SHORT.format(steps="9", factor="2"))
    (outcome,) = child.judge([CurveRequest(script=str(path), steps=5, seconds=SECONDS)], timeout=SECONDS)
    assert outcome.ending is Ending.SAME and outcome.curve is not None
    assert [step[1:] for step in outcome.curve.steps] == [(6.0, None, None)] * 5


def kept_errors(child: Executor, tmp_path: Path, text: str, limit: int = 1 << 30) -> Outcome:
    """What a training without an end says of its kept calls, of which so many bytes are kept."""
    path, most = script(tmp_path, text.replace("step in range(60)", "step in iter(int, 1)")), SECONDS
    few = {"every": 1, "calls": 12, "bytes": limit, "steps": 15}
    request = ErrorsRequest(script=str(path), seconds=most, examining=most, **few)
    (outcome,) = child.judge([request], timeout=SECONDS)
    return outcome


@pytest.mark.parametrize(("limit", "few"), [(1 << 30, 0), (1000, 1)], ids=["enough", "too few bytes"])
def test_kept_calls_of_a_training_without_an_end_are_examined(
    child: Executor, tmp_path: Path, limit: int, few: int
) -> None:
    outcome = kept_errors(child, tmp_path, UPDATE.format(cuts=True), limit)
    assert outcome.ending is Ending.SAME and outcome.examined is not None
    assert (outcome.examined.few, outcome.examined.is_late) == (few, False)
    assert (bool(outcome.examined.results), bool(outcome.errors)) == (not few, not few)


def test_nodes_that_cannot_be_compiled_alone_leave_the_answer_to_their_graph(child: Executor, tmp_path: Path) -> None:
    alone = "assert len(module.graph.nodes) > 3\n        module.recompile()"
    outcome = kept_errors(child, tmp_path, UPDATE.format(cuts=True).replace("module.recompile()", alone))
    assert [one.is_node for one in outcome.errors] == [False]


def test_the_limit_of_steps_holds_where_no_more_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[int]()
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    for hooks in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        monkeypatch.setattr(losses.optimizer, hooks, OrderedDict())
    monkeypatch.setattr(losses, "MOST_STEPS", 2)
    noted = losses.Losses(on_step=lambda seconds, steps: told.append(steps))
    weight = torch.ones(3, requires_grad=True)
    for _ in range(4):
        weight.sum().backward()
    assert told == [0, 1, 2, 2] and len(noted.told()["steps"]) == 2

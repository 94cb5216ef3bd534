"""On a CUDA device: a wrong Triton kernel is found and reduced like a wrong C++ one. `make test-gpu` runs this."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.engine.pipeline import minimize
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Status

SCRIPT = """
import torch
import torch._inductor.config as inductor_config

inductor_config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).cuda()
torch.compile(model)(torch.randn(8, 16, device="cuda"))
"""


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_wrong_triton_kernel_is_reduced_to_one_node(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    report = minimize(
        script,
        options=Options(device="cuda", witness=False),
        settings=Settings(),
        sink=FolderSink(tmp_path / "out"),
    )

    assert report.status is Status.MINIMIZED, report.summary
    assert report.failure is not None and report.failure.kind is Kind.WRONG_OUTPUT
    assert report.environment["device"] == "cuda"
    assert report.reduction is not None and report.reduction.nodes_after == 1
    assert report.culprits[0].ops == ["aten.relu"]

"""Whole jobs of scripts of which nothing is wrong: what they cost is found, a remedy helps, and a twin has nothing to advise."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import script
from test_corpus import minimize

pytestmark = [pytest.mark.quality("findings"), pytest.mark.timeout(900)]
ROUTED = """
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = self.linear(x)
            {branch}

    torch.manual_seed(0)
    net = torch.compile(torch.nn.Sequential(Layer(), Layer()).eval(), backend="aot_eager")
    with torch.no_grad():
        for _ in range(4):
            print(net(torch.randn(3, 8)).mean().item())
"""


def test_a_branch_on_a_value_is_found_and_where_helps(tmp_path: Path) -> None:
    path = script(tmp_path, ROUTED.format(branch="return y if y.sum() > 0 else -y"), "routed.py")

    status, report = minimize(path, tmp_path / "out")

    assert status == 3 and report["status"] == "healthy"
    (finding,) = report["findings"]
    assert (finding["kind"], finding["source"]["line"], finding["cost"]["value"]) == ("graph_breaks", 11, 2.0)
    assert [(one["before"], one["after"], one["helped"]) for one in finding["remedies"]] == [(2.0, 0.0, True)]
    assert "+        return torch.where(y.sum() > 0, y, -y)" in finding["remedies"][0]["diff"]
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.startswith("**No failure was found.** One finding at routed.py line 11")


def test_its_twin_has_nothing_to_advise(tmp_path: Path) -> None:
    path = script(tmp_path, ROUTED.format(branch="return torch.where(y.sum() > 0, y, -y)"), "routed.py")

    status, report = minimize(path, tmp_path / "out")

    assert status == 3 and report["findings"] == []

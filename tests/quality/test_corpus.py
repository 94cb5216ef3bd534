"""Real reductions of our own failing scripts, through the command line; the minimum reached is pinned.

``truth.json`` holds what is known of each script. ``nodes`` and ``lines`` are the minima reached so far: a larger result is a
regression, a smaller one is an invitation to lower the number; null where the script itself is reduced, or nothing is pinned
yet. ``part`` is what the blame must name, ``raises`` a frame of the
stack, ``way`` the attempt that led to the repro, ``mechanism`` how a fault of precision comes about, ``has`` a text of the repro. ``fixed_in`` is the first release of torch without the fault, where the script is
healthy. ``arguments`` go to the command. Each commit runs some of what is ``daily`` (`shares`); all scripts if WHOLE_CORPUS is set.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
TRUTH: dict[str, dict[str, Any]] = json.loads((HERE / "truth.json").read_text())
WHOLE = "WHOLE_CORPUS" in os.environ

pytestmark = pytest.mark.timeout(900)


def minimize(script: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "minimizer",
        "run",
        str(script),
        "--no-witness",
        "--out",
        str(out),
        "--budget",
        "600",
        *arguments,
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (out / "report.json").exists(), process.stderr
    return process.returncode, json.loads((out / "report.json").read_text())


@pytest.mark.quality("corpus")
@pytest.mark.parametrize("name", sorted(name for name, truth in TRUTH.items() if WHOLE or truth.get("daily")))
def test_corpus(name: str, tmp_path: Path) -> None:
    truth = TRUTH[name]

    fixed_in = truth.get("fixed_in")
    if fixed_in is not None and Version(importlib.metadata.version("torch")) >= Version(fixed_in):
        truth = {"exit": 3, "arguments": truth.get("arguments", ())}
    diagnosis = "--diagnosis" if "part" in truth else "--no-diagnosis"
    status, report = minimize(HERE / "corpus" / f"{name}.py", tmp_path, diagnosis, *truth.get("arguments", ()))

    assert status == truth["exit"], report["summary"]
    assert report["reason"] == truth.get("reason")
    if truth["exit"] != 0:
        assert not (tmp_path / "repro.py").exists()
        return
    assert report["failure"]["kind"] == truth["kind"]
    assert report["failure"]["stage"] == truth["stage"]
    assert report["failure"]["layout_only"] == truth.get("layout_only", False)
    if "op" in truth:
        assert truth["op"] in report["culprits"][0]["ops"]
    if "mechanism" in truth:
        assert report["failure"]["mechanism"] == truth["mechanism"]
    if "raises" in truth:  # the innermost frame
        assert truth["raises"] in report["failure"]["traceback"]
    if "module" in truth:
        assert report["culprits"][0]["module"] == truth["module"]
    if "has" in truth:
        assert truth["has"] in (tmp_path / "repro.py").read_text()
    assert report["reduction"]["one_minimal"]
    for pinned in ("nodes", "lines"):
        if truth[pinned] is not None:
            assert report["reduction"][f"{pinned}_after"] <= truth[pinned]
    if "way" in truth:
        assert [a["what"] for a in report["attempts"] if a["outcome"] == "a repro"] == [truth["way"]]
    if "part" in truth:
        assert report["blame"]["items"] == truth["part"]
        assert report["blame"]["confirmed"]
        assert report["blame"]["confirmed_on_script"]
        assert report["blame"]["runs"] <= 25
        assert report["workaround"]["verified"]
    assert report["verification"]["failed_same"] == report["verification"]["runs"] == 3


def test_every_script_has_its_truth() -> None:
    assert {path.stem for path in (HERE / "corpus").glob("*.py")} == set(TRUTH)


@pytest.mark.quality("whole jobs")
def test_repro_stands_alone(tmp_path: Path) -> None:
    """Copied alone into an empty folder, with nothing in the environment: 1 while the bug is there, 0 without the compiler."""
    out, alone = tmp_path / "out", tmp_path / "alone"
    alone.mkdir()
    status, _ = minimize(EXAMPLES / "bucketed_features.py", out, "--no-diagnosis")
    assert status == 0
    (alone / "repro.py").write_bytes((out / "repro.py").read_bytes())

    def run(**extra: str) -> int:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(alone),
            "TORCHINDUCTOR_CACHE_DIR": str(alone / "cache"),
            **extra,
        }
        return subprocess.run([sys.executable, "repro.py"], cwd=alone, env=environment, check=False).returncode

    assert run() == 1
    assert run(TORCHDYNAMO_DISABLE="1") == 0


TWO_FAILURES = """
    import torch
    import torch._inductor.config as config
    from torch import nn
    from torch._inductor.lowering import lowerings


    def broken(*args, **kwargs):
        raise RuntimeError("there is no erf today")


    lowerings[torch.ops.aten.erf.default] = broken
    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


    class First(nn.Module):
        def forward(self, x):
            return (torch.erf(x) * 2).cos() + torch.sin(x)


    class Second(nn.Module):
        def forward(self, x):
            return (torch.relu(x - 1).sin() + 2).exp() * 3


    torch.compile(nn.Sequential(First(), Second(), First()))(torch.randn(4, 8))
"""


@pytest.mark.quality("whole jobs")
def test_a_target_is_named_by_its_signature(tmp_path: Path) -> None:
    """The script ends with a compile error; the wrong values behind it are asked for, and the error gets its own repro."""
    script, out = tmp_path / "two.py", tmp_path / "out"
    script.write_text(textwrap.dedent(TWO_FAILURES))
    status, report = minimize(script, out, "--target", "wrong_output", "--no-diagnosis")
    assert (status, report["failure"]["kind"]) == (0, "wrong_output")
    assert report["culprits"][0]["ops"] == ["aten.relu"]
    assert "torch.relu" in (out / "repro.py").read_text()
    assert "torch.erf" in (out / "repro-2.py").read_text()

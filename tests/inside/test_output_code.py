"""The generated code of a repro, from a run of it in this torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from children import place

from minimizer.engine.budget.clock import Clock
from minimizer.engine.emit import Repro
from minimizer.engine.journal import Journal
from minimizer.engine.output_code import generated_code
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind

UNBUILT = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.cxx = ("true",)  # builds nothing: that takes longer than all else, and comes last


def f(x):
    return torch.nn.functional.gelu(x.cos())


torch.compile(f)(torch.ones(64))
"""


@pytest.mark.quality("slow")
def test_the_kernel_of_a_repro_its_lines_and_its_graph(tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    scratch = tmp_path / "job"
    scratch.mkdir()
    where = place(scratch)
    repro = Repro(source=UNBUILT, lines=1, kind=Kind.WRONG_OUTPUT, evidence="")

    found = generated_code(repro, None, where, journal, ["aten.cos"], blame=None, seconds=200)

    assert found is not None and (found.language, found.phase) == ("cpp", "inference")
    assert found.kernel == "cpp_fused_cos_gelu_0" and found.code.startswith('extern "C"')
    lines, graph = found.code.split("\n"), found.aten.split("\n")
    assert found.marked and all(".cos()" in lines[number - 1] for number in found.marked)
    assert ["torch.ops.aten.cos.default" in graph[number - 1] for number in found.aten_marked] == [True]
    assert "aten.erf" in found.aten, "the graph has decompositions of the others"
    journal.keep()
    assert "the culprit's kernel is cpp_fused_cos_gelu_0" in (tmp_path / "out" / "run.log").read_text()

    compiles_nothing = replace(repro, source="pass\n")
    assert generated_code(compiles_nothing, None, where, journal, ["aten.cos"], blame=None, seconds=200) is None

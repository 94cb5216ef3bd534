"""The health of compiled code, from real runs: breaks, recompiles, times, the trace and its pages."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import executor, script

from minimizer.executor import Executor
from minimizer.health import TRACE, examine
from minimizer.journal import Journal
from minimizer.report import Report
from minimizer.sink import FolderSink
from minimizer.triage import HANG_AFTER, Triage

SCRIPT = """
    import torch

    def inner(x):
        print("seen")
        return x.sin()

    @torch.compile(backend="aot_eager", dynamic=False)
    def outer(x):
        return inner(x).cos()

    for size in (3, 4, 5):
        outer(torch.ones(size))
"""


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    scratch = tmp_path_factory.mktemp("job") / "shared"
    scratch.mkdir()
    with executor(scratch, tmp_path_factory.getbasetemp()) as started:
        yield started


def test_health_of_a_script_that_breaks_and_recompiles(child: Executor, tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path / "out"), Report(), 600)
    triage = Triage(
        child,
        script(tmp_path, SCRIPT),
        args=[],
        steps=None,
        hang_after=HANG_AFTER,
        values=True,
        on_note=journal.note,
    )

    examine(triage, child.place, journal)

    health = journal.report.health
    assert any(
        text.startswith('script.py line 5: print("seen"): Failed to trace builtin operator')
        for text in health.graph_breaks
    )
    assert any(
        text.startswith("outer: tensor 'x' size mismatch at index 0. expected 3, actual 4")
        for text in health.recompiles
    )
    assert health.compile_seconds is not None and health.compile_seconds > 0
    assert any(text.startswith("outer, script.py line 8: ") for text in health.frames)
    assert health.eager_seconds is not None and health.compiled_seconds is not None
    trace = (tmp_path / "out" / TRACE).read_text()
    assert "dynamo_output_graph" in trace
    pages = zipfile.ZipFile(io.BytesIO((tmp_path / "out" / "tlparse.zip").read_bytes()))
    assert "index.html" in pages.namelist()

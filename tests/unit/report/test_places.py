"""Places as a reader is told of them: modules with a class where a number says nothing, lines with the library that they call."""

from __future__ import annotations

import pytest

from minimizer.report.culprit import Culprit, Source, SourceLine
from minimizer.report.safe_markdown import without_folders


@pytest.mark.parametrize(
    ("module", "kind", "said"),
    [
        ("1", "ReLU", "1 (ReLU)"),
        ("layers.37", "Block", "layers.37 (Block)"),
        ("layers.37.act", "ReLU", "layers.37.act"),
        ("layers.37", "", "layers.37"),
        ("", "", ""),
    ],
)
def test_a_module_that_is_a_number_has_its_class(module: str, kind: str, said: str) -> None:
    assert Culprit(module=module, module_class=kind).module_name == said


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (None, "model.py:41"),
        ("zoo/net.py", "model.py:41 → zoo/net.py:187"),
        ("transformers/models/llama/modeling_llama.py", "model.py:41 → transformers/…/modeling_llama.py:187"),
        ("six.py", "model.py:41 → six.py:187"),
    ],
)
def test_a_line_is_told_with_that_of_the_library_it_calls(library: str | None, said: str) -> None:
    called = SourceLine(file=library, line=187) if library else None
    assert Source(file="model.py", line=41, library=called).words == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("using CUDA_HOME='/usr/local'", "using CUDA_HOME='/usr/local'"),
        ("CUDA_HOME=/usr/local/cuda-13.0", "CUDA_HOME=/usr/local/cuda-13.0"),
        ("cannot find -lcuda in /usr/lib64", "cannot find -lcuda in /usr/lib64"),
        ("OSError: /dev/null is full", "OSError: /dev/null is full"),
        ("/usr/local/share/me/train.py:3", "train.py:3"),
        ("/opt/secret/model.py:3", "model.py:3"),
        ("/usr/local/secret", "secret"),
        ("/home/me/.venv/lib/python3.12/site-packages/torch/nn/x.py", "torch/nn/x.py"),
    ],
)
def test_folders_that_every_machine_has_are_told_and_no_others(line: str, said: str) -> None:
    assert without_folders(line) == said

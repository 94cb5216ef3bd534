"""A C++ compiler that dies for want of memory is no compile error of the script; one that rejects its kernel is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from children import script

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.errors import MemoryExceeded
from minimizer.vocabulary import Kind

COMPILER = """#!/bin/sh
case "$*" in
*main.cpp*|*.cpp*) echo "{says}" >&2; exit 1;;
esac
exec g++ "$@"
"""
SCRIPT = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.cxx = ({compiler!r},)
torch.compile(torch.relu)(torch.ones(300))
"""


def found(child: Executor, home: Path, says: str) -> Any:
    compiler = home / "compiler"
    compiler.write_text(COMPILER.format(says=says))
    compiler.chmod(0o755)
    path = script(home, SCRIPT.format(compiler=str(compiler)))
    return Triage(Surveys(child, path, args=[], steps=None, hang_after=200, values=True), on_note=lambda _: None).run()


@pytest.mark.parametrize(
    "says",
    [
        "g++: fatal error: Killed signal terminated program cc1plus",
        pytest.param("cc1plus: out of memory allocating 65536 bytes", marks=pytest.mark.quality("slow")),
    ],
)
def test_a_compiler_without_memory_is_not_to_blame(child: Executor, home: Path, says: str) -> None:
    with pytest.raises(MemoryExceeded, match="had too little memory"):
        found(child, home, says)


def test_a_kernel_that_is_rejected_is_a_compile_error(child: Executor, home: Path) -> None:
    case = found(child, home, "error: expected ';' before '}' token")
    assert isinstance(case, Case)
    assert case.signature.kind is Kind.COMPILE_ERROR
    case.survey.close()

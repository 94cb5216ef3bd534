"""What a process does once before its first kernel is done before it was forked, or by another process of the job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.inside.compiler import first_compilation
from minimizer.inside.questions import ScriptRequest
from tests.inside.children import SECONDS, script

COUNTS_PROGRAMS = """
import subprocess, sys
import torch

started = []
original = subprocess.Popen.__init__

def init(self, args, *more, **words):
    started.append(args)
    original(self, args, *more, **words)

subprocess.Popen.__init__ = init
number = float(sys.argv[1])
torch.compile(lambda x: torch.softmax(x + number, -1) + number)(torch.randn(8, 8))
kernels = [args for args in started if any(str(arg).endswith(".so") for arg in args)]
others = [args for args in started if args not in kernels and args[1:] != ["--version"]]
assert len(kernels) == 1 and not others, others
"""


@pytest.mark.quality("slow")
def test_in_a_process_that_compiles_only_its_own_kernel_is_built(child: Executor, home: Path) -> None:
    def run(number: int) -> Ending:
        path = script(home, COUNTS_PROGRAMS)
        request = ScriptRequest(text=path.read_text(), script=str(path), args=[str(number)], state=number)
        (outcome,) = child.judge([request], timeout=SECONDS)
        return outcome.ending

    run(1)  # what is asked once for each job: instructions of the processor, and the header
    assert run(2) is Ending.SAME


@pytest.mark.parametrize("fault", ["raises", "starts a thread", "dies"])
def test_what_fails_in_a_forked_process_is_left_to_those_that_need_it(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, here = os.getpid(), []

    def step() -> None:
        import threading

        if os.getpid() == parent:
            here.append(fault)
        elif fault == "raises":
            raise RuntimeError("Duplicate pattern")
        elif fault == "dies":
            os.kill(os.getpid(), 9)
        else:
            threading.Thread(target=threading.Event().wait, daemon=True).start()

    monkeypatch.setattr(first_compilation, "_trace_patterns", step)
    monkeypatch.setattr(first_compilation, "_know_the_compiler", lambda: None)
    first_compilation.done_beforehand()
    assert here == []


@pytest.mark.parametrize(("gpu", "patterns"), [(True, 0), (False, 1)])
def test_on_a_machine_with_a_gpu_no_pattern_is_traced_before_the_fork(
    gpu: bool, patterns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[int] = []
    step: Callable[[], None] = lambda: traced.append(os.getpid())  # noqa: E731
    monkeypatch.setattr(first_compilation, "has_gpu", lambda: gpu)
    monkeypatch.setattr(first_compilation, "_trace_patterns", step)
    monkeypatch.setattr(first_compilation, "_know_the_compiler", lambda: None)
    first_compilation.done_beforehand()
    assert traced == [os.getpid()] * patterns


@pytest.mark.quality("slow")
def test_a_decomposition_that_a_script_adds_later_is_in_the_table(child: Executor, home: Path) -> None:
    """Inductor keeps a copy of the table, made when it first needs one."""
    text = """
import torch
from torch._inductor import decomposition
decomposition.decompositions[torch.ops.aten.silu.default] = None
assert decomposition.fast_random_decomps()[torch.ops.aten.silu.default] is None
torch.compile(lambda x: x + 1)(torch.ones(2))
"""
    path = script(home, text)
    (outcome,) = child.judge([ScriptRequest(text=text, script=str(path), state=1)], timeout=SECONDS)
    assert outcome.ending is Ending.SAME

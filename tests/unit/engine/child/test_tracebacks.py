"""What the standard error of a process says of the exception that ended it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minimizer.engine.child.tracebacks import Traceback, last_traceback

COMPILED = """Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    f(x)
  File "/env/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 1044, in compile_wrapper
    return fn(*args, **kwargs)
  File "/home/me/train.py", line 4, in f
    assert x.sum() > 0
AssertionError
"""


def shown(text: str, folder: Path) -> Traceback | None:
    script = folder / "script.py"
    script.write_text(text)
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    return last_traceback(ran.stderr)


def test_an_exception_and_where_it_was_raised(tmp_path: Path) -> None:
    found = shown("def check(x):\n    raise ValueError(f'bad: {x}')\n\ncheck(3)\n", tmp_path)
    assert found is not None
    assert (found.error.root_type, found.error.root_message) == ("ValueError", "bad: 3")
    assert found.error.frames == [
        ("script.py", "<module>", "check(3)"),
        ("script.py", "check", "raise ValueError(f'bad: {x}')"),
    ]
    assert found.text.startswith("Traceback") and found.text.endswith("ValueError: bad: 3")
    assert not found.in_compiled


def test_a_message_of_several_lines(tmp_path: Path) -> None:
    found = shown("raise RuntimeError('first\\nsecond')", tmp_path)
    assert found is not None and found.error.root_message == "first\nsecond"


def test_of_several_the_last_one_counts(tmp_path: Path) -> None:
    found = shown("try:\n    {}['x']\nexcept KeyError:\n    raise TypeError('then')", tmp_path)
    assert found is not None and found.error.type == "TypeError"


def test_of_a_group_its_last_exception_counts(tmp_path: Path) -> None:
    nested = "raise ExceptionGroup('outer', [ValueError('a'), ExceptionGroup('inner', [error])])"
    found = shown(f"try:\n    {{}}['x']\nexcept KeyError as error:\n    {nested}\n", tmp_path)
    assert found is not None
    assert (found.error.type, found.error.message) == ("KeyError", "'x'")
    assert found.error.frames == [("script.py", "<module>", "{}['x']")]
    assert found.text.endswith("KeyError: 'x'")


@pytest.mark.parametrize("text", ["print('well')", "raise SystemExit('not good enough')", "raise SystemExit(3)"])
def test_a_script_that_ends_itself_shows_none(text: str, tmp_path: Path) -> None:
    assert shown(text, tmp_path) is None


def test_a_check_inside_of_what_is_compiled() -> None:
    found = last_traceback(COMPILED)
    assert found is not None and found.in_compiled
    assert found.error.frames[1][0] == "torch/_dynamo/eval_frame.py"


def test_a_rank_is_named_before_each_line() -> None:
    found = last_traceback("".join(f"[rank1]: {line}" for line in COMPILED.splitlines(keepends=True)))
    assert found is not None and found.error.root_type == "AssertionError"


@pytest.mark.parametrize(
    "output", ["", "Traceback (most recent call last):\n", "Traceback (most recent call last):\n  ?\n(no)"]
)
def test_what_is_no_traceback(output: str) -> None:
    assert last_traceback(output) is None


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out_of_memory"),
        ("RuntimeError: CUDA error: out of memory", "out_of_memory"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out_of_memory"),
        ("RuntimeError: Triton Error [CUDA]: out of memory", "out_of_memory"),
        ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 300000", ""),
        ("MemoryError: out of memory", ""),
    ],
)
def test_a_gpu_that_is_full(line: str, device: str) -> None:
    found = last_traceback(f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n{line}\n')
    assert found is not None and found.error.device == device

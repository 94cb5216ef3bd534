"""Repros of the Python level: what is written, and what it says when it is run with a stand-in for torch."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.budget.patience import REPRO_SECONDS
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.emit import Repro
from minimizer.engine.emit.script_idioms import emit_script, in_lines
from minimizer.engine.reduce.python.rerun import has_ended_itself, has_shown_it
from minimizer.engine.verify.clean_runs import Run
from minimizer.inside.failures import describe
from minimizer.inside.wire import plain
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind, Stage

TORCH = """
import contextlib, os, time

MODE = os.environ["BUG"]
eager = False

def on_device(x):
    if MODE == "eager fails":
        raise RuntimeError("no such device")
    return x

def compile(f):
    def run(*args):
        if eager or "TORCHDYNAMO_DISABLE" in os.environ:
            return f(*args)
        if MODE == "raises":
            raise TypeError("unsupported operand type(s)")
        if MODE == "other":
            raise ValueError("something else")
        if MODE == "wrong":
            return f(*args) + 1
        if MODE == "dies":
            os.abort()
        if MODE == "hangs":
            time.sleep(60)
        return f(*args)
    return run

class testing:
    @staticmethod
    def assert_close(actual, expected, msg=None):
        assert actual == expected, msg or "Scalars are not close!"

class cuda:
    @staticmethod
    def is_available():
        return False

class compiler:
    @staticmethod
    @contextlib.contextmanager
    def set_stance(stance):
        global eager
        assert stance == "force_eager"
        eager = True
        yield
        eager = False
"""
SCRIPT = "import torch\ndef f(x):\n    return torch.on_device(x)\nfast = torch.compile(f)\nassert fast(3) == 3\n"

AT_ONCE = SCRIPT.replace("fast = torch.compile(f)\nassert fast(3) == 3", "x = 3\ntorch.compile(f)(x)")

NAMED = SCRIPT.replace("assert fast(3) == 3", "x = 3\nfast(x)")


ALONE = (Kind.CRASH, Kind.HANG, Kind.MISSING_ERROR)
"""Kinds whose repro is written in one way only, or not at this level."""


RAISED = "TypeError: unsupported operand type(s)"


def repros(
    kind: Kind, *, crash: int | None = None, text: str = SCRIPT, error: str = "TypeError", message: str = RAISED
) -> list[Repro]:
    failure = Failure(kind=kind, stage=Stage.DYNAMO, exception_type=error, message=message)
    culprits = [Culprit(what="register_hook")]
    environment = {"torch": "2.13.0", "device": "cpu"}
    return list(emit_script(text, failure, culprits, environment=environment, crash=crash))


def status(repro: Repro, folder: Path, bug: str, **extra: str) -> tuple[int, str]:
    (folder / "torch.py").write_text(TORCH)
    (folder / "repro.py").write_text(repro.source)
    environment = {"PATH": os.environ["PATH"], "BUG": bug, **extra}
    done = subprocess.run(
        [sys.executable, "repro.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("way", [0, 1, -1])
@pytest.mark.parametrize(
    ("kind", "bug", "expected"),
    [
        (Kind.RUNTIME_ERROR, "raises", 1),
        (Kind.RUNTIME_ERROR, "fixed", 0),
        (Kind.RUNTIME_ERROR, "eager fails", 125),
        (Kind.WRONG_OUTPUT, "wrong", 1),
        (Kind.WRONG_METADATA, "wrong", 1),
        (Kind.WRONG_OUTPUT, "fixed", 0),
        (Kind.WRONG_OUTPUT, "eager fails", 125),
        (Kind.COMPILE_ERROR, "raises", 1),
        *((kind, "other", 125) for kind in Kind if kind not in ALONE and not kind.is_finding),
        *((kind, "raises", 125) for kind in Kind if kind.is_numeric),
        *((kind, "wrong", 125) for kind in (Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR)),
    ],
)
def test_exit_status_tells_a_bug_from_a_machine_that_cannot_run_it(
    kind: Kind, bug: str, expected: int, way: int, tmp_path: Path
) -> None:
    repro = repros(kind)[way]
    ended, output = status(repro, tmp_path, bug)
    assert ended == expected, output
    assert Run(ended, output, 0.0).shows(repro) == (expected == 1), output
    assert status(repro, tmp_path, bug if bug != "eager fails" else "fixed", TORCHDYNAMO_DISABLE="1")[0] == 0


CLOSE = SCRIPT.replace("assert fast(3) == 3", "torch.testing.assert_close(fast(3), f(3))")
INLINE = """\
import torch
def f(x):
    return torch.on_device(x)
def run(f):
    return f(3)
torch.testing.assert_close(run(torch.compile(f)), run(f))
"""


@pytest.mark.parametrize("text", [CLOSE, INLINE])
@pytest.mark.parametrize(
    ("bug", "expected"), [("wrong", 1), ("fixed", 0), ("eager fails", 125), ("raises", 125), ("other", 125)]
)
def test_a_script_that_compares_both_sides_runs_each_of_them_once(
    text: str, bug: str, expected: int, tmp_path: Path
) -> None:
    repro = repros(Kind.WRONG_OUTPUT, text=text)[0]
    assert "set_stance" not in repro.source and repro.source.count("f(3)") <= 2
    ended, output = status(repro, tmp_path, bug)
    assert ended == expected, output
    assert Run(ended, output, 0.0).shows(repro) == (expected == 1), output
    if expected == 1:
        assert "expected=3, actual=4" in output
    assert status(repro, tmp_path, bug if bug != "eager fails" else "fixed", TORCHDYNAMO_DISABLE="1")[0] == 0


@pytest.mark.parametrize(
    "last",
    [
        "torch.testing.assert_close(fast(3), 3)",  # what eager gave on one machine
        "torch.testing.assert_close(fast(3), f(2) + 1)",
        "torch.testing.assert_close(f(3), f(3))",
        "expected = f(3); torch.testing.assert_close(fast(3), expected)",
    ],
)
def test_a_script_that_compares_with_something_else_is_run_in_eager_first(last: str) -> None:
    forms = repros(Kind.WRONG_OUTPUT, text=SCRIPT.replace("assert fast(3) == 3", last))
    assert all("set_stance" in form.source or "TORCHDYNAMO_DISABLE" in form.source for form in forms)


def test_a_hang_ends_itself_with_the_stack(tmp_path: Path) -> None:
    (repro,) = repros(Kind.HANG)
    impatient = replace(repro, source=repro.source.replace(f"later({REPRO_SECONDS:g}", "later(1"))
    assert Run(*status(impatient, tmp_path, "hangs"), 0.0).shows(repro)


@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.HANG])
def test_a_script_on_a_gpu_is_waited_for(kind: Kind, tmp_path: Path) -> None:
    """Its kernels fail, or never end, behind the call that starts them. Where there is no GPU after all nothing waits."""
    maybe = SCRIPT.replace("import torch\n", 'import torch\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n')
    repro = repros(kind, text=maybe)[0]
    compiled = repro.source.partition("force_eager")[2]
    assert "        torch.cuda.synchronize()\n" in compiled
    assert status(repro, tmp_path, "fixed")[0] == 0
    assert "synchronize" not in repros(kind)[0].source
    assert "synchronize" not in repros(kind, text=maybe.replace("import torch\n", "import torch as t\n", 1))[0].source


@pytest.mark.parametrize("bug", ["raises", "other", "wrong", "eager fails"])
def test_what_ends_is_not_taken_for_a_hang(bug: str, tmp_path: Path) -> None:
    (repro,) = repros(Kind.HANG)
    assert status(repro, tmp_path, bug)[0] == 125
    assert status(repro, tmp_path, "fixed")[0] == 0


def test_a_script_that_ends_itself_is_known_by_its_status(tmp_path: Path) -> None:
    text = SCRIPT.replace("assert fast(3) == 3", "fast(3) == 3 or exit(1)")
    repro = repros(Kind.RUNTIME_ERROR, text=text, error="SystemExit")[-1]
    assert Run(*status(repro, tmp_path, "wrong"), 0.0).shows(repro)


@pytest.mark.parametrize(
    ("kind", "bug", "shown"),
    [
        (Kind.WRONG_OUTPUT, "wrong", True),
        (Kind.WRONG_OUTPUT, "other", False),
        (Kind.WRONG_OUTPUT, "fixed", False),
        (Kind.RUNTIME_ERROR, "raises", True),
        (Kind.RUNTIME_ERROR, "other", False),
        (Kind.RUNTIME_ERROR, "wrong", False),
    ],
)
def test_the_end_of_a_repro_is_read_as_its_exit_status(
    kind: Kind, bug: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either it ends itself, or the error that it looks for passes through it."""
    monkeypatch.setenv("BUG", bug)
    monkeypatch.setitem(sys.modules, "torch", torch := types.ModuleType("torch"))
    exec(TORCH, torch.__dict__)
    error = None
    try:
        exec(repros(kind)[0].source, {})
    except (SystemExit, Exception) as end:
        error = ExceptionInfo.model_validate(plain(describe(end)))
    assert has_shown_it(error, "unsupported operand type") == shown


@pytest.mark.parametrize("text", [SCRIPT, AT_ONCE])
@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR])
def test_another_error_is_not_taken_for_the_bug(kind: Kind, text: str, tmp_path: Path) -> None:
    assert status(repros(kind, text=text)[0], tmp_path, "other")[0] == 125


@pytest.mark.parametrize(
    ("kind", "bug", "expected"),
    [
        (Kind.COMPILE_ERROR, "raises", 1),
        (Kind.COMPILE_ERROR, "fixed", 0),
        (Kind.RUNTIME_ERROR, "raises", 1),
        (Kind.RUNTIME_ERROR, "fixed", 0),
        (Kind.RUNTIME_ERROR, "eager fails", 125),
    ],
)
@pytest.mark.parametrize("text", [AT_ONCE, NAMED], ids=["at once", "by a name"])
def test_what_is_compiled_is_called_as_it_is_first(
    text: str, kind: Kind, bug: str, expected: int, tmp_path: Path
) -> None:
    repro = repros(kind, text=text)[0]
    ended, output = status(repro, tmp_path, bug)
    assert ended == expected, output
    assert (repro.evidence in output) == (expected == 1)
    assert 'print("expected", f(x))' in repro.source
    assert "set_stance" not in repro.source


@pytest.mark.parametrize(("bug", "expected"), [("wrong", 1), ("fixed", 0), ("eager fails", 125)])
def test_a_check_of_several_lines_is_written_once(bug: str, expected: int, tmp_path: Path) -> None:
    loop = SCRIPT.replace(
        "assert fast(3) == 3", "for n in (1, 2):\n    y = fast(n)\n    z = fast(n + 1)\n    assert y + 1 == z == n + 1"
    )
    first, second, *_ = repros(Kind.WRONG_OUTPUT, text=loop)
    assert first.source.count("assert ") == 1 and second.source.count("assert ") == 2
    assert first.lines < second.lines
    ended, output = status(first, tmp_path, bug)
    assert ended == expected, output
    assert "def check" not in repros(Kind.WRONG_OUTPUT)[0].source, "what is short is written twice"


LONG = SCRIPT.replace(
    "assert fast(3) == 3",
    "for n in (1, 2):\n    y = fast(n)\n    z = fast(n + 1)\n    print(y, z)\n    check = fast(3)",
)


@pytest.mark.parametrize("kind", [Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR])
@pytest.mark.parametrize(("bug", "expected"), [("raises", 1), ("fixed", 0), ("eager fails", 125)])
def test_what_fails_in_several_lines_is_a_function_that_both_sides_call(
    kind: Kind, bug: str, expected: int, tmp_path: Path
) -> None:
    first, second, *_ = repros(kind, text=LONG)
    assert first.source.count("check = fast(3)") == 1 and second.source.count("check = fast(3)") == 2
    assert "def run():" in first.source, "another name than one that the script has"
    ended, output = status(first, tmp_path, bug)
    assert ended == expected, output


def test_what_hangs_in_several_lines_is_written_once_too(tmp_path: Path) -> None:
    first, second = repros(Kind.HANG, text=LONG)
    assert first.lines < second.lines and first.hang_after == second.hang_after == REPRO_SECONDS
    assert status(first, tmp_path, "fixed")[0] == 0


@given(st.text(alphabet="a\n\\\"' \t\r{\x0cé"))
def test_the_lines_of_a_string_are_written_as_lines(text: str) -> None:
    script = f"def g():\n    return f({text!r}, 'é', {text!r}), f'a\\nb\\nc{{x}}'\n"
    assert ast.dump(ast.parse(in_lines(script))) == ast.dump(ast.parse(script))


def test_the_source_of_a_kernel_stays_readable(tmp_path: Path) -> None:
    kernel = '"""\n#include "a.h"\nvoid f() {\n    printf("\\\\n");\n}\n"""'
    text = SCRIPT.replace("x = 3", "").replace("fast(3) == 3", f"fast({kernel}) == {kernel}")
    for repro in repros(Kind.WRONG_OUTPUT, text=text):
        assert kernel in repro.source
        assert status(repro, tmp_path, "fixed")[0] == 0


@pytest.mark.parametrize(("bug", "expected"), [("dies", 1), ("fixed", 0), ("raises", 125)])
def test_a_crash_runs_in_a_child(bug: str, expected: int, tmp_path: Path) -> None:
    (repro,) = repros(Kind.CRASH, crash=6)
    ended, output = status(repro, tmp_path, bug)
    assert ended == expected, output
    assert "-signal.SIGABRT" in repro.source


def test_the_header_says_what_is_to_blame() -> None:
    assert repros(Kind.RUNTIME_ERROR)[0].source.startswith("# torch.compile raises for register_hook, eager does not")


ONCE = """
import torch
f = torch.compile(torch.on_device)
values = [3]
y = f(values)
y.pop()
"""


@pytest.mark.parametrize(("bug", "expected"), [("raises", 1), ("fixed", 0), ("eager fails", 125)])
def test_what_the_last_statement_uses_up_is_made_anew_for_the_compiler(bug: str, expected: int, tmp_path: Path) -> None:
    """Such as a graph of autograd: the whole script is a function then, which is called twice in one process."""
    ways = repros(Kind.RUNTIME_ERROR, text=ONCE)
    one_process = [repro for repro in ways if "subprocess" not in repro.source]
    assert [status(repro, tmp_path, "fixed")[0] for repro in one_process] == [125, 0]
    assert one_process[-1].source.count("values = [3]") == 1
    assert status(one_process[-1], tmp_path, bug)[0] == expected


def test_a_function_for_a_script_has_a_name_that_is_not_taken() -> None:
    taken = "".join(f"{name} = 1\n" for name in ("check", "run", "program", "check_2"))
    *_, whole, _ = repros(Kind.RUNTIME_ERROR, text=f"import torch\n{taken}print(check)\nprint(run)\n")
    assert "def check_3():" in whole.source


@pytest.mark.parametrize(
    ("type_", "message", "ended"),
    [
        ("AssertionError", "expected 1.0, actual 2.0", True),
        ("SystemExit", "1", True),
        ("SystemExit", "125", False),
        ("torch._dynamo.exc.BackendCompilerFailed", "backend='inductor' raised:\nAssertionError: strides", False),
    ],
)
def test_an_assertion_within_the_compiler_is_none_of_the_repros_own(type_: str, message: str, ended: bool) -> None:
    error = ExceptionInfo(type=type_, message=message, root_type=type_, root_message=message)
    assert has_ended_itself(error) is ended
    assert has_ended_itself(None) is False


def test_a_handler_looks_for_the_words_of_an_error_in_the_error_itself() -> None:
    source = repros(Kind.RUNTIME_ERROR, message="TypeError: this buffer was donated")[0].source
    assert '"this buffer was donated" in str(error)' in source
    assert "message =" not in source

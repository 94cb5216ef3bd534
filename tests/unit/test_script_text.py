"""What is taken as a script, and what it may cost to find out."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from minimizer import script_text
from minimizer.errors import Busy, InvalidScript
from minimizer.script_text import MAX_SCRIPT_BYTES, SHORT_CHARS, check_script

LONG = b"value = 1\n" * (SHORT_CHARS // 10 + 1)
"""A text that is parsed in a process of its own."""


def nested(levels: int) -> bytes:
    """A block in a block, each of which the compiler writes out twice: for the way without an error, and for that with one."""
    lines = [f"{' ' * level}try: pass\n{' ' * level}finally:" for level in range(levels)]
    return "\n".join([*lines, " " * levels + "pass"]).encode()


def test_a_script_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code doubles with every level: a hundred of them would fill the memory."""
    flags: list[int] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        flags.append(arguments[3])
        return compile(*arguments, **options)

    monkeypatch.setattr("minimizer.script_text.compile", spy, raising=False)
    assert check_script(nested(19), "a.py")
    assert flags and all(flag & ast.PyCF_ONLY_AST for flag in flags)


def test_what_is_not_python_is_refused() -> None:
    with pytest.raises(InvalidScript, match=r"a\.py is not Python: .* \(line 2\)"):
        check_script(b"x = 1\ndef f(:\n", "a.py")


def test_a_long_script_is_parsed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(*_: Any, **__: Any) -> Any:
        raise AssertionError("parsed where everybody waits for it")

    monkeypatch.setattr("minimizer.script_text.compile", here, raising=False)
    assert check_script(LONG, "a.py") == LONG.decode()


@pytest.mark.parametrize("padding", [b"", LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"def f(:\n", r"a\.py is not Python: invalid syntax \(line {line}\)"),
        (b"x = '\0'\n", r"a\.py is not Python: .*null bytes"),
        (b"x = " + b"-" * 20_000 + b"1\n", r"a\.py cannot be parsed as Python: "),
        (b"x = '\xff'\n", r"a\.py is not UTF-8 text \(byte {byte}\)"),
    ],
)
def test_the_same_is_said_of_short_scripts_and_of_long_ones(padding: bytes, text: bytes, said: str) -> None:
    content = padding + text
    with pytest.raises(InvalidScript, match=said.format(line=content.count(b"\n"), byte=len(padding) + 5)):
        check_script(content, "a.py")


def test_a_script_whose_tree_fills_the_memory_is_refused_and_costs_us_nothing() -> None:
    """A megabyte of this takes nine hundred."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidScript, match="takes more than 512 MiB of memory or 5 s; cut data out of it"):
        check_script(b"a;" * (MAX_SCRIPT_BYTES // 2), "a.py")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_script_that_nobody_has_a_turn_for_is_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a server that wait for it are missed by everybody else."""
    monkeypatch.setattr(script_text, "_turns", threading.BoundedSemaphore(1))
    monkeypatch.setattr(script_text, "_TURN_SECONDS", 0.01)
    with script_text._turns, pytest.raises(Busy, match="Try again soon"):
        check_script(LONG, "a.py")
    assert check_script(b"x = 1\n", "a.py"), "a short one needs no turn"
    assert check_script(LONG, "a.py"), "the turn is over"


def test_a_turn_ends_with_a_parser_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_text, "_turns", threading.BoundedSemaphore(1))

    def slow(*_: Any, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 30)

    with monkeypatch.context() as patch:
        patch.setattr("subprocess.run", slow)
        with pytest.raises(Busy, match="no time"):
            check_script(LONG, "a.py")
    assert check_script(LONG, "a.py")


NOTEBOOK = b'{\n "cells": [{"cell_type": "code", "execution_count": null, "source": ["x = 1"]}],\n "nbformat": 4\n}\n'


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_a_notebook_is_refused_with_what_makes_a_script_of_it(before: bytes) -> None:
    """It parses as Python, and would run to "NameError: name 'null'"."""
    with pytest.raises(
        InvalidScript, match=r"is a Jupyter notebook.*`jupyter nbconvert --to script 'mein Übungsblatt.ipynb'`"
    ):
        check_script(before + NOTEBOOK, "mein Übungsblatt.ipynb")


def test_a_notebook_full_of_pictures_is_not_said_to_be_too_large() -> None:
    with pytest.raises(InvalidScript, match="is a Jupyter notebook"):
        check_script(NOTEBOOK.replace(b"x = 1", b"x" * 1000), "a.ipynb", max_bytes=500)


@pytest.mark.parametrize(
    "text", [b'import torch\nname = "{}.ipynb"\nkeys = {"cells": 1, "nbformat": 4}\n', b"{print(1) for _ in [0]}\n"]
)
def test_a_script_about_notebooks_is_none(text: bytes) -> None:
    assert check_script(text, "a.py") == text.decode()


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A Python whose syntax is another than ours: to it ``x = = 1`` is one, and ``x = 1`` none."""
    python = tmp_path / "bin" / "python (newer)"
    python.parent.mkdir()
    program = """
import sys
text, own = sys.stdin.read(), sys.argv[-1]
def compile(source, *_, **__):
    if "= = " not in source:
        raise SyntaxError("to this Python", ("", 7, 0, ""))
exec(own.replace("sys.stdin.buffer.read().decode()", "text"))
"""
    script = tmp_path / "newer.py"
    script.write_text(program)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("padding", ["", LONG.decode().replace("=", "= =")], ids=["short", "long"])
def test_syntax_is_for_the_python_that_runs_the_script_to_judge(newer: Path, padding: str) -> None:
    text = f"{padding}x = = 1\n"
    assert check_script(text.encode(), "a.py", python=newer) == text
    with pytest.raises(InvalidScript, match=r"a\.py is not Python: to this Python \(line 7\)"):
        check_script(b"x = 1\n", "a.py", python=newer)


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/ls", "/bin/true", "/"])
def test_a_python_that_cannot_be_asked_here_says_nothing_of_the_syntax(python: str) -> None:
    """As one that only the machines of the workers have."""
    assert check_script(b"x = = 1\n", "a.py", python=Path(python)) == "x = = 1\n"
    with pytest.raises(InvalidScript, match="is empty"):
        check_script(b" ", "a.py", python=Path(python))
    with pytest.raises(InvalidScript, match="takes more than 512 MiB"):
        check_script(b"a;" * (MAX_SCRIPT_BYTES // 2), "a.py", python=Path(python))

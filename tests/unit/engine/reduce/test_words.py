"""Every pass of a reduction says in plain words what it did."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from minimizer.engine import between, outer, reduce
from minimizer.engine.reduce.words import WORDS, said

TAKE_A_NAME = {"judge", "shrink", "first", "exhaust", "largest", "detour", "_each", "_sweep"}
"""Methods of a problem, and functions over one, that are told which pass they work for."""


def names_of_passes() -> Iterator[str]:
    for package in (reduce, between, outer):
        for path in Path(*package.__path__).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in TAKE_A_NAME:
                    yield from (
                        one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
                    )


def test_every_pass_has_its_words_and_no_other_has() -> None:
    assert set(names_of_passes()) == set(WORDS)


def test_an_unknown_pass_is_told_by_its_name() -> None:
    """A report of another version may have one."""
    assert (said("guess"), said("new pass")) == ("the simplest inputs tried first", "new pass")

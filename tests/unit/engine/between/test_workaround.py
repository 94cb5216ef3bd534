"""Changes of the user's script that may take a fault between graphs away."""

from __future__ import annotations

import ast

from minimizer.engine.between.workaround import disabled_below, moved_out

TEXT = """\
import torch

class C:
    @torch.compile
    def f(self, cache, x):
        cache.move_to_end("a")
        if cache.first == x:
            return x
        y = x
        return y
"""


def test_a_statement_is_moved_out_of_what_is_compiled() -> None:
    pasted = moved_out(TEXT, 6)
    assert pasted is not None
    ast.parse(pasted.text)
    assert "@torch.compiler.disable\ndef in_eager(cache):\n    cache.move_to_end('a')\n" in pasted.text
    assert "\n        in_eager(cache)\n" in pasted.text
    assert pasted.text.index("def in_eager") < pasted.text.index("class C")


def test_what_a_branch_tests_is_moved_out() -> None:
    pasted = moved_out(TEXT, 7)
    assert pasted is not None
    ast.parse(pasted.text)
    assert "return cache.first == x\n" in pasted.text
    assert "        if in_eager(cache, x):\n" in pasted.text


def test_what_changes_names_of_the_function_stays() -> None:
    assert moved_out(TEXT, 9) is None
    assert moved_out(TEXT, 1) is None


def test_a_compiled_function_is_disabled_below_its_decorator() -> None:
    pasted = disabled_below(TEXT, 6)
    assert pasted is not None
    assert "    @torch.compile\n    @torch.compiler.disable\n    def f(" in pasted.text

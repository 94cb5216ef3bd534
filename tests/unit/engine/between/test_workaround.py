"""Changes of the user's script that may take a fault between graphs away."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from test_exact_oracle import CannedRuns, seen

from minimizer.engine.between.answer import Found
from minimizer.engine.between.difference import Difference
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.noise import Noise
from minimizer.engine.between.workaround import (
    entries_left_out,
    find_workaround,
    forgotten_before,
    moved_out,
    not_compiled,
)
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.user_script.bundle import bundle
from minimizer.report.model import Workaround

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


def test_an_item_is_set_and_a_value_is_read_outside_of_what_is_compiled() -> None:
    text = "import torch\n@torch.compile\ndef f(x, key):\n    hits[key] = hits.get(key, 0) + 1\n    rate = layer.rate\n    return x * rate\n"
    item, value, result = (moved_out(text, line) for line in (4, 5, 6))
    assert item is not None and "def in_eager(key):\n    hits[key] = hits.get(key, 0) + 1\n" in item.text
    assert "\n    in_eager(key)\n    rate" in item.text
    assert value is not None and "def in_eager():\n    return layer.rate\n" in value.text
    assert "\n    rate = in_eager()\n" in value.text
    assert result is not None and "\n    return in_eager(rate, x)\n" in result.text
    assert moved_out("def f(x):\n    return g(x)\n", 2) is None


def test_what_else_is_in_the_line_of_what_is_moved_stays() -> None:
    text = (
        "import torch\n@torch.compile\ndef f(x):\n    \N{GREEK SMALL LETTER ALPHA}.add(x); g(x)  # both\n    return x\n"
    )
    pasted = moved_out(text, 4)
    assert pasted is not None
    assert "\n    in_eager(x); g(x)  # both\n    return x\n" in pasted.text


def test_what_changes_names_of_the_function_stays() -> None:
    assert moved_out(TEXT, 9) is None
    assert moved_out(TEXT, 1) is None


def test_a_compiled_function_is_disabled_above_its_decorator_which_undoes_one_below() -> None:
    pasted = not_compiled(TEXT, 6)
    assert pasted is not None
    assert "    @torch.compiler.disable\n    @torch.compile\n    def f(" in pasted.text


def test_stale_code_is_forgotten_before_the_call_that_uses_it() -> None:
    pasted = forgotten_before("import torch\nfor i in (1, 2):\n    f(i)\n", 3)
    assert pasted is not None
    assert pasted.text == "import torch\nfor i in (1, 2):\n    torch._dynamo.reset()\n    f(i)\n"
    assert forgotten_before("if x: f(1)\n", 4) is None


class Runs:
    """Exact runs that see no difference once the text holds some words; Dynamo is then given so many frames."""

    def __init__(self, words: str, frames: int) -> None:
        self._words, self._frames = words, frames

    def agreeing(self, text: str, found: Found) -> ExactLog | None:
        return log_of(self._frames) if self._words in text else None


def log_of(frames: int) -> ExactLog:
    return ExactLog(looks=[Look(event="exit", unit=1, full=True, compiled=frames)])


@pytest.mark.parametrize(("compiled", "agrees"), [(1e-8, True), (0.0, False)])
def test_a_change_helps_where_nothing_differs(compiled: float, *, agrees: bool) -> None:
    logs = [seen("log", 1, x=x) for x in (1e-8, compiled)]
    runs = ExactRuns(cast(Executor, CannedRuns(logs[0], logs[1], None)), Path("script.py"), timeout=60)
    found = Found(
        Difference(logs[0].looks[0], (), None), call=1, until=1, eager=logs[0], compiled=logs[1], noise=Noise()
    )
    assert runs.agreeing("step()", found) == (logs[1] if agrees else None)


def found_with(runs: Runs, script: Path, args: Sequence[str] = (), line: int = 6) -> Workaround:
    whole = bundle(script, args)
    look = SimpleNamespace(line=line, file="")
    found = SimpleNamespace(noise=Noise(), difference=SimpleNamespace(look=look))
    return find_workaround(
        cast(ExactRuns, runs), whole.text, cast(Found, found), "lost_mutation", line, whole, script=script
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "cache.py").write_text(TEXT)
    return tmp_path / "cache.py"


@pytest.mark.parametrize(("args", "line"), [((), 6), (("--size", "3"), 9)])
def test_the_first_change_that_helps_is_told_as_a_diff_of_the_script(
    script: Path, args: Sequence[str], line: int
) -> None:
    workaround = found_with(Runs("in_eager(cache)", 2), script, args, line)
    assert workaround.verified
    assert workaround.diff.startswith("--- a/cache.py\n+++ b/cache.py\n")
    assert "sys.argv" not in workaround.diff
    changed = re.search(r"^@@ -(\d+)", workaround.diff, re.MULTILINE)
    assert changed is not None and changed[1] == "1"
    assert workaround.where.startswith("in line 6, in place of: ")


def test_a_change_of_a_module_beside_the_script_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "cache.py").write_text(TEXT)
    (tmp_path / "train.py").write_text("# A comment.\nimport os\n\nfrom cache import C\n")
    text = bundle(tmp_path / "train.py").text
    (line,) = (number for number, row in enumerate(text.splitlines(), 1) if "cache.move_to_end" in row)
    workaround = found_with(Runs("in_eager(cache)", 2), tmp_path / "train.py", line=line)
    assert workaround.where.startswith("in line 6 of cache.py, in place of: ")
    assert workaround.diff == ""


def test_a_function_that_alone_was_compiled_is_no_way_around_the_compiler(script: Path) -> None:
    workaround = found_with(Runs("    @torch.compiler.disable\n    @torch.compile\n", 0), script)
    assert not workaround.verified and workaround.what.startswith("None but switching the compiler off")


def test_an_entry_is_left_out_where_nothing_inside_of_it_may_run_in_eager() -> None:
    text = """\
import torch

@torch.compile(fullgraph=True)
def f(x):
    return x

def g(x):
    return x

class C:
    pass

fast = torch.compile(g, dynamic=True)
print(torch.compile(C())(fast(f(1))))
"""
    pasted = list(entries_left_out(text))
    assert [one.code for one in pasted] == ["@torch.compiler.disable", "fast = g", "print(C()(fast(f(1))))"]
    assert "@torch.compiler.disable\n@torch.compile(fullgraph=True)\ndef f(x)" in pasted[0].text
    assert pasted[1].text == text.replace("torch.compile(g, dynamic=True)", "g")
    for one in pasted:
        ast.parse(one.text)


def test_an_entry_over_several_lines_stays() -> None:
    assert list(entries_left_out("import torch\nf = torch.compile(\n    abs,\n)\n")) == []

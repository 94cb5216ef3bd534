"""The Python level: edits of a script, and its reduction to the statements that a rule needs."""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.reduce.python import Source, edits, inline, reduce_script
from minimizer.engine.reduce.python.source import number_of
from minimizer.engine.user_script.arguments import with_arguments
from minimizer.engine.user_script.bundle import bundle
from minimizer.errors import BudgetExceeded

SCRIPT = '''
"""A training script."""
import math
import torch
from torch import nn, optim

WIDTH = 64

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)

    def forward(self, x):
        return self.first(x)

def hook(grad):
    return grad * 3.14

def main():
    net = Net(WIDTH)
    for step in range(10):
        x = torch.randn(8, WIDTH)
        if step > 3:
            x = x + 1
        with torch.enable_grad():
            y = net(x)
            y.register_hook(hook)
    print("done", math.pi)

if __name__ == "__main__":
    main()
'''


def hooks(text: str) -> bool:
    """Whether a script registers a hook and ends well, with a stand-in for torch that accepts everything."""
    used: set[str] = set()
    return not _error(text, used) and "register_hook" in used


def _error(text: str, used: set[str] | None = None, names: dict[str, object] | None = None) -> str:
    class Anything:
        def __getattr__(self, name: str) -> Anything:
            if name.startswith("__"):
                raise AttributeError(name)
            if used is not None:
                used.add(name)
            return Anything()

        def __call__(self, *args: object, **kwargs: object) -> Anything:
            return Anything()

        def __enter__(self) -> Anything:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def __add__(self, other: object) -> Anything:
            return self

        def __mro_entries__(self, bases: object) -> tuple[type, ...]:
            return (Anything,)

    import builtins
    import types

    def load(name: str, *args: object) -> object:
        module = types.ModuleType(name)
        module.__getattr__ = lambda name: Anything()  # type: ignore[method-assign]
        return module

    allowed = {**vars(builtins), "__import__": load, "print": lambda *a: None, **(names or {})}
    try:
        exec(compile(text, "script", "exec"), {"__name__": "__main__", "__builtins__": allowed})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def reduced(text: str, rule: Callable[[str], bool], jobs: int = 1) -> str:
    assert rule(Source.parse(text).text)
    return reduce_script(Source.parse(text), check=lambda sources: [rule(s.text) for s in sources], jobs=jobs).best.text


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_a_script_comes_down_to_what_the_failure_needs(jobs: int) -> None:
    text = reduced(SCRIPT, hooks, jobs)
    assert len(text.splitlines()) <= 6
    assert not {"for", "if", "with", "main", "__init__", "super"} & set(re.findall(r"\w+", text))


def test_statements_that_need_each_other_stay_together() -> None:
    script = "\n".join([*(f"a{i} = {i}" for i in range(40)), "total = a7 + a31", "assert total != 38"])

    def fails(text: str) -> bool:
        return _error(text).startswith("AssertionError")

    assert reduced(script, fails) == "assert 7 + 31 != 38\n"


def test_a_script_that_cannot_be_smaller_stays_as_it_is() -> None:
    assert reduced("f()", lambda text: text == "f()\n") == "f()\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("print(f'loss {keep():.4f}')", "keep()\n"),
        ("print(keep() == 1)", "keep()\n"),
        ("n = 0\nfor i in (1, 2):\n    n += keep()", "keep()\n"),
        ("class A:\n\n    @staticmethod\n    def keep(x):\n        return x", "class A:\n\n    @staticmethod\n    def keep(x):\n        pass\n"),
    ],
)  # fmt: skip
def test_what_only_shows_or_counts_a_value_gives_way_to_it(script: str, expected: str) -> None:
    assert reduced(script, lambda text: "keep(" in text and ("class" in text) == ("class" in script)) == expected


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_nothing_single_can_go(seed: int, jobs: int) -> None:
    """Whatever set of names must stay, none of the statements that are left can go."""
    rng = random.Random(seed)
    names = [f"s{i}" for i in range(12)]
    needed = set(rng.sample(names, rng.randint(0, 4)))
    lines: list[str] = []
    for name in names:
        lines += {0: [f"{name}()"], 1: [f"if {rng.random() < 0.5}:", f"    {name}()"], 2: [f"for i in range({rng.randint(0, 9)}):", f"    {name}(i, {rng.randint(0, 99)})"]}[
            rng.randint(0, 2)
        ]  # fmt: skip

    def rule(text: str) -> bool:
        return needed <= {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}

    source = Source.parse(reduced("\n".join(lines), rule, jobs))
    assert len(source.statements) <= max(1, len(needed))
    for statement in source.statements:
        smaller = source.without([number_of(statement)])
        assert smaller is None or not rule(smaller.text) or smaller.key >= source.key


def test_trap_14_the_calls_that_a_later_one_depends_on_are_kept() -> None:
    """A guard that fails, a second iteration: no graph holds the call before it, the script does."""
    script = "import json\nfor size in (8, 8, 8, 9):\n    print(size)\n    step(size)\nstep(8)\n"

    def fails(text: str) -> bool:
        sizes: list[object] = []

        def step(size: object) -> None:
            sizes.append(size)
            assert sizes[0] == size, "compiled for another size"

        return _error(text, names={"step": step}).startswith("AssertionError: compiled for another size")

    text = reduced(script, fails)
    assert fails(text)
    assert "print" not in text
    assert "import" not in text
    assert len(Source.parse(text).statements) == 2  # two calls, or a loop of them


def test_the_best_so_far_survives_a_budget_that_ends() -> None:
    trials = 0

    def check(sources: Sequence[Source]) -> list[bool]:
        nonlocal trials
        trials += len(sources)
        if trials > 3:
            raise BudgetExceeded("over")
        return ["keep" in s.text for s in sources]

    result = reduce_script(Source.parse("a = 1\nb = 2\nc = 3\nd = 4\nkeep()\n"), check=check)
    assert "keep()" in result.best.text
    assert not result.one_minimal
    assert result.best.size < 5


def test_the_time_is_looked_at_where_there_is_nothing_to_wait_for() -> None:
    """The proof at the end asks mostly for what is known by then."""
    asked = 0

    def watch() -> None:
        nonlocal asked
        asked += 1
        if tried:
            raise BudgetExceeded("over")

    tried: list[str] = []

    def check(sources: Sequence[Source]) -> list[bool]:
        tried.extend(source.text for source in sources)
        return [False] * len(sources)

    result = reduce_script(Source.parse("a = 1\nb = 2\nkeep()\n"), check=check, watch=watch)
    assert (asked, len(tried)) == (2, 2), "the two halves"
    assert not result.one_minimal


ANNOTATED = """
from collections import OrderedDict
from typing import Optional

class Config:
    width: int = 3
    depth: int

def f(x: 'Tensor', mask: Optional[OrderedDict]=None, *args: int, scale: float=1.0, **kwargs: str) -> OrderedDict:
    y: Optional[int] = x
    return y
compiled(f, options={'needed': True, 'max_autotune': True, 'shape_padding': {'needed': 1, 'other': 2}})
"""


def test_annotations_go_at_once_and_take_their_imports_with_them() -> None:
    source = Source.parse(ANNOTATED)
    plain = edits.without_annotations(source, edits.annotated(source))
    assert plain is not None
    assert "def f(x, mask=None, *args, scale=1.0, **kwargs):\n    y = x\n" in plain.text
    assert "width = 3\n    depth: int\n" in plain.text, "what has no value goes as a statement"

    rule = re.compile(r"def f\(.*compiled\(f, .*'needed': True", re.DOTALL).search
    assert reduced(ANNOTATED, lambda text: rule(text) is not None) == (
        "def f():\n    pass\ncompiled(f, options={'needed': True})\n"
    )


def test_an_annotation_that_is_needed_stays_alone() -> None:
    text = reduced(ANNOTATED, lambda text: "width: int = 3" in text and "def f" in text)
    assert text == "class Config:\n    width: int = 3\n\ndef f():\n    pass\n"


def test_cases_and_what_is_in_them_can_go() -> None:
    script = "match f(x):\n    case [1, y]:\n        a()\n        b()\n    case {'k': 2}:\n        c()\n    case _:\n        d()\n"
    kept = reduced(script, lambda text: "match" in text and "b()" in text)
    assert kept == "match x:\n    case [1, y]:\n        b()\n"
    assert reduced(script, lambda text: "b()" in text) == "b()\n"


def test_what_can_only_end_in_a_name_error_costs_no_trial() -> None:
    """A definition that is still used stays without a trial; where the script lacks a name of its own, that one does not matter."""
    tried: list[str] = []

    def check(sources: Sequence[Source]) -> list[bool]:
        tried.extend(source.text for source in sources)
        return [False] * len(sources)

    reduce_script(
        Source.parse("import math\n\ndef f(x):\n    y = unknown(x)\n    return math.sin(y)\nf(3)\n"), check=check
    )
    for text in tried:
        try:
            exec(text, {"unknown": abs})
        except NameError as error:
            pytest.fail(f"{error} in {text}")
        except TypeError:  # an argument that is missing shows in a run only
            continue
    assert any("unknown" in text for text in tried)


def test_a_script_without_any_of_these_costs_no_trial_for_them() -> None:
    source = Source.parse("def f(x):\n    return g(x)\nf(1)\n")
    assert edits.annotated(source) == []
    assert reduce_script(source, check=lambda sources: [False] * len(sources)).trials == 7


def test_functions_called_once_move_to_their_call() -> None:
    source = Source.parse("def f(a, b):\n    c = a + b\n    return c * 2\ny = f(1, x)\n")
    assert inline.called_once(source) == ["f"]
    moved = inline.spliced(source, "f")
    assert moved is not None
    assert moved.text == "a = 1\nb = x\nc = a + b\ny = c * 2\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n    return a\ny = f(1) + f(2)\n",  # called twice
        "def f(a):\n    if a:\n        return 1\n    return 2\ny = f(1)\n",  # ends early
        "@g\ndef f(a):\n    return a\ny = f(1)\n",
        "def f(*a):\n    return a\ny = f(1)\n",
        "def f(a):\n    yield a\n    yield a\ny = f(1)\n",
    ],
)
def test_other_functions_stay_where_they_are(text: str) -> None:
    assert inline.called_once(Source.parse(text)) == []


def test_variables_are_written_where_they_are_used() -> None:
    source = Source.parse("x = g()\ny = f(x)\n")
    moved = inline.with_inlined(source, "x")
    assert moved is not None
    assert moved.text == "y = f(g())\n"


@pytest.mark.parametrize(
    ("name", "left"),
    [("a", "b, c = (2, g())\nprint(b, c)\n"), ("b", "a, c = (1, g())\nprint(2, c)\n")],
)
def test_variables_assigned_beside_others_go_alone(name: str, left: str) -> None:
    source = Source.parse("a, b, c = 1, 2, g()\nprint(b, c)\n")
    assert inline.variables(source) == ["a", "b", "c"]
    moved = inline.with_inlined(source, name)
    assert moved is not None
    assert moved.text == left


def test_a_call_that_is_read_twice_keeps_its_name() -> None:
    source = Source.parse("fast, n = torch.compile(f), 2\ny = g()\nfast(n)\nfast(n + y)\n")
    assert inline.variables(source) == ["n", "y"]


def test_values_that_are_unpacked_stay_together() -> None:
    assert inline.variables(Source.parse("a, b = f()\nc, *d = 1, 2\n")) == []


def test_modules_beside_the_script_become_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("from layers import Layer\nclass Net(Layer):\n    pass\n")
    (tmp_path / "layers.py").write_text("import torch\nclass Layer:\n    pass\n")
    (tmp_path / "train.py").write_text("from model import Net\nimport json\nnet = Net()\n")
    assert (
        bundle(tmp_path / "train.py").text
        == "import torch\n\nclass Layer:\n    pass\n\nclass Net(Layer):\n    pass\nimport json\nnet = Net()\n"
    )


def test_a_script_that_imports_nothing_of_its_own_stays_as_written(tmp_path: Path) -> None:
    text = "import torch  # a comment\nprint( torch )\n"
    (tmp_path / "train.py").write_text(text)
    assert bundle(tmp_path / "train.py").text == text


def test_modules_of_a_package_come_by_their_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (package / "layers.py").write_text("from __future__ import annotations\nfrom .sizes import WIDTH\nLAYER = WIDTH\n")
    (package / "sizes.py").write_text("WIDTH = 3\nif __name__ == '__main__':\n    print(WIDTH)\n")

    (tmp_path / "train.py").write_text('"""A script."""\nfrom net.layers import LAYER\nprint(LAYER)\n')
    text = bundle(tmp_path / "train.py").text

    assert text.splitlines()[0] == "from __future__ import annotations"
    names: dict[str, int] = {}
    exec(compile(text, "script.py", "exec"), names)
    assert names["LAYER"] == 3
    assert "__main__" not in text


@pytest.mark.parametrize(
    "head", ["", "import os\n", '"""What\x0cit is."""\n', '"""It."""\nfrom __future__ import annotations\nimport os\n']
)
@pytest.mark.parametrize("first", ["import sys", "@str\ndef f(): ...\nimport sys"])
def test_arguments_become_the_first_statement(head: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["x"])
    text = with_arguments(f"{head}{first}\nseen = sys.argv[1:]\n", ["--width", "it's 3"])

    names: dict[str, object] = {}
    exec(compile(text, "script.py", "exec"), names)
    assert names["seen"] == ["--width", "it's 3"]


def test_a_script_without_arguments_stays_as_written() -> None:
    assert with_arguments("print( 1 )", []) == "print( 1 )"

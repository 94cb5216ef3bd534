"""Single edits of a script: what each leaves."""

from __future__ import annotations

import ast

import pytest

from minimizer.engine.reduce.python import Source, edits
from minimizer.engine.reduce.python.source import number_of


def test_removing_the_last_statement_of_a_block_leaves_a_program() -> None:
    source = Source.parse("def f():\n    g()\n")
    inner = source.level(1)[0]
    smaller = source.without([number_of(inner)])
    assert smaller is not None
    assert smaller.text == "def f():\n    pass\n"


def test_a_loop_gives_way_to_its_first_round() -> None:
    source = Source.parse("for i in range(3):\n    f(i)\n")
    assert edits.unwrapped(source, edits.blocks(source)) is not None
    assert edits.unwrapped(source, edits.blocks(source)).text == "i = 0\nf(i)\n"  # type: ignore[union-attr]


def test_a_try_without_handlers_is_its_body() -> None:
    source = Source.parse("try:\n    f()\nexcept ValueError:\n    g()\n")
    handler = next(n for n in source.nodes() if isinstance(n, ast.ExceptHandler))
    smaller = source.without([number_of(handler)])
    assert smaller is not None
    assert smaller.text == "f()\n"


def test_equal_numbers_shrink_together() -> None:
    source = Source.parse("a = g(64, 64)\nb = h(64.0, 8)\n")
    smaller = edits.with_number(source, 64, 2)
    assert smaller is not None
    assert smaller.text == "a = g(2, 2)\nb = h(64.0, 8)\n"


def test_parameters_go_together_with_what_callers_give() -> None:
    source = Source.parse("class A:\n    def __init__(self, a, b=2):\n        self.a = a\nx = A(1, 3)\n")
    function, position = edits.parameters(source)[1]
    smaller = edits.without_parameter(source, function, position)
    assert smaller is not None
    assert smaller.text == "class A:\n\n    def __init__(self, a):\n        self.a = a\nx = A(1)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("g = torch.compile(f)\ng(1, 2)", "g = torch.compile(f)\ng(1)"),
        ("h = g = torch.compile(f)\nk = h\nk(1, b=2)", "h = g = torch.compile(f)\nk = h\nk(1)"),
        ("torch.compile(f)(1, 2)", "torch.compile(f)(1)"),
        ("self.g = torch.compile(f)\nself.g(1, 2)", "self.g = torch.compile(f)\nself.g(1)"),
        ("y = f(1, 2)\ny(3, 4)", "y = f(1)\ny(3, 4)"),
        ("y = add(f(1, 2), 1)\nh = y.g\nh(7, 8)", "y = add(f(1), 1)\nh = y.g\nh(7, 8)"),
        ("g = compile(model=f)\ng(1, 2)", "g = compile(model=f)\ng(1)"),
    ],
)
def test_parameters_go_from_calls_of_what_a_function_was_made_into(before: str, after: str) -> None:
    source = Source.parse(f"def f(a, b):\n    pass\n{before}\n")
    smaller = edits.without_parameter(source, *edits.parameters(source)[1])
    assert smaller is not None
    assert smaller.text == f"def f(a):\n    pass\n{after}\n"


@pytest.mark.parametrize("made", ["net = Net(1, 2)\nnet(3, {0})", "torch.compile(Net(1, 2))(3, {0})"])
def test_parameters_of_a_module_go_from_calls_of_its_instance(made: str) -> None:
    text = "class Net:\n\n    def forward(self, a{0}):\n        pass\n"
    source = Source.parse(text.format(", b") + made.format("4") + "\n")
    smaller = edits.without_parameter(source, *edits.parameters(source)[1])
    assert smaller is not None
    assert smaller.text == text.format("") + made.replace(", {0}", "") + "\n"


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("a", "def f(b=1, *c, d, e=2, **g):\n    f(4, d=5, g=6)\n"),
        ("b", "def f(a, /, *c, d, e=2, **g):\n    f(3, d=5, g=6)\n"),
        ("c", "def f(a, /, b=1, *, d, e=2, **g):\n    f(3, 4, d=5, g=6)\n"),
        ("d", "def f(a, /, b=1, *c, e=2, **g):\n    f(3, 4, g=6)\n"),
        ("e", "def f(a, /, b=1, *c, d, **g):\n    f(3, 4, d=5, g=6)\n"),
        ("g", "def f(a, /, b=1, *c, d, e=2):\n    f(3, 4, d=5)\n"),
    ],
)
def test_any_parameter_can_go(name: str, left: str) -> None:
    source = Source.parse("def f(a, /, b=1, *c, d, e=2, **g):\n    f(3, 4, d=5, g=6)\n")
    number = next(number_of(n) for n in source.nodes() if isinstance(n, ast.arg) and n.arg == name)
    smaller = next(edits.without_parameter(source, *p) for p in edits.parameters(source) if p[1] == number)
    assert smaller is not None
    assert smaller.text == left


def test_entries_of_nested_dictionaries_go_alone() -> None:
    source = Source.parse("f({'a': {'b': 1, **c}, 'd': 2})\n")
    left = [source.without([number]) for number in edits.items(source)]
    assert [s.text.strip() for s in left if s is not None] == [
        "f()",
        "f({'d': 2})",
        "f({'a': {'b': 1, **c}})",
        "f({'a': {**c}, 'd': 2})",
        "f({'a': {'b': 1}, 'd': 2})",
    ]


def test_a_dictionary_is_found_again_after_an_edit() -> None:
    source = Source.parse("a()\nf({'b': 1})\n")
    number = next(number_of(n) for n in source.nodes() if isinstance(n, ast.Dict))
    smaller = source.without([number_of(source.statements[0])])
    assert smaller is not None
    assert number in {number_of(n) for n in smaller.nodes() if isinstance(n, ast.Dict)}


def test_a_decorator_needs_no_empty_call() -> None:
    source = Source.parse("@torch.compile()\n@g(1)\ndef f():\n    return h()\n")
    plain = edits.uncalled(source, edits.empty_calls(source))
    assert plain is not None
    assert plain.text == "@torch.compile\n@g(1)\ndef f():\n    return h()\n"


def test_what_is_returned_and_unpacked_shrinks_together() -> None:
    source = Source.parse("def f():\n    return (1, 2)\na, b = f()\n")
    smaller = edits.without_position(source, *edits.positions(source)[1])
    assert smaller is not None
    assert smaller.text == "def f():\n    return 1\na = f()\n"


@pytest.mark.parametrize(
    ("written", "shorter"),
    [
        ("lambda f: torch.compile(f)", ["torch.compile"]),
        ("lambda a, b: g(a, b)", ["g"]),
        ("lambda: g()", ["g"]),
        ("lambda a, b: g(b, a)", ["g"]),
        ("lambda a: g(1)", ["g"]),
        ("lambda a: g(a, 1)", []),
        ("lambda a: g(a, key=a)", []),
        ("lambda *a: g(a)", []),
        ("lambda a=1: g(a)", []),
        ("lambda a: a + 1", []),
    ],
)
def test_a_function_that_may_only_pass_on_gives_way_to_what_it_calls(written: str, shorter: list[str]) -> None:
    source = Source.parse(f"y = {written}\n")
    function = next(number_of(n) for n in source.nodes() if isinstance(n, ast.Lambda))
    found = [edits.with_part(source, *site) for site in edits.stand_ins(source) if site[0] == function]
    assert [smaller.text for smaller in found if smaller is not None] == [f"y = {name}\n" for name in shorter]

"""Forms that give way to what they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent
from types import SimpleNamespace

import pytest
from one_pass import reduced

from minimizer.engine.reduce.python import Source, forms, modules, reduce_script


@pytest.mark.parametrize(
    ("text", "needs", "expected"),
    [
        ("f(nn.Sequential(*(Block(n) for n in range(2))))", ["Block"], "f(nn.Sequential(Block(0)))"),
        ("f(*[Block(n) for n in ('a',)])", ["Block"], "f(Block('a'))"),
        ("f({name: p for () in model.parts()})", ["f("], "f({})"),
        ("f({name: p * 2 for name, p in [('a', x)]})", ["x * 2"], "f({'a': x * 2})"),
        ("f([x for x in g() if x])", ["f("], "f([])"),
        ("f({x for x in g()})", ["f("], "f(set())"),
        ("f(tuple((x for x in (y, z))))", ["(y"], "f(tuple((y,)))"),
        ("def g(n):\n    a = [n]\n    for b in a:\n        yield c(b)\nfor x in g(2):\n    f(x)", ["c(b)", "f(x)"],
         "n = 2\na = [n]\nfor b in a:\n    x = c(b)\n    f(x)"),
        ("def g():\n    for b in a:\n        yield b\n    yield c\nfor x in g():\n    f(x)", ["yield"],
         "def g():\n    for b in a:\n        yield b\n    yield c\nfor x in g():\n    f(x)"),
        ("def g():\n    for b in a:\n        yield b\nfor x in g():\n    f(x, g)", ["f(x, g)"],
         "def g():\n    for b in a:\n        yield b\nfor x in g():\n    f(x, g)"),
        ("f([a(x) for x in g()])", ["a(x)"], "f([a(x) for x in g()])"),
        ("f(*(x, y), *[])", ["x, y"], "f(x, y)"),
        ("f([Block()][0], {'a': x, 'b': y}['b'], (z,)[i])", ["Block", "y"], "f(Block(), y, z)"),
        ("f(next(iter((Block(), g()))))", ["Block"], "f(Block())"),
        ("a, b, c = g(x)\nf(b)", ["g(x)"], "b = g(x)[1]\nf(b)"),
        ("a, b = g(x)\nf(a, b)", ["g(x)"], "a, b = g(x)\nf(a, b)"),
        ("a, *b = g(x)\nf(b)", ["g(x)"], "a, *b = g(x)\nf(b)"),
        ("y = torch.func.functional_call(net, params, (x, 2))", ["net"], "y = net(x, 2)"),
        ("y = functional_call(net, {}, x, strict=True)", ["net"], "y = net(x, strict=True)"),
        ("y = functional_call(net, {}, *x)", ["net"], "y = functional_call(net, {}, *x)"),
    ],
)  # fmt: skip
def test_a_form_gives_way_to_what_it_holds(text: str, needs: Sequence[str], expected: str) -> None:
    assert reduced(text, forms.simpler, needs) == expected


def test_fields_of_a_configuration_are_written_where_they_are_read() -> None:
    text = """
        @dataclass
        class Config:
            width: int = 16
            lr: float = -0.1
            steps = 4
        cfg = Config()
        cfg.steps = 5
        f(cfg.width, cfg.width, cfg.lr, cfg.steps)
    """
    left = reduced(text, forms.simpler, ["class Config"])
    assert "steps = 4" in left and "width" not in left and "lr" not in left
    assert left.endswith("f(16, 16, -0.1, cfg.steps)")


def test_what_a_constructor_sets_is_written_where_it_is_read() -> None:
    text = """
        class Net(Module):
            def __init__(self, width):
                super().__init__()
                self.quantize = Round.apply
                self.scale, self.width = 3.0, width
                self.limit = 7
                self.body = Linear(width)
                self.steps = 0
                self.same = width
            def forward(self, x):
                self.steps += 1
                return self.body(self.quantize(x.clamp(self.limit)) + self.steps) * self.same
    """
    left = reduced(text, forms.simpler, ["Round.apply", "7"])
    assert "return self.body(Round.apply(x.clamp(7)) + self.steps) * self.same" in left
    assert "self.quantize" not in left and "self.limit" not in left
    assert "self.steps = 0" in left and "self.same = width" in left and "self.body = Linear(width)" in left


OF_ONE = """
import torch
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, 2)

    def forward(self, x):
        return self.body(x)
net = Net(3)
net.compile(dynamic=True)
y = net(x)
norm(net.body.weight)
"""


def test_what_is_read_of_a_module_that_became_a_function_is_its_layer() -> None:
    plain = modules.without_class(Source.parse(OF_ONE), "Net")
    assert plain is not None
    assert plain.text.endswith(
        "def net(x):\n    return body(x)\nnet = torch.compile(net, dynamic=True)\ny = net(x)\nnorm(body.weight)\n"
    )


def test_modules_in_a_row_become_functions_of_their_own_names() -> None:
    """Two functions called ``forward`` can be inlined nowhere."""
    text = """
        class Round:
            def forward(self, x):
                return x.round()
        class Net:
            def __init__(self):
                self.first = Linear(3)
                self.quantize = Round()
            def forward(self, x):
                return self.quantize(self.first(x))
        net = Net()
        y = net(x)
    """
    source = Source.parse(dedent(text))
    for name in ("Net", "Round"):
        plain = modules.without_class(source, name)
        assert plain is not None
        source = plain
    assert "def quantize(x)" in source.text and "def net(x)" in source.text and "forward" not in source.text


def test_an_attribute_that_is_named_like_a_function_gets_a_name_of_its_own() -> None:
    text = (
        "def undistort(coefficient):\n    return coefficient\n"
        "class Camera:\n    def __init__(self):\n        self.coefficient = 3\n        self.undistort = wrap(undistort)\n"
        "    def fit(self):\n        return self.undistort(self.coefficient)\n"
    )
    for use, expected in (
        ("y = Camera().fit()\n", 6),
        ("camera = Camera()\ny = camera.fit() + camera.coefficient\n", 9),
    ):
        plain = modules.without_class(Source.parse(text + use), "Camera")
        assert plain is not None and "class" not in plain.text
        names: dict[str, object] = {"wrap": lambda function: lambda x: 2 * function(x)}
        exec(plain.text, names)
        assert names["y"] == expected


class Module:
    """A stand-in for ``nn.Module``."""

    def __call__(self, *args: object) -> object:
        return self.forward(*args)  # type: ignore[attr-defined]


class Sequential(Module):
    def __init__(self, *layers: Callable[[object], object]) -> None:
        self.layers = layers

    def forward(self, x: object) -> object:
        for layer in self.layers:
            x = layer(x)
        return x


class Fault(Exception):
    """What a compiled function raises that calls ``faulty``."""


def fails(source: Source) -> bool:
    """Whether a script ends well without a stand-in for the compiler, and with the fault under it."""
    return _end(source, is_on=False) is None and isinstance(_end(source, is_on=True), Fault)


def _end(source: Source, *, is_on: bool) -> Exception | None:
    running: list[object] = []

    def compiled(function: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object) -> object:
            running.append(function)
            try:
                return function(*args)
            finally:
                running.pop()

        return run

    def faulty(x: object) -> object:
        if running and is_on:
            raise Fault
        return x

    torch = SimpleNamespace(compile=compiled, ones=lambda n: [1] * n)
    names = {"torch": torch, "nn": SimpleNamespace(Module=Module, Sequential=Sequential), "faulty": faulty}
    try:
        exec(compile(source.text, "script", "exec"), {"__name__": "script", **names})
    except Exception as error:
        return error
    return None


def test_a_script_of_such_forms_comes_down_to_its_call() -> None:
    text = """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return faulty(x * self.width)

class Model(nn.Module):
    def __init__(self, width, depth=3):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(x)
model = torch.compile(Model(4))
for step in range(3):
    unused, y = model(torch.ones(4)), 3
"""
    left = reduce_script(Source.parse(text), check=lambda sources: [*map(fails, sources)]).best.text
    assert left == "torch.compile(faulty)(1)\n"

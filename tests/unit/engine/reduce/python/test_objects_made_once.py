"""An object that is made once becomes its attributes and functions."""

from __future__ import annotations

import pytest

from minimizer.engine.reduce.python import Source, inline, modules

MODULE = """
class Net(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.body = nn.Linear(width, 2, bias)
        self.register_buffer('scale', torch.ones(2))

    def forward(self, x, y=None):
        return self.body(x) * self.scale
net = torch.compile(Net(3))
net(x)
"""
FUNCTION = """width = 3
bias = True
body = nn.Linear(width, 2, bias)
scale = torch.ones(2)

def forward(x, y=None):
    return body(x) * scale
net = torch.compile(forward)
net(x)
"""


def test_a_module_that_is_made_once_becomes_its_layers_and_a_function() -> None:
    source = Source.parse(MODULE)
    assert modules.made_once(source) == ["Net"]
    plain = modules.without_class(source, "Net")
    assert plain is not None
    assert plain.text == FUNCTION
    assert plain.key < source.key


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.scale\n", "self.training\n"),  # no constructor of ours sets it
        ("return self", "return other(self) or self"),
        ("Net(3)", "Net()"),
        ("Net(3)", "Net(wide=3)"),
        ("Net(3)", "Net(*widths)"),
        ("def forward", "def step"),  # what is called is not there
    ],
)
def test_a_module_that_is_more_than_that_stays(old: str, new: str) -> None:
    assert old in MODULE
    assert modules.without_class(Source.parse(MODULE.replace(old, new)), "Net") is None


@pytest.mark.parametrize(
    "text",
    [
        MODULE + "Net(4)\n",
        MODULE.replace("def forward", "@property\n    def size(self): pass\n    def forward"),
        "class A:\n    pass\nA()\n",
    ],
)
def test_classes_that_are_no_such_module_are_left_out(text: str) -> None:
    assert modules.made_once(Source.parse(text)) == []


CAMERA = """\
class Camera:

    def __init__(self, scale):
        self.scale = scale

    def fit(self, x):
        return x * self.scale
"""


@pytest.mark.parametrize(
    ("uses", "plain"),
    [
        ("Camera(2).fit(3)", "fit(3)"),
        ("camera = Camera(2)\ncamera.fit(3)\nprint(camera.scale)", "fit(3)\nprint(scale)"),
        ("fitted = Camera(2).fit\nfitted(3)", "fitted = fit\nfitted(3)"),
    ],
)
def test_an_object_of_one_method_becomes_a_function(uses: str, plain: str) -> None:
    source = Source.parse(f"{CAMERA}{uses}\n")
    assert modules.made_once(source) == ["Camera"]
    changed = modules.without_class(source, "Camera")
    assert changed is not None
    expected = f"scale = 2\n\ndef fit(x):\n    return x * scale\n{plain}\n"
    assert changed.text == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x * self.scale", "return self"),
        ("Camera(2).fit(3)", "Camera(2)"),
        ("Camera(2).fit(3)", "for camera in [Camera(2)]:\n    camera.fit(3)"),
    ],
)
def test_an_object_that_is_more_than_its_method_stays(old: str, new: str) -> None:
    text = f"{CAMERA}Camera(2).fit(3)\n"
    assert old in text
    assert modules.without_class(Source.parse(text.replace(old, new)), "Camera") is None


@pytest.mark.parametrize(
    ("made", "function"),
    [
        ("Net(width=3)", "bias = True\nwidth = 3"),
        ("Net(3, bias=False)", "width = 3\nbias = False"),
    ],
)
def test_arguments_of_a_constructor_may_be_named(made: str, function: str) -> None:
    plain = modules.without_class(Source.parse(MODULE.replace("Net(3)", made)), "Net")
    assert plain is not None
    assert set(function.splitlines()) <= set(plain.text.splitlines())


def test_an_attribute_gives_way_to_a_parameter_of_its_name() -> None:
    plain = modules.without_class(Source.parse(MODULE.replace("(self, x, y=None)", "(self, x, body=None)")), "Net")
    assert plain is not None
    assert "body_ = nn.Linear(width, 2, bias)" in plain.text
    assert "return body_(x) * scale" in plain.text


def test_a_function_never_takes_the_name_of_another() -> None:
    text = f"{CAMERA}def fit(x):\n    return Camera(2).fit(x)\nfit(3)\n"
    changed = modules.without_class(Source.parse(text), "Camera")
    assert changed is not None
    assert "def camera(x):" in changed.text


CHAIN = """\
class Chain:
    most = 3

    def __init__(self, length):
        self.state = zeros(length)
        self.move = compile(self._move)

    @staticmethod
    def _move(state):
        state[1:].add_(state[:1])

    def step(self):
        self.move(self.state)
        self.steps = self.most

    def __call__(self):
        self.step()
"""
PLAIN = """\
def _move(state):
    state[1:].add_(state[:1])

def step():
    global steps
    move(state)
    steps = most

def {name}():
    step()
most = 3
length = 2
state = zeros(length)
move = compile(_move)
"""


@pytest.mark.parametrize(
    ("uses", "name", "plain"),
    [
        ("Chain(2).step()", "call_", "step()"),
        ("chain = Chain(2)\nchain()\nprint(chain.steps)", "chain", "chain()\nprint(steps)"),
    ],
)
def test_an_object_of_several_methods_becomes_functions(uses: str, name: str, plain: str) -> None:
    """A static method is a function already, and what a method assigns is global."""
    changed = modules.without_class(Source.parse(f"{CHAIN}{uses}\n"), "Chain")
    assert changed is not None
    assert changed.text == f"{PLAIN.format(name=name)}{plain}\n"


def test_an_object_whose_methods_assign_stays_inside_of_a_function() -> None:
    assert modules.without_class(Source.parse(f"{CHAIN}def main():\n    Chain(2).step()\nmain()\n"), "Chain") is None


def test_an_object_without_methods_becomes_its_attributes() -> None:
    text = "class Ring:\n\n    def __init__(self, size):\n        self.head = zeros(size)\nprint(Ring(2).head)\n"
    changed = modules.without_class(Source.parse(text), "Ring")
    assert changed is not None
    assert changed.text == "size = 2\nhead = zeros(size)\nprint(head)\n"


def test_names_that_had_to_give_way_come_back_when_they_are_free() -> None:
    source = Source.parse("def step_(x_):\n    global last_\n    last_ = x_\nx = last = 1\nstep_(x)\n")
    found = [candidate.text for candidate in modules.with_plain_names(source) if candidate is not None]
    assert found == ["def step(x_):\n    global last_\n    last_ = x_\nx = last = 1\nstep(x)\n"]


@pytest.mark.parametrize(
    "text",
    [
        "def __step__(): pass\n__step__()\n",
        "lambda_ = print_ = 1\nuse(lambda_, print_)\n",  # a keyword, and a builtin
        "x_ = x = 1\nuse(x_, x)\n",
        "class A:\n    def next_(self): pass\nA().next_()\n",
    ],
)
def test_names_of_another_sort_stay(text: str) -> None:
    assert not any(modules.with_plain_names(Source.parse(text)))


def test_an_object_is_called_by_the_method_that_wins() -> None:
    text = "class N:\n    def forward(self, x):\n        return x\n    def __call__(self, x):\n        return self.forward(2 * x)\nn = N()\nn(3)\n"
    changed = modules.without_class(Source.parse(text), "N")
    assert changed is not None
    assert changed.text == "def forward(x):\n    return x\n\ndef n(x):\n    return forward(2 * x)\nn(3)\n"


def test_methods_that_would_share_a_name_stay() -> None:
    text = "class A:\n    def _step(self): pass\n    def step(self): pass\nstep = _step = 1\nA().step()\nuse(step, _step)\n"
    assert modules.without_class(Source.parse(text), "A") is None


def test_a_parameter_of_a_constructor_leaves_the_variable_of_its_name_alone() -> None:
    text = "class A:\n    def __init__(self, x):\n        self.head = x + 1\nx = 5\nuse(A(3).head, x)\n"
    changed = modules.without_class(Source.parse(text), "A")
    assert changed is not None
    assert changed.text == "x = 5\nx_ = 3\nhead = x_ + 1\nuse(head, x)\n"


def test_an_object_that_a_nested_function_changes_stays() -> None:
    text = "class A:\n    def step(self):\n        def inner():\n            self.n = 1\n        inner()\nA().step()\n"
    assert modules.without_class(Source.parse(text), "A") is None


def test_a_function_that_only_declares_names_can_be_spliced() -> None:
    source = Source.parse("def f():\n    global x\nx = 1\nf()\nuse(x)\n")
    changed = inline.spliced(source, "f")
    assert changed is not None
    assert "def" not in changed.text

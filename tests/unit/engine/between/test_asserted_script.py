"""The script of a repro: what it defines, what it does, and the assertion behind both."""

from __future__ import annotations

import re

import pytest

from minimizer.engine.between.assertion import Claim
from minimizer.engine.between.showing import asserted, raising, ways_to_show

CLAIM = Claim("out", "9", "3")


def test_functions_stand_before_what_is_done() -> None:
    text = "import torch\nf = torch.compile(abs)\nf(1)\ndef g(x):\n    return x\nout = f(g)\n"
    written = asserted(text, CLAIM)
    assert written.index("def g") < written.index("try:") < written.index("f(1)")


def test_a_function_that_takes_a_name_from_another_keeps_its_place() -> None:
    text = "f = g(lambda x: len(x))\nout = f([1])\ndef len(x):\n    return 9\nout = f([1])\n"
    written = asserted(text, CLAIM)
    assert written.index("out = f([1])") < written.index("def len") < written.rindex("out = f([1])")


def test_the_second_function_of_a_name_keeps_its_place() -> None:
    text = "def f(x):\n    return 1\nout = 0\ndef f(x):\n    return 2\nout = f(1)\n"
    written = asserted(text, CLAIM)
    assert written.index("return 1") < written.index("out = 0") < written.index("return 2")


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("f(x)\n", ["out = f(x)\n"]),
        ("[1 for v in f(x)]\n", ["out = f(x)\n"]),
        ("print(f(x))\n", ["out = f(x)\n"]),
        ("for v in f(x):\n    pass\n", ["out = f(x)\n"]),
        ("for i in (1, 2):\n    f(i)\n", ["for i in (1, 2):\n    out = f(i)\n"]),
        ("y = f(x)\n", []),
        ("def f(x):\n    g(x)\nf(1)\n", ["def f(x):\n    return g(x)\nout = f(1)\n"]),
        ("def f(x):\n    yield\n    g(x)\nf(1)\n", ["def f(x):\n    yield\n    g(x)\nout = f(1)\n"]),
    ],
)
def test_what_a_last_call_returns_is_given_a_name(text: str, ways: list[str]) -> None:
    """And in the end a list of that: what the threads of a pool return comes as an iterator."""
    of_items = [re.sub(r"out = (.*)", r"out = list(\1)", way) for way in ways]
    shown = [way for way in ways_to_show(text) if "outs" not in way]
    assert shown == [*ways, text, *of_items]


THREAD = """\
import queue, threading
def work(item):
    value = f(item)
    print(value)
    with lock:
        g(item).h()
threading.Thread(target=work, args=(1,)).start()
"""


def test_what_no_statement_of_the_script_reaches_goes_to_a_list() -> None:
    shown = [way for way in ways_to_show(THREAD) if "outs = []" in way]
    assert ["outs.append(g(item).h())" in way for way in shown] == [True, False]
    assert "value = f(item)\n    outs.append(value)" in shown[1]
    assert all(way.startswith("import queue, threading\nouts = []\n") for way in shown)
    assert not any("outs = []" in way for way in ways_to_show(f"{THREAD}outs = 3\n"))


CALLS = [
    pytest.param("f(x)\n", id="a call"),
    pytest.param("for x in (1, 2):\n    f(x)\n", id="a loop"),
    pytest.param("y = f(x)\n", id="an assignment"),
    pytest.param("try:\n    f(x)\nexcept LookupError:\n    print(x)\n", id="a try of the script's own"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("raised", "status"), [(None, None), (IndexError("5"), "expected no error, actual IndexError"), (OSError(), 125)]
)
def test_what_only_compiled_code_raises_ends_the_script(call: str, raised: Exception | None, status: object) -> None:
    """Also where no handler of the script catches it; what else is raised means that the script cannot run here."""

    def f(x: int) -> int:
        if raised is not None:
            raise raised
        return x

    text = raising(f"x = 1\n{call}", "", "IndexError")
    assert text is not None
    if raised is None:
        exec(text, {"f": f})
        return
    with pytest.raises(SystemExit) as ended:
        exec(text, {"f": f})
    assert ended.value.code == status


def test_what_only_eager_raises_needs_a_handler_of_the_script() -> None:
    assert raising("f(1)\n", "IndexError", "") is None

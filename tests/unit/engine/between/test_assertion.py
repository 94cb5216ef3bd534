"""What differs, as an assertion that holds without the compiler."""

from __future__ import annotations

import ast

import pytest

from minimizer.engine.between.assertion import Claim, claims, draw_from, python_path
from minimizer.engine.between.difference import Change
from minimizer.engine.between.public import named_entries, with_backend, with_fullgraph
from minimizer.engine.child.exact_log import Entry


def first(path: str, eager: Entry, compiled: Entry) -> str:
    return next(claims((Change(path, eager, compiled),))).test


def of(type_: str, **fields: str) -> Entry:
    return {"type": type_, **fields}


@pytest.mark.parametrize(
    ("path", "eager", "compiled", "test"),
    [
        ("k.n", of("int", value="2"), of("int", value="1"), "k.n == 2"),
        ("log", of("list", length="1", items="[1]"), of("list", length="0", items="[]"), "len(log) == 1"),
        ("od", of("OrderedDict", keys="['b', 'a']"), of("OrderedDict", keys="['a', 'b']"), "list(od) == ['b', 'a']"),
        (
            "od",
            of("OrderedDict", keys="['b', 'a']", items="{'b': 1, 'a': 2}"),
            of("OrderedDict", keys="['a', 'b']", items="{'a': 2, 'b': 1}"),
            "list(od) == ['b', 'a']",
        ),
        ("m.now", {"alias": "m.slow"}, {"alias": "m.fast"}, "(m.now is m.slow)"),
        ("m.now", {"alias": "m.slow"}, of("Slot"), "(m.now is m.slow)"),
        ("m.now", of("Slot"), {"alias": "m.slow"}, "not (m.now is m.slow)"),
        ("d", of("deque", items="[1, 2]"), of("deque", items="[1]"), "list(d) == [1, 2]"),
        ("out", of("Tensor", values="[2.0]"), of("Tensor", values="[3.0]"), "out.item() == 2.0"),
        ("out", of("Tensor", values="[2.0]"), of("Tensor", values="[inf]"), "out.item() == 2.0"),
        ("out", of("Tensor", values="[2.0, 1.0]"), of("Tensor", values="[nan, 1.0]"), "out.tolist() == [2.0, 1.0]"),
        ("out", of("Tensor", values="3.0"), of("Tensor", values="4.0"), "out.item() == 3.0"),
        ("x.grad", of("Tensor", values="[2.0, 1.0]"), of("Tensor", values="[3.0, 1.0]"), "x.grad.tolist() == [2.0, 1.0]"),
        (
            "out",
            of("Tensor", values=str([[0.125] * 8, [0.2345678901234567] * 8])),
            of("Tensor", values=str([[0.125] * 8, [0.2345678901234567, 1.5] * 4])),
            "out[1, 1].item() == 0.2345678901234567",
        ),
        (
            "out",
            of("Tensor", values="#1", norm="2.09791534"),
            of("Tensor", values="#2", norm="2.10852958"),
            "round(out.double().norm().item(), 3) == 2.098",
        ),
        ("out", of("Tensor", dtype="torch.int64"), of("Tensor", dtype="torch.float32"), "out.dtype == torch.int64"),
        ("out", of("Tensor", layout="torch.sparse_csr"), of("Tensor", layout="torch.sparse_coo"), "out.layout == torch.sparse_csr"),
        ("out", of("Tensor", device="meta"), of("Tensor", device="cpu"), "str(out.device) == 'meta'"),
        ("torch.is_grad_enabled()", of("process", value="True"), of("process", value="False"), "torch.is_grad_enabled()"),
        ("box.n", {}, of("int", value="1"), "not hasattr(box, 'n')"),
        ("f.__wrapped__.calls", of("int", value="2"), of("int", value="1"), "f.calls == 2"),
    ],
)  # fmt: skip
def test_a_claim_reads_as_a_person_would_write_it(path: str, eager: Entry, compiled: Entry, test: str) -> None:
    assert first(path, eager, compiled) == test


def test_an_assertion_says_what_is_there() -> None:
    statement = Claim("list(od)", "['b']", "['a']").statement
    with pytest.raises(AssertionError, match=r"expected \['b'\], actual \['a'\]"):
        exec(compile(ast.parse(statement), "repro", "exec"), {"od": {"a": 1}})


@pytest.mark.parametrize("path", ["result", "args[0]", "f.<closure>.n", "main.<locals>.log", "raised"])
def test_what_the_end_of_a_script_cannot_reach_is_not_claimed(path: str) -> None:
    assert python_path(path) is None


def test_hashes_and_equal_texts_are_not_claimed() -> None:
    hashed = Change("x", of("Tensor", values="#ab"), of("Tensor", values="#cd"))
    assert list(claims((hashed,))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nf = torch.compile(g)", "torch.compile(g, backend='eager')"),
        ("import torch\nf = torch.compile(g, mode='max-autotune', fullgraph=True)", "torch.compile(g, fullgraph=True, backend='eager')"),
        ("import torch\n@torch.compile\ndef f(x): pass", "@torch.compile(backend='eager')"),
        ("import torch\n@torch.compile(dynamic=True)\ndef f(x): pass", "@torch.compile(dynamic=True, backend='eager')"),
        ("import torch\nmodel.compile()", "model.compile(backend='eager')"),
        ("import re\nre.compile('a')", "re.compile('a')"),
    ],
)  # fmt: skip
def test_every_entry_gets_the_eager_backend(text: str, expected: str) -> None:
    assert expected in with_backend(text, "eager")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nf = torch.compile(g, fullgraph=False, dynamic=True)", "torch.compile(g, dynamic=True, fullgraph=True)"),
        ("import torch\n@torch.compile\ndef f(x): pass", "@torch.compile(fullgraph=True)"),
        ("import torch\nmodel.compile()", "model.compile(fullgraph=True)"),
        ("import re\nre.compile('a')", "re.compile('a')"),
    ],
)  # fmt: skip
def test_every_entry_allows_one_graph_only(text: str, expected: str) -> None:
    assert expected in with_fullgraph(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nfor i in (1, 2):\n    torch.compile(g)(i)", "import torch\nf = torch.compile(g)\nfor i in (1, 2):\n    f(i)\n"),
        ("import torch\ny = torch.compile(g)(1)", "import torch\ny = torch.compile(g)(1)\n"),
        (
            f"import torch\nf = 1\ny = torch.compile(lambda x: {'x + ' * 20}x)(torch.ones(1))",
            f"import torch\nf = 1\ncompiled = torch.compile(lambda x: {'x + ' * 20}x)\ny = compiled(torch.ones(1))\n",
        ),
    ],
)  # fmt: skip
def test_what_is_compiled_has_a_name_where_it_is_called_often_or_in_a_long_line(text: str, expected: str) -> None:
    assert named_entries(text) == expected


@pytest.mark.parametrize(
    ("change", "draw"),
    [
        (Change("net.rng", of("Random", state="a"), of("Random", state="b")), "net.rng.random()"),
        (Change("g", of("Generator", state="a"), of("Generator", state="b")), "torch.rand(1, generator=g).item()"),
        (Change("log", of("list", items="[1]"), of("list", items="[]")), ""),
        (Change("args[0]", of("Random", state="a"), of("Random", state="b")), ""),
    ],
)
def test_a_state_is_told_by_what_is_drawn_next(change: Change, draw: str) -> None:
    assert draw_from(change) == draw


@pytest.mark.parametrize(("eager", "compiled"), [("5.12345678", "9.87654321"), ("2.43783264", "2.16794465")])
def test_a_norm_of_drawn_numbers_is_compared_with_all_digits(eager: str, compiled: str) -> None:
    """The digits that tell one draw's sides apart may make those of another one equal: 2.44 and 2.17 are both 2."""
    change = Change("out", of("Tensor", values="#1", norm=eager), of("Tensor", values="#2", norm=compiled))
    (claim,) = claims((change,))
    assert claim.expression.startswith("round(") and claim.compared == "out.double().norm().item()"


def test_what_is_not_rounded_is_compared_as_it_is_asserted() -> None:
    (claim,) = claims((Change("n", of("int", value="1"), of("int", value="2")),))
    assert claim.compared == claim.expression == "n"

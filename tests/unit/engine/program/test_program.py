"""Programs: their JSON form, their canonical names and fingerprint, and what dead code is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.program.arguments import Code, Ref, decode, dotted, encode, identifier, map_leaves, refs_in
from minimizer.engine.program.model import Input, Node, Program, TensorMeta

META = TensorMeta((2, 3), "torch.float32", (3, 1))
KEYS = st.text(max_size=5) | st.integers(-3, 300) | st.tuples(st.integers(), st.text(max_size=3))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from([Ref("x"), Ref("y_1"), Code("torch.float32"), Code("...")])
)
ARGS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=12,
)


def program() -> Program:
    """``a = x + y; b = relu(a); c = b.view(-1, a-shaped slice); return b, c``"""
    return Program(
        inputs=(Input("x", META, golden="x"), Input("y", META, code="torch.ones(2, 3)")),
        nodes=(
            Node("a", "operator.add", (Ref("x"), Ref("y")), meta=META, module="layer", source=("s.py", 3, "x + y")),
            Node("b", "torch.relu", (Ref("a"),), (("inplace", True),), meta=META),
            Node("c", "operator.getitem", (Ref("b"), (slice(None, Ref("a")), [Ref("x")])), meta=META),
        ),
        outputs=("b", "c"),
        setup=("import os",),
        compile_kwargs=(("dynamic", "True"),),
    )


@given(ARGS)
def test_an_argument_survives_the_pipe(arg: Any) -> None:
    assert repr(decode(json.loads(json.dumps(encode(arg))))) == repr(arg)


@pytest.mark.parametrize(
    "data",
    [
        {"ref": "not a name"},
        {"ref": 3},
        {"ref": "import"},
        {"code": 3},
        {"tuple": 3},
        {"tuple": None},
        {"slice": [1, 2, 3, 4]},
        {"slice": []},
        {"dict": [1]},
        {"dict": [["a"]]},
        {"dict": [[[1], 2]]},
        {"dict": [[{"tuple": [[1]]}, 2]]},
        {"unknown": 1},
        {"ref": "x", "code": "y"},
        {},
        b"bytes",
        [{"ref": None}],
    ],
)
def test_what_encode_never_makes_is_refused(data: Any) -> None:
    with pytest.raises(ValueError):
        decode(data)


@pytest.mark.parametrize(
    "name", ["", "1x", "a b", "a.b", "x;y", "x\n", "lambda", "None", "__import__('os')", "x" * 201, 7, None]
)
def test_no_identifier(name: Any) -> None:
    with pytest.raises(ValueError, match="not a name"):
        identifier(name)


@pytest.mark.parametrize(
    "path", ["", ".", "torch..relu", "torch.relu()", "torch.import", "..x", "a.b ", 3, None, ["torch"]]
)
def test_no_dotted_name(path: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        dotted(path)


@pytest.mark.parametrize("path", ["torch.relu", ".view", "operator.add", "torch.ops.aten.add.Tensor", "getattr"])
def test_dotted_names(path: str) -> None:
    assert dotted(path) == path


def test_references_are_found_at_any_depth() -> None:
    assert list(program().node("c").refs()) == ["b", "a", "x"]
    assert list(refs_in({"k": (Ref("p"), [slice(Ref("q"), None, Ref("r"))])})) == ["p", "q", "r"]


def test_leaves_are_mapped_and_containers_kept() -> None:
    arg = (1, [Ref("x")], {"k": slice(1, Ref("x"))})
    assert map_leaves(arg, lambda leaf: Ref("z") if isinstance(leaf, Ref) else leaf) == (
        1,
        [Ref("z")],
        {"k": slice(1, Ref("z"))},
    )


def renamed_by(base: Program, prefix: str) -> Program:
    """The same program with every name changed, and nodes of other origins."""
    change = lambda leaf: Ref(prefix + leaf.name) if isinstance(leaf, Ref) else leaf  # noqa: E731
    return replace(
        base,
        inputs=tuple(replace(i, name=prefix + i.name) for i in base.inputs),
        nodes=tuple(replace(n.mapped(change), name=prefix + n.name, module="other", source=None) for n in base.nodes),
        outputs=tuple(prefix + o for o in base.outputs),
        name="g",
    )


def test_the_fingerprint_is_blind_to_names_and_origins() -> None:
    assert renamed_by(program(), "other_").fingerprint() == program().fingerprint()


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": ("c", "b")},
        {"outputs": ("b",)},
        {"setup": ()},
        {"grad": True},
        {"compile_kwargs": ()},
        {"inputs": (Input("x", replace(META, shape=(2, 4)), golden="x"), program().inputs[1])},
        {"inputs": (Input("x", replace(META, dtype="torch.float16"), golden="x"), program().inputs[1])},
        {"inputs": (Input("x", replace(META, stride=(1, 2)), golden="x"), program().inputs[1])},
        {"inputs": (Input("x", replace(META, requires_grad=True), golden="x"), program().inputs[1])},
        {"inputs": (Input("x", META, golden="z"), program().inputs[1])},
        {"nodes": (replace(program().nodes[0], target="operator.sub"), *program().nodes[1:])},
        {"nodes": (replace(program().nodes[0], args=(Ref("y"), Ref("x"))), *program().nodes[1:])},
        {"nodes": (program().nodes[0], replace(program().nodes[1], kwargs=()), program().nodes[2])},
    ],
)
def test_the_fingerprint_sees_whatever_changes_the_trial(changes: dict[str, Any]) -> None:
    assert replace(program(), **changes).fingerprint() != program().fingerprint()


def test_the_fingerprint_tells_one_from_true_and_a_tuple_from_a_list() -> None:
    variants = [1, True, 1.0, "1", [1], (1,), Ref("x"), Code("x"), "x", None, float("nan"), float("inf")]
    base = program()
    prints = {replace(base, nodes=(Node("n", "torch.f", (v,)),), outputs=("n",)).fingerprint() for v in variants}
    assert len(prints) == len(variants)


def test_a_fingerprint_without_values_is_that_of_equal_blocks() -> None:
    base = program()
    other = replace(
        base, inputs=(replace(base.inputs[0], golden="elsewhere"), replace(base.inputs[1], code="torch.zeros(2, 3)"))
    )
    assert other.fingerprint() != base.fingerprint()
    assert other.fingerprint(values=False) == base.fingerprint(values=False)


def test_canonical_names_reach_every_reference() -> None:
    renamed = program().renamed()
    assert [i.name for i in renamed.inputs] == ["x0", "x1"]
    assert [n.name for n in renamed.nodes] == ["v0", "v1", "v2"]
    assert renamed.outputs == ("v1", "v2")
    assert renamed.nodes[2].args == (Ref("v1"), (slice(None, Ref("v0")), [Ref("x0")]))
    assert [i.golden for i in renamed.inputs] == ["x", None]
    assert renamed.renamed() == renamed


def test_canonical_names_do_not_collide_with_old_ones() -> None:
    """``x0`` was a node, and a node's name was that of an input."""
    swapped = Program(
        inputs=(Input("v0", META, golden="v0"),),
        nodes=(Node("x0", "torch.sin", (Ref("v0"),)), Node("v1", "torch.cos", (Ref("x0"),))),
        outputs=("v1",),
    ).renamed()
    assert [list(n.refs()) for n in swapped.nodes] == [["x0"], ["v0"]]


def test_dead_nodes_and_inputs_are_dropped() -> None:
    left = replace(program(), outputs=("a",)).without_dead_code()
    assert [n.name for n in left.nodes] == ["a"]
    assert [i.name for i in left.inputs] == ["x", "y"]
    nodes = (Node("unused", "torch.sin", (Ref("y"),)), Node("used", "torch.cos", (Ref("x"),)))
    left = replace(program(), nodes=nodes, outputs=("used",)).without_dead_code()
    assert ([n.name for n in left.nodes], [i.name for i in left.inputs]) == (["used"], ["x"])


def test_impure_nodes_and_all_they_need_stay() -> None:
    nodes = (
        Node("copy", "torch.clone", (Ref("y"),)),
        Node("written", ".mul_", (Ref("copy"), 2)),
        Node("used", "torch.cos", (Ref("x"),)),
    )
    left = replace(program(), nodes=nodes, outputs=("used",)).without_dead_code(lambda n: not n.target.endswith("_"))
    assert [n.name for n in left.nodes] == ["copy", "written", "used"]
    assert [i.name for i in left.inputs] == ["x", "y"]


def test_without_grad() -> None:
    base = replace(
        program(),
        grad=True,
        inputs=(Input("x", replace(META, requires_grad=True), golden="x"), Input("n", None, code="3")),
    )
    plain = base.without_grad()
    assert not plain.grad
    assert [i.meta and i.meta.requires_grad for i in plain.inputs] == [False, None]


def test_getitem_is_no_call_node() -> None:
    assert program().size == 2


def test_metas_know_every_value() -> None:
    assert set(program().metas) == {"x", "y", "a", "b", "c"}

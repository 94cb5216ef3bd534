"""Inputs that are views of other inputs: their text, their layout, and what becomes of them without their base."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.program import regions, views
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta, View, as_json, contiguous
from minimizer.engine.reduce.graph import cut
from minimizer.errors import ChildFailed

SHAPE = (4, 5, 6)


def step(target: str, *args: Any) -> Node:
    return Node("", target, args)


def item(index: Any) -> Node:
    return step("operator.getitem", index)


def tensor(*shape: int, stride: tuple[int, ...] | None = None) -> TensorMeta:
    return TensorMeta(shape, "torch.float32", contiguous(shape) if stride is None else stride)


def windowed(*steps: Node, base: TensorMeta | None = None) -> Program:
    """``x.mul_(2)``, then what is read of a view of ``x``, which comes before ``x`` among the inputs."""
    base = base or tensor(8, 3)
    made = views.laid_out(base, steps or (item(slice(2, None)),))
    assert made is not None
    view = View("x", steps or (item(slice(2, None)),))
    return Program(
        inputs=(Input("y", tensor(*made[0], stride=made[1]), golden="y", view=view), Input("x", base, golden="x")),
        nodes=(
            Node("a", ".mul_", (Ref("x"), 2), meta=base),
            Node("b", "operator.getitem", (Ref("y"), slice(0, 2)), meta=tensor(2, 3)),
        ),
        outputs=("b",),
    )


@pytest.mark.parametrize(
    ("steps", "text", "layout"),
    [
        ([item(slice(1, None))], "x[1:]", ((3, 5, 6), (30, 6, 1))),
        ([item((slice(None), 2, slice(None, None, 4)))], "x[:, 2, ::4]", ((4, 2), (30, 4))),
        ([item(3), step(".t")], "x[3].t()", ((6, 5), (1, 6))),
        ([step(".permute", 2, 0, 1)], "x.permute(2, 0, 1)", ((6, 4, 5), (1, 30, 6))),
        (
            [step(".view", -1), item(slice(30, 90)), step(".view", 10, 6)],
            "x.view(-1)[30:90].view(10, 6)",
            ((10, 6), (6, 1)),
        ),
        ([step(".view", ())], "x.view(())", None),
        ([step(".as_strided", (2, 3), (1, 2), 5)], "x.as_strided((2, 3), (1, 2), 5)", ((2, 3), (1, 2))),
        ([step(".as_strided", (2, 3), (1, 60), 5)], "x.as_strided((2, 3), (1, 60), 5)", None),
        ([item(4)], "x[4]", None),
        ([item((0, 0, 0, 0))], "x[0, 0, 0, 0]", None),
        ([step(".t")], "x.t()", None),
        ([step(".permute", 2, 0, 1), step(".view", -1)], "x.permute(2, 0, 1).view(-1)", None),
    ],
)
def test_text_and_layout(steps: list[Node], text: str, layout: views.Layout | None) -> None:
    assert views.text(View("x", tuple(steps))) == text
    assert views.laid_out(tensor(*SHAPE), steps) == layout


def test_a_view_follows_its_base() -> None:
    program = windowed()
    smaller = [replace(i, meta=tensor(5, 2)) if i.name == "x" else i for i in program.inputs]
    followed = views.followed(smaller)
    assert followed is not None and followed[0].meta == tensor(3, 2)
    gone = [replace(i, meta=tensor(2)) if i.name == "x" else i for i in windowed(item((0, slice(1, None)))).inputs]
    assert views.followed(gone) is None


@pytest.mark.parametrize(
    "without_base",
    [
        lambda program: cut.keep(program, ["b"]),
        lambda program: cut.select_outputs(replace(program, nodes=program.nodes[1:]), ["b"]),
        lambda program: regions.cut(program, 1, 2),
        lambda program: cut.substitute(program, {"x": 1}),
    ],
)
def test_without_its_base_a_view_has_its_golden_value(without_base: Any) -> None:
    (left,) = without_base(windowed()).inputs
    assert left.view is None and left.stored is not None and left.stored.partition("@")[0] == "y"


def test_a_window_of_a_graph_keeps_its_views() -> None:
    program = windowed()
    for part in (cut.keep(program, ["a", "b"]), regions.cut(program, 0, 2)):
        assert part is not None
        assert [(i.name, i.view is not None) for i in part.inputs] in (
            [("y", True), ("x", False)],
            [("x", False), ("y", True)],
        )


def test_other_names_lead_to_the_same_base() -> None:
    program = windowed()
    renamed = program.renamed()
    assert renamed.inputs[0].view == View("x1", (item(slice(2, None)),))
    assert renamed.fingerprint() == program.fingerprint()
    apart = replace(program, inputs=tuple(replace(i, view=None) for i in program.inputs))
    elsewhere = windowed(item(slice(1, 7)))
    assert len({program.fingerprint(), apart.fingerprint(), elsewhere.fingerprint()}) == 3


def test_a_program_with_views_survives_json() -> None:
    program = windowed(item((slice(2, None), slice(None, None, 2))), step(".t"))
    assert parse_program(json.loads(json.dumps(as_json(program)))) == program


@pytest.mark.parametrize(
    "view",
    [
        {"of": "x", "steps": [{"target": "os.system", "args": ["true"]}]},
        {"of": "x", "steps": [{"target": ".view", "args": [{"code": "print()"}]}]},
        {"of": "x", "steps": [{"target": "operator.getitem", "args": [{"ref": "x"}]}]},
        {"of": "x()", "steps": []},
        {"of": "x", "steps": []},
        {"of": "x", "steps": [{"target": "operator.getitem", "args": [{"tuple": []}]}]},
        {"of": "x", "steps": [{"target": ".view", "args": [24]}] * 4},
        {"of": "x"},
    ],
)
def test_a_view_that_is_none_is_refused(view: Any) -> None:
    data = as_json(windowed())
    data["inputs"][0]["view"] = view
    with pytest.raises(ChildFailed, match="malformed"):
        parse_program(data)


@pytest.mark.parametrize("of", ["z", "y"])
def test_a_view_of_what_is_no_input_or_itself_a_view_is_none(of: str) -> None:
    data = as_json(windowed())
    data["inputs"][0]["view"]["of"] = of
    assert parse_program(data).inputs[0] == Input("y", tensor(6, 3), golden="y")


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (tensor(8, 3), {"stride": (6, 2)}),
        (tensor(8, 3), {"shape": (5, 3)}),
        (tensor(8, 3), {"dtype": "torch.int32"}),
        (tensor(8, 3), {"requires_grad": True}),
        (tensor(8, 3, stride=(4, 1)), {}),
        (tensor(1), {}),
    ],
)
def test_a_view_that_its_base_does_not_give_is_none(base: TensorMeta, changes: dict[str, Any]) -> None:
    data = as_json(windowed())
    data["inputs"][0]["meta"] |= changes
    data["inputs"][1]["meta"] |= {"shape": base.shape, "stride": base.stride}
    assert parse_program(data).inputs[0].view is None


def test_a_base_with_odd_steps_over_single_elements_has_views() -> None:
    base = tensor(1, 6, stride=(9, 1))
    assert parse_program(as_json(windowed(step(".view", 6), base=base))) == windowed(step(".view", 6), base=base)

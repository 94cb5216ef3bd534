"""Symbolic sizes: constants where the failure does not need them, kept with ``dynamic=True`` or marks where it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_check import FakeCheck, Rule, flows, no_literal
from toy_programs import tidy, well_formed

from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.engine.program.regions import cut as window
from minimizer.engine.reduce.graph import Reduced, cut, reduce

META = TensorMeta((6, 4), "torch.float32", (4, 1), symbolic=(0, 1))


def doubled() -> Program:
    """``rows = x.size(0); twice = rows * 2; a = x.relu(); b = a.view(twice, 2); return b``"""
    return Program(
        inputs=(Input("x", META, golden="x"),),
        nodes=(
            Node("rows", ".size", (Ref("x"), 0), number=6),
            Node("twice", "operator.mul", (Ref("rows"), 2), number=12),
            Node("a", "torch.relu", (Ref("x"),), meta=META),
            Node("b", ".view", (Ref("a"), Ref("twice"), 2), meta=replace(META, shape=(12, 2), stride=(2, 1))),
        ),
        outputs=("b",),
        compile_kwargs=(("dynamic", "True"),),
    )


def run(program: Program, rule: Rule) -> Reduced:
    reduced = reduce(program, check=FakeCheck(rule), literal=no_literal, jobs=2)
    well_formed(reduced.best)
    tidy(reduced.best)
    assert rule(reduced.best)
    assert reduced.one_minimal
    return reduced


def calls(program: Program) -> list[tuple[str, tuple[object, ...]]]:
    return [(node.target, node.args) for node in program.nodes]


def test_what_does_not_need_symbols_becomes_static() -> None:
    reduced = run(doubled(), lambda p: any(n.target == ".view" for n in p.nodes))
    assert reduced.best.compile_kwargs == ()
    assert [target for target, _ in calls(reduced.best)] == [".view"]
    assert reduced.history[0].by == "numbers"


def test_dynamic_stays_where_the_failure_needs_it() -> None:
    reduced = run(doubled(), lambda p: dict(p.compile_kwargs).get("dynamic") == "True" and p.size > 0)
    assert reduced.best.compile_kwargs == (("dynamic", "True"),)
    assert reduced.best.size == 1


def test_numbers_stay_symbolic_where_the_failure_needs_them() -> None:
    reduced = run(doubled(), flows(".size", ".view"))
    assert reduced.best.nodes[0].target == ".size"
    assert reduced.best.compile_kwargs == ()


def test_single_marks_go() -> None:
    marked = replace(doubled(), compile_kwargs=(), marked=True)
    reduced = run(marked, lambda p: any(0 in p.marks(i) for i in p.inputs))
    assert [reduced.best.marks(i) for i in reduced.best.inputs] == [(0,)]


def test_reading_a_size_is_no_call_and_is_not_returned() -> None:
    assert doubled().size == 3
    alone = window(doubled(), 2, 3)
    assert (len(alone.nodes), alone.outputs) == (1, ("a",))
    view = window(doubled(), 3, 4)
    assert [node.name for node in view.nodes] == ["rows", "twice", "b"]
    assert view.outputs == ("b",)
    assert {i.name: i.golden for i in view.inputs} == {"x": "x@b", "a": "a@b"}
    assert cut.keep(doubled(), ["rows", "a"]) == replace(doubled(), nodes=(doubled().node("a"),), outputs=("a",))


def test_a_constant_takes_the_place_of_a_number_and_of_what_only_it_needed() -> None:
    static = cut.constants(doubled(), ["twice"])
    assert static is not None
    assert calls(static) == [("torch.relu", (Ref("x"),)), (".view", (Ref("a"), 12, 2))]
    assert cut.constants(replace(doubled(), outputs=("twice",)), ["twice"]) is None
    assert cut.constants(doubled(), ["a"]) is None


@pytest.mark.parametrize(("shape", "symbolic"), [((5, 6, 4), (0, 2)), ((6, 4), (1,)), ((1,), (0,)), ((), ())])
def test_marks_follow_their_dimensions(shape: tuple[int, ...], symbolic: tuple[int, ...]) -> None:
    assert TensorMeta((5, 6, 4), "torch.float32", symbolic=(0, 2)).reshaped(shape).symbolic == symbolic


def test_marks_tell_programs_apart_only_where_they_are_made() -> None:
    plain = doubled()
    other = replace(plain, inputs=(replace(plain.inputs[0], meta=replace(META, symbolic=(0,))),))
    assert plain.fingerprint() == other.fingerprint()
    assert replace(plain, marked=True).fingerprint() != replace(other, marked=True).fingerprint()


def test_how_dynamic_a_program_says_it_is_is_left_alone() -> None:
    asked = replace(doubled(), compile_kwargs=(("dynamic", "False"),))
    assert asked.dynamic() == asked
    automatic = replace(doubled(), compile_kwargs=(("fullgraph", "True"),))
    assert automatic.is_symbolic
    assert automatic.dynamic().compile_kwargs == (("fullgraph", "True"), ("dynamic", "True"))
    assert not Program((Input("x", replace(META, symbolic=()), golden="x"),), (), ()).is_symbolic

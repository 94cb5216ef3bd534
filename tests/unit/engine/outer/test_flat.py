"""Slices of a program as scripts: what stays for its effect, what for its name, and the guess of the shortest one."""

from __future__ import annotations

import ast
from typing import Any

from sample_trace import EVENTS, INPUTS, event, traced

from minimizer.engine.outer.flat import Slice, Writable, slices, whole
from minimizer.engine.outer.program import parse
from minimizer.engine.outer.skeleton import skeletons

SEED, DRAW, FIRST, LOSS, BACKWARD, GRAD, STEP, RESET, VIEW, ZERO, SECOND, RAISED, LOSS_1, LAST = range(len(EVENTS))
WEIGHT = {"name": "w", "stored": True, "alike": "torch.ones(3)", "requires_grad": True}


def program(events: list[dict[str, Any]] = EVENTS, **changes: Any) -> Writable:
    return Writable.of(parse(traced(events=events, **{"inputs": [WEIGHT, INPUTS[1]], **changes})))


def slice_of(writable: Writable, target: int, *anchors: int) -> Slice:
    return Slice(writable, target, frozenset(anchors))


def test_an_event_needs_those_that_make_its_names_and_no_change_in_place() -> None:
    assert slice_of(program(), LAST).events == [DRAW, SECOND, LOSS_1, LAST]
    assert slice_of(program(), STEP).events == [DRAW, FIRST, LOSS, BACKWARD, GRAD, STEP]  # a gradient has no other name
    assert slice_of(program(), LAST, STEP).without([STEP]).events == [DRAW, SECOND, LOSS_1, LAST]


def test_what_raised_or_has_no_text_is_not_written() -> None:
    assert whole(program()).events == [index for index in range(len(EVENTS)) if index != RAISED]

    without_text = program(inputs=INPUTS)  # `w` is in a file only
    assert whole(without_text).events == [SEED, DRAW]


def test_the_first_slices_have_no_change_in_place() -> None:
    start = slice_of(program(), LAST, *range(LAST))

    named, runs, effects, before = slices(start)

    assert named.anchors == frozenset()
    assert runs.anchors == {FIRST, BACKWARD, SECOND}
    assert effects.anchors >= {STEP, RESET, ZERO} | runs.anchors
    assert before.anchors == set(range(LAST)) - {RAISED}


def test_a_script_has_short_names_and_the_users_lines() -> None:
    start = slice_of(program(), LAST, BACKWARD)

    text = start.script.text
    ast.parse(text)
    assert "@torch.compile(dynamic=True)\ndef f(x0, x1):\n    v0 = F.relu(x0)" in text
    assert "w = torch.ones(3).requires_grad_()" in text
    assert "x = torch.ones(3)" in text  # as the script draws it
    last = text.splitlines().index("loss_1.backward(retain_graph=True)") + 1
    assert start.event_at(last) == LAST
    assert start.script.lines[last] == ("train.py", 3, "loss_1.backward(retain_graph=True)")


def test_a_name_that_is_an_argument_or_in_a_string_too_is_not_shortened() -> None:
    events = [
        event("x = torch.randn(3, generator=torch.Generator())", makes="x", draws=True),
        event("out = graph_0(x, alpha)", "graph", "out"),
        event("out.add_(x, alpha=-0.5)", writes=["out"]),
        event('torch.einsum("beta,beta->", out, beta)', makes=""),
    ]
    inputs = [{**WEIGHT, "name": name} for name in ("alpha", "beta", "gamma")]
    storages = {"x": 1, "alpha": 2, "beta": 3, "gamma": 4, "out": 5}
    text = whole(program(events, inputs=inputs, storages=storages)).script.text

    assert "out.add_(x, alpha=-0.5)" in text and "f(x, alpha)" in text
    assert '"beta,beta->", out, beta' in text
    assert "torch.randn(3, generator=torch.Generator())" in text  # `torch.ones` takes no generator


def test_a_skeleton_keeps_calls_and_backwards_in_order() -> None:
    simple, keeping = [one.text.splitlines() for one in skeletons(slice_of(program(), LAST, BACKWARD))]

    assert simple[2] == "f = torch.compile(lambda w: w.sin(), dynamic=True)"
    assert keeping[2] == "f = torch.compile(lambda w: (w @ w).exp() @ w, dynamic=True)"
    assert keeping[3:] == [
        "out1 = f(w)",
        "out1.sum().backward()",
        "out3 = f(w)",
        "out3.sum().backward(retain_graph=True)",
    ]


def test_a_skeleton_follows_the_latest_result_and_gradients_of_gradients() -> None:
    events = [
        event("out = graph_0(x, w)", "graph", "out"),
        event("part = x[1:]", makes="part"),
        event("loss = torch.dot(out, part)", makes="loss"),
        event("(g,) = torch.autograd.grad((loss,), (w,), create_graph=True, allow_unused=False)", "backward", "g"),
        event("penalty = g.norm()", makes="penalty"),
        event("penalty.backward()", "backward", grads=["w"]),
    ]
    inputs = [WEIGHT, {"name": "x", "exact": "torch.ones(3)"}]
    storages = {"x": 1, "w": 2, "out": 3, "part": 1, "loss": 4, "g": 5, "penalty": 6}
    script, *_ = skeletons(slice_of(program(events, inputs=inputs, storages=storages), 5))

    assert script.text.splitlines()[3:] == [
        "out1 = f(w)",
        "out2 = torch.autograd.grad(out1.sum(), w, create_graph=True)[0]",
        "out2.sum().backward()",
    ]


def test_a_backward_from_no_graph_has_no_skeleton() -> None:
    events = [*EVENTS[:4], event("other.backward()", "backward", grads=["w"])]

    assert list(skeletons(slice_of(program(events), 4, FIRST))) == []

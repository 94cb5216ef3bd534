"""Scripts of a slice that compare both sides of it, and the candidates for them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from sample_trace import EVENTS, GRAPH, event, traced

from minimizer.engine.child.traced import Parting
from minimizer.engine.outer.flat import Slice, Writable
from minimizer.engine.outer.paired import Paired, backwards_alone, calls_alone, can_be_paired, control
from minimizer.engine.outer.parting import candidates, told
from minimizer.engine.outer.program import parse

FIRST, BACKWARD, SECOND, LAST = 2, 4, 10, 13
WEIGHT = {
    "name": "w",
    "stored": True,
    "alike": "torch.ones(3)",
    "drawn": "torch.randn(3)",
    "requires_grad": True,
}
LABELS = {"name": "labels", "stored": True, "drawn": "torch.randint(2, 7, (40,))"}


def writable(events: list[dict[str, Any]] = EVENTS, *inputs: dict[str, Any], **changes: Any) -> Writable:
    return Writable.of(parse(traced(events=events, inputs=[WEIGHT, *inputs], **changes)))


def pair(source: Writable, target: int, value: str, *, drawn: bool = True, tolerance: str = "") -> Paired:
    return Paired(Slice(source, target, frozenset()), value, drawn, tolerance)


def at(event: int) -> Parting:
    return Parting(event=event, own=True, what="")


def test_the_program_stands_once_and_is_called_with_the_compiler_and_without() -> None:
    text = pair(writable(), BACKWARD, "w.grad", tolerance="rtol=0.01, atol=0.01").text

    assert text == (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "def f(x0, x1):\n"
        "    v0 = F.relu(x0)\n"
        "    v1 = v0 * x1\n"
        "    return v1\n"
        "def run(f):\n"
        "    torch.manual_seed(0)\n"
        "    w = torch.randn(3).requires_grad_()\n"
        "    x = torch.rand(3)\n"
        "    out = f(x, w)\n"
        "    loss = out.sum()\n"
        "    loss.backward()\n"
        "    return w.grad\n"
        "torch.testing.assert_close(run(torch.compile(f, dynamic=True)), run(f), rtol=0.01, atol=0.01)\n"
    )


def test_inputs_are_ones_where_none_are_drawn() -> None:
    assert "w = torch.ones(3).requires_grad_()" in pair(writable(), BACKWARD, "w.grad", drawn=False).text


def test_a_program_that_draws_nothing_has_no_seed() -> None:
    source = writable([event("out = graph_0(w, w)", "graph", "out")], storages={"out": 1, "w": 2})

    assert "manual_seed" not in pair(source, 0, "out", drawn=False).text
    assert "manual_seed" in pair(source, 0, "out", drawn=True).text
    drawn_by_an_event = pair(writable(), BACKWARD, "w.grad", drawn=False).text
    assert "x = torch.ones(3)" in drawn_by_an_event and "manual_seed" not in drawn_by_an_event


def test_integers_are_drawn_between_their_own_bounds() -> None:
    events = [event("out = graph_0(w, labels)", "graph", "out")]
    source = writable(events, LABELS, storages={"out": 1, "w": 2, "labels": 3})

    for drawn in (True, False):
        text = pair(source, 0, "out", drawn=drawn).text
        assert "labels = torch.randint(2, 7, (40,))" in text


def test_a_name_of_the_script_is_not_taken_for_the_program() -> None:
    events = [event("run = graph_0(w, w)", "graph", "run")]
    text = pair(writable(events, storages={"run": 1, "w": 2}), 0, "run").text

    assert "def program(f):" in text and "    return run\n" in text
    ast.parse(text)


def test_a_graph_that_draws_is_not_compared() -> None:
    events = [event("out = graph_0(w, w)", "graph", "out", draws=True), event("end = out + 1", makes="end")]
    source = writable(events, storages={"out": 1, "w": 2, "end": 3})

    assert not can_be_paired(Slice(source, 1, frozenset()))
    assert list(candidates(source, Parting(event=1, own=True, what="", value="end"))) == []


def test_the_calls_of_a_graph_are_guessed_with_numbers_of_their_own() -> None:
    source = Writable.of(parse(traced(inputs=[WEIGHT], graphs=[of_tensors("torch.float32")])))

    guess = calls_alone(source, SECOND, "out_1", "")

    assert guess is not None
    call = "f(torch.randn((2, 3)), torch.randn((2, 3)))"
    assert f"    torch.manual_seed(0)\n    {call}\n    return {call}\n" in guess
    last = calls_alone(source, SECOND, "out_1", "", last=True)
    assert last is not None and last.count(call) == 1


@pytest.mark.parametrize(
    ("event", "value", "dtype"),
    [
        pytest.param(FIRST, "out", "torch.float32", id="the first call"),
        pytest.param(SECOND, "w", "torch.float32", id="an input that it writes to"),
        pytest.param(LAST, "w.grad", "torch.float32", id="a backward"),
        pytest.param(SECOND, "out_1", "torch.int64", id="integers, whose bounds are not known"),
    ],
)
def test_other_events_are_not_guessed(event: int, value: str, dtype: str) -> None:
    source = Writable.of(parse(traced(inputs=[WEIGHT], graphs=[of_tensors(dtype)])))

    assert calls_alone(source, event, value, "") is None


def test_the_backwards_of_a_graph_are_guessed_around_its_leaves() -> None:
    source = Writable.of(parse(traced(inputs=[WEIGHT], graphs=[of_tensors("torch.float32", requires_grad=True)])))

    guess = backwards_alone(source, LAST, "")

    assert guess is not None
    assert "    leaf_0 = torch.randn((2, 3)).requires_grad_()\n" in guess
    assert guess.count("    f(torch.randn((2, 3)), leaf_0).square().sum().backward()\n") == 2
    assert "    return [leaf_0.grad]\n" in guess
    assert backwards_alone(source, BACKWARD, "") is None  # the first one is the graph level's


def test_a_graph_without_leaves_has_no_backwards_to_guess() -> None:
    source = Writable.of(parse(traced(inputs=[WEIGHT], graphs=[of_tensors("torch.float32")])))

    assert backwards_alone(source, LAST, "") is None


def of_tensors(dtype: str, *, requires_grad: bool = False) -> dict[str, Any]:
    """The graph of the sample with two tensors for inputs, of which the second may be a leaf."""
    meta = {"shape": [2, 3], "dtype": dtype, "stride": [3, 1], "device": "cpu", "requires_grad": False}
    return {
        **GRAPH,
        "inputs": [{"name": "x", "meta": meta}, {"name": "w", "meta": {**meta, "requires_grad": requires_grad}}],
    }


def test_candidates_begin_with_the_fewest_events_and_random_numbers() -> None:
    found = list(candidates(writable(), Parting(event=LAST, own=True, what="", value="w.grad")))

    assert found[0].drawn and not found[-1].drawn
    assert found[0].slice.events == [1, 10, 12, 13]
    assert found[0].size == min(one.size for one in found)
    assert len({one.fingerprint() for one in found}) == len(found)


def test_an_event_is_told_by_its_graph_and_the_number_of_its_call() -> None:
    program = writable().program

    assert told(program, at(SECOND)) == "call 2 of graph 0, behind the calls that led to it"
    assert told(program, at(LAST)) == "backward 2 of the script, behind the calls that led to it"
    assert "call 1" in told(program, at(FIRST))


def test_a_control_compiles_nothing() -> None:
    text = control(pair(writable(), BACKWARD, "w.grad").text)

    assert "torch.compile" not in text
    assert "torch.testing.assert_close(run(f), run(f), rtol=0, atol=0)" in text
    decorated = control("@torch.compile\ndef f(x):\n    return x\ntorch.testing.assert_close(f(1), f(1))\n")
    assert "torch.compile" not in decorated


def test_a_control_of_a_sequence_compiles_each_call_anew() -> None:
    text = control(pair(writable(), BACKWARD, "w.grad").text, of_sequence=True)

    assert text.endswith(
        "torch.testing.assert_close(run(compiled_anew(lambda: torch.compile(f, dynamic=True))), run(f))\n"
    )


def test_a_script_that_compares_nothing_at_its_end_is_refused() -> None:
    for text in ("", "import torch\n", "torch.testing.assert_close(1, 1)\nprint(1)\n", "assert f(1) == 1\n"):
        assert "raise AssertionError" in control(text)
        assert "Rounded" not in control(text)
        assert control(text, of_sequence=True) == control(text)

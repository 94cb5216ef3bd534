"""A flat program as text: blocks of contexts, inputs inline or from the file, functions of graphs."""

from __future__ import annotations

import ast

from sample_trace import EVENTS, traced

from minimizer.engine.outer.program import parse
from minimizer.engine.outer.write import exact_inputs, graph_function, statements, step_code, whole


def test_the_whole_program_reads_like_a_script() -> None:
    text = whole(parse(traced()), title="A program.", script="flat.py", data="flat.pt")

    tree = ast.parse(text)
    assert (
        ast.get_docstring(tree)
        == "A program.\n\npython flat.py          with the compiler\npython flat.py eager    without"
    )
    assert 'data = torch.load(Path(__file__).with_name("flat.pt"), weights_only=True)' in text
    assert 'w = data["w"].requires_grad_()' in text
    assert "idle" not in text  # no event reads it
    assert "@torch.compile(dynamic=True)\ndef graph_0(x, w):\n    y = F.relu(x)\n" in text
    assert "import torch.nn.functional as F" in text
    assert "with contextlib.suppress(RuntimeError):\n    torch.mm(x, x)" in text
    assert "# train.py:3: w.sub_(w_grad)\nwith torch.no_grad():\n    w.sub_(w_grad)" in text


def test_events_of_the_same_contexts_share_a_block() -> None:
    lines = list(statements(parse(traced()), range(6, 11)))

    assert lines == [
        "with torch.no_grad():",
        "    w.sub_(w_grad)",
        "    w.grad = None",
        'with torch.autocast("cpu", dtype=torch.bfloat16):',
        "    with torch.no_grad():",
        "        part = w[1:]",
        "    part.zero_()",
        "out_1 = graph_0(x, w)",
    ]


def test_inputs_have_their_own_values() -> None:
    program = parse(traced())

    assert exact_inputs(program, [2]) == ['w = data["w"].requires_grad_()']
    assert exact_inputs(program, [1]) == []


def test_an_event_of_its_own_has_its_contexts_around_it() -> None:
    program = parse(traced())

    assert step_code(program.events[8]) == (
        'with torch.autocast("cpu", dtype=torch.bfloat16):\n    with torch.no_grad():\n        part = w[1:]'
    )
    assert graph_function(program.graphs["graph_0"], "graph_0", decorated=False).startswith("def graph_0(x, w):")
    assert len(program.events) == len(EVENTS)

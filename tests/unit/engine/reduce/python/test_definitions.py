"""What a pass or backend that travels with a repro can do without."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Body, Input, Node, Program
from minimizer.engine.reduce.python.definitions import polish
from minimizer.errors import BudgetExceeded

PASS = """class DropsAdd(CustomGraphPass):
    def __call__(self, graph):
        '''Leave additions out.'''
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.add.Tensor:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    def uuid(self):
        return b"drops-add\""""
USED = "torch._inductor.config.post_grad_custom_post_pass = DropsAdd()"
PROGRAM = Program(
    inputs=(Input("x", code="torch.ones(1)"),),
    nodes=(Node("a", "operator.add", (Ref("x"), 1)),),
    outputs=("a",),
    setup=("import torch", PASS, USED),
)


def needing(*parts: str) -> Program:
    """What polishing leaves where the failure needs these parts of the text."""

    def check(programs: Sequence[Program]) -> list[bool]:
        return [all(part in "\n".join(program.setup) for part in parts) for program in programs]

    return polish(PROGRAM, check)


def test_statements_that_the_failure_does_without_go() -> None:
    polished = needing("if node.target", "replace_all_uses_with", "return b")

    assert polished.setup[0] == "import torch"
    assert polished.setup[2] == USED
    assert polished.setup[1].splitlines() == [
        "class DropsAdd(CustomGraphPass):",
        "",
        "    def __call__(self, graph):",
        "        for node in list(graph.nodes):",
        "            if node.target is torch.ops.aten.add.Tensor:",
        "                node.replace_all_uses_with(node.args[0])",
        "",
        "    def uuid(self):",
        "        return b'drops-add'",
    ]


def test_what_only_served_a_statement_goes_with_it() -> None:
    definition = "def cached(graph, inputs):\n    if source.random() < 0.7:\n        return zeros\n    return graph"
    program = replace(PROGRAM, setup=("import random", "import torch", "source = random.SystemRandom()", definition))

    def check(programs: Sequence[Program]) -> list[bool]:
        return ["return zeros" in "\n".join(candidate.setup) for candidate in programs]

    assert polish(program, check).setup == ("import torch", "def cached(graph, inputs):\n    return zeros")


def test_what_nobody_read_before_may_be_there_for_what_it_does() -> None:
    program = replace(PROGRAM, setup=("import registers", *PROGRAM.setup))
    assert polish(program, lambda programs: [True] * len(programs)).setup[0] == "import registers"


@pytest.mark.parametrize("needed", [True, False])
def test_how_annotations_are_read_stays_where_it_is_needed(needed: bool) -> None:
    future = "from __future__ import annotations"
    program = replace(PROGRAM, setup=(future, *PROGRAM.setup))

    def check(programs: Sequence[Program]) -> list[bool]:
        return [future in candidate.setup or not needed for candidate in programs]

    assert (future in polish(program, check).setup) is needed


def test_what_is_needed_stays_as_it_was_written() -> None:
    everything = [line.strip() for line in PASS.splitlines() if line.strip()]
    assert needing(*everything) == PROGRAM


def test_a_program_without_definitions_is_asked_nothing_about() -> None:
    plain = replace(PROGRAM, setup=("import torch", "torch.set_num_threads(1)"))

    def check(programs: Sequence[Program]) -> list[bool]:
        raise AssertionError("nothing to ask")

    assert polish(plain, check) == plain


def test_when_the_time_is_up_the_best_so_far_is_left() -> None:
    def check(programs: Sequence[Program]) -> list[bool]:
        raise BudgetExceeded("the time is up")

    assert polish(PROGRAM, check) == PROGRAM


LOWERINGS = (
    "import torch",
    "from torch._inductor.lowering import lowerings",
    "aten = torch.ops.aten",
)
USE = "lowerings[aten.exp.default] = exp"


@pytest.mark.parametrize(
    ("definition", "use", "needed", "line"),
    [
        ("def exp(x, *, scale=2.0):\n    return x", USE, r"(:|return) x", "lowerings[aten.exp.default] = lambda x, *, scale=2.0: x"),
        ("def exp(x: int) -> int:\n    return", USE, "exp", "lowerings[aten.exp.default] = lambda x: None"),
        ("def exp(x):\n    pass", "lowerings.add(exp)", "add", "lowerings.add(lambda x: None)"),
        ("def exp(x):\n    y = lowerings[x]\n    return y + 1", USE, r"lowerings\[x\]( \+ 1|\n    return y)", "lowerings[aten.exp.default] = lambda x: lowerings[x] + 1"),
    ],
)  # fmt: skip
def test_a_function_of_one_expression_goes_where_it_is_used(definition: str, use: str, needed: str, line: str) -> None:
    program = replace(PROGRAM, setup=(*LOWERINGS, definition, use))
    polished = polish(program, lambda programs: [bool(re.search(needed, "\n".join(p.setup))) for p in programs])
    assert polished.setup[-1] == line
    assert not any(text.startswith("def") for text in polished.setup)
    namesake = replace(program, nodes=(Node("a", "torch.exp", (Ref("x"), Code("torch.exp"))),))
    assert (
        polish(namesake, lambda programs: [bool(re.search(needed, "\n".join(p.setup))) for p in programs]).setup
        == polished.setup
    )


def test_a_function_inside_of_another_becomes_an_expression_too() -> None:
    backend = "def cached(graph, inputs):\n    def run(*args):\n        return [arg for arg in args]\n    return run"
    short = "def cached(graph, inputs):\n    return lambda *args: [arg for arg in args]"
    program = replace(PROGRAM, setup=("import torch", backend), compile_kwargs=(("backend", "cached"),))

    def polished(program: Program, use: str) -> Sequence[str]:
        def check(programs: Sequence[Program]) -> list[bool]:
            texts = [p.setup[-1] for p in programs]
            return ["for arg" in text and (use in text or "return lambda" in text) for text in texts]

        return polish(program, check).setup

    assert polished(program, "return run") == ("import torch", short)
    for use in ("return run(1)", "return (run, run)", "for _ in run:\n        raise KeyError"):
        other = replace(program, setup=("import torch", backend.replace("return run", use)))
        assert "def run" in polished(other, use)[-1]
    long = backend.replace("[arg for", f"[{'long_' * 12} for")
    assert (
        "def run"
        in polished(
            replace(program, setup=("import torch", long.replace("in args", "in args for arg in args"))), "return run"
        )[-1]
    )


@pytest.mark.parametrize(
    ("definition", "uses", "backend"),
    [
        ("def exp(x):\n    return x", (USE, "lowerings[aten.log.default] = exp"), ""),
        ("def exp(x):\n    return x", ("lowerings[aten.exp.default] = [exp, exp]",), ""),
        ("def exp(x):\n    return x", ("lowerings[aten.exp.default] = exp(1)",), ""),
        ("def exp(x):\n    return x", ("def log(x):\n    return exp",), ""),
        ("def exp(x):\n    return x", (USE,), "exp"),
        ("def exp(x):\n    return x", (), "exp"),
        ("@cache\ndef exp(x):\n    return x", (USE,), ""),
        ("def exp(x):\n    raise KeyError", (USE,), ""),
        ("def exp(x):\n    yield x", (USE,), ""),
        ("def exp(x):\n    return (yield x)", (USE,), ""),
        (f"def exp(x):\n    return {' + '.join(['x'] * 20)}", (USE,), ""),
    ],
)
def test_any_other_function_stays_a_function(definition: str, uses: tuple[str, ...], backend: str) -> None:
    kwargs = (("backend", backend),) * bool(backend)
    program = replace(PROGRAM, setup=(*LOWERINGS, definition, *uses), compile_kwargs=kwargs)
    text = definition.partition(":\n")[2].strip()
    assert definition in polish(program, lambda programs: [text in "\n".join(p.setup) for p in programs]).setup


def test_a_name_that_nobody_reads_goes_from_beside_another() -> None:
    both = ("exp, log = lowerings[aten.exp.default], lowerings[aten.log.default]", "lowerings[aten.abs.default] = log")
    program = replace(PROGRAM, setup=(*LOWERINGS, *both))
    polished = polish(program, lambda programs: [True] * len(programs))
    assert polished.setup == (*LOWERINGS, "log = lowerings[aten.log.default]", both[1])
    assert polish(program, lambda programs: [False] * len(programs)) == program
    call = Node("a", "torch.add", (Ref("x"), Code("exp")))
    for needed in (
        replace(program, compile_kwargs=(("options", "{'a': exp}"),)),
        replace(program, nodes=(call,)),
        replace(program, nodes=(replace(call, target="exp.apply", args=()),)),
        replace(program, inputs=(Input("x", code="exp(torch.ones(1))"),)),
    ):
        assert polish(needed, lambda programs: [True] * len(programs)) == needed


HALF = Body("inner", ("h",), (Node("half", "operator.mul", (Ref("h"), 0.5)),), Ref("half"))
DOUBLE = Body("inner_1", ("h",), (Node("double", "operator.mul", (Ref("h"), 2)),), Ref("double"))
BRANCHING = Program(
    inputs=(Input("p", code="torch.tensor(True)"), Input("x", code="torch.ones(1)")),
    nodes=(Node("c", "torch.cond", (Ref("p"), Code("inner"), Code("inner_1"), (Ref("x"),))),),
    outputs=("c",),
    bodies=(HALF, DOUBLE),
)


def test_short_functions_that_a_call_is_given_become_lambdas_in_it() -> None:
    def check(programs: Sequence[Program]) -> list[bool]:
        texts = ["\n".join([*render.setup(p), *map(render.statement, p.nodes)]) for p in programs]
        return [
            all(len(re.findall(part, text)) == n for part, n in (("return|lambda", 2), (r"h \* (0\.5|2)", 2)))
            for text in texts
        ]

    polished = polish(BRANCHING, check)

    assert render.setup(polished) == ()
    assert render.expression(polished.nodes[0]) == "torch.cond(p, lambda h: h * 0.5, lambda h: h * 2, (x,))"


@pytest.mark.parametrize(
    "program",
    [
        replace(BRANCHING, bodies=(HALF, replace(DOUBLE, nodes=(Node("d", "torch.sin", (Ref("h"),)), *DOUBLE.nodes)))),
        replace(BRANCHING, nodes=(replace(BRANCHING.nodes[0], target="torch." + "long" * 12),)),
        replace(BRANCHING, nodes=(*BRANCHING.nodes, replace(BRANCHING.nodes[0], name="again"))),
    ],
    ids=["more than an expression", "a long call", "given twice"],
)
def test_functions_stay_functions(program: Program) -> None:
    polished = polish(program, lambda programs: ["def inner(" not in "\n".join(render.setup(p)) for p in programs])

    assert len(render.setup(polished)) == 2

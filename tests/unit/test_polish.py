"""What a pass or backend that travels with a repro can do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minimizer.errors import BudgetExceeded
from minimizer.polish import polish
from minimizer.program import Input, Node, Program, Ref

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

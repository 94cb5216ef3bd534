"""A script with two faults: whatever the order of passes and candidates, a reduction ends on the culprit it was started for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest
from fake_check import both, flows, has, in_a_row, no_literal
from fake_oracle import FakeOracle, Rule
from toy_programs import META

from minimizer.engine.localize.further_faults import further
from minimizer.engine.localize.localize import Localized, localize
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.program.regions import Region
from minimizer.engine.reduce.graph import passes, reduce, reducer
from minimizer.engine.reduce.graph.program_problem import ProgramProblem
from minimizer.engine.reduce.problem import Item

ORDERS = 20


@dataclass(frozen=True)
class TwoFaults:
    """A program with two faults, and the targets of the calls that each of them needs, in execution order."""

    program: Program
    rules: tuple[Rule, Rule]
    left: tuple[list[str], list[str]]

    def fails(self, program: Program) -> bool:
        return any(rule(program) for rule in self.rules)


def chain(targets: Sequence[str], modules: Sequence[str] = ()) -> Program:
    modules = modules or [""] * len(targets)
    names = ["x", *(f"v{index}" for index in range(len(targets)))]
    nodes = [
        Node(name, target, (Ref(before),), meta=META, module=module)
        for before, name, target, module in zip(names, names[1:], targets, modules, strict=False)
    ]
    return Program((Input("x", META, golden="x"),), tuple(nodes), (names[-1],))


def sines(count: int, others: dict[int, str]) -> list[str]:
    return [others.get(index, "torch.sin") for index in range(count)]


A, B, C, D = "torch.a", "torch.b", "torch.c", "torch.d"
CASES = {
    "one module after the other": TwoFaults(
        chain(sines(48, {3: A, 40: B}), [f"blocks.{index // 8}" for index in range(48)]), (has(A), has(B)), ([A], [B])
    ),
    "a small function": TwoFaults(chain(sines(7, {2: A, 5: B})), (has(A), has(B)), ([A], [B])),
    "neighbours": TwoFaults(chain([A, B]), (has(A), has(B)), ([A], [B])),
    "pairs": TwoFaults(
        chain(sines(60, {10: A, 11: B, 50: C, 51: D})), (in_a_row(A, B), in_a_row(C, D)), ([A, B], [C, D])
    ),
    "pairs across the cuts": TwoFaults(
        chain(sines(64, {15: A, 16: B, 47: C, 48: D})), (flows(A, B), flows(C, D)), ([A, B], [C, D])
    ),
    "one inside the other's span": TwoFaults(
        chain(sines(40, {4: A, 16: B, 17: C, 30: D})), (in_a_row(B, C), flows(A, D)), ([B, C], [A, D])
    ),
}


class Shuffled(ProgramProblem):
    """Tries candidates in a random order."""

    order = random.Random()

    def first(self, candidates: Iterable[Program | None], by: str) -> bool:
        return super().first(self.order.sample(every := list(candidates), len(every)), by)

    def shrink(
        self,
        items: Sequence[Item],
        change: Callable[[Program, Sequence[Item]], Program | None],
        by: str,
        *,
        whole: bool = True,
    ) -> bool:
        return super().shrink(self.order.sample(list(items), len(items)), change, by, whole=whole)


def shuffle(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Random orders from here on. The window comes before all that takes nodes out: it is what chooses."""
    order = random.Random(seed)
    numbers, window, *nodes = passes.NODES
    monkeypatch.setattr(Shuffled, "order", order)
    monkeypatch.setattr(reducer, "ProgramProblem", Shuffled)
    monkeypatch.setattr(passes, "NODES", (numbers, window, *order.sample(nodes, len(nodes))))
    monkeypatch.setattr(passes, "SIMPLER", tuple(order.sample(passes.SIMPLER, len(passes.SIMPLER))))


def smallest(window: Program, oracle: Oracle) -> Program:
    return reduce(window, check=oracle.check, literal=no_literal).best


def end(case: TwoFaults, target: str | None = None) -> tuple[Localized, Program, Oracle]:
    oracle = cast(Oracle, FakeOracle(case.fails))
    located = localize(case.program, oracle, target=target)
    return located, smallest(located.window, oracle), oracle


def targets(program: Program) -> list[str]:
    return [node.target for node in program.nodes]


@pytest.mark.parametrize("name", CASES)
def test_in_any_order_the_first_root_is_the_one_that_is_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    for seed in range(ORDERS):
        with monkeypatch.context() as patch:
            shuffle(patch, seed)
            assert targets(end(case)[1]) == case.left[0], f"order {seed}"


@pytest.mark.parametrize("name", ["one module after the other", "a small function", "neighbours"])
def test_in_any_order_the_target_is_the_one_that_is_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    for seed in range(ORDERS):
        for index in (0, 1):
            with monkeypatch.context() as patch:
                shuffle(patch, seed)
                assert targets(end(case, str(index))[1]) == case.left[index], f"order {seed}"


@pytest.mark.parametrize("name", sorted(set(CASES) - {"one inside the other's span"}))
def test_the_other_fault_is_found_once_the_first_is_done(name: str) -> None:
    case = CASES[name]
    located, reduced, oracle = end(case)
    others = list(further(case.program, located, reduced, oracle, reduce=smallest))
    assert [targets(other.program) for other in others] == [case.left[1]]
    assert all(oracle.same(other.outcome) for other in others)


def test_a_fault_of_a_backward_is_found_behind_one_of_the_forward() -> None:
    """Localizing looks for the forward's without gradients; the table of layers names the region whose backward is wrong."""

    def wants_grad(program: Program) -> bool:
        return program.grad

    program = replace(CASES["one module after the other"].program, grad=True)
    oracle = cast(Oracle, FakeOracle(lambda p: has(A)(p) or both(has(B), wants_grad)(p)))
    located = localize(program.without_grad(), oracle)
    reduced = smallest(located.window, oracle)
    assert [root.path for root in located.roots] == ["blocks.0"]
    suspects = [Region(40, 48, "blocks.5")]
    others = list(further(program, located, reduced, oracle, suspects=suspects, reduce=smallest))
    assert [(targets(other.program), other.program.grad) for other in others] == [([B], True)]


def test_after_the_second_target_the_first_fault_is_the_other_one() -> None:
    case = CASES["one module after the other"]
    located, reduced, oracle = end(case, "1")
    others = list(further(case.program, located, reduced, oracle, reduce=smallest))
    assert [targets(other.program) for other in others] == [[A]]


def test_a_fault_that_every_block_has_is_one_fault() -> None:
    everywhere = TwoFaults(
        chain(sines(48, dict.fromkeys(range(3, 48, 8), A)), [f"blocks.{i // 8}" for i in range(48)]),
        (has(A), both(has(A), has(B))),
        ([A], [A]),
    )
    located, reduced, oracle = end(everywhere)
    assert len(located.roots) == 6
    assert list(further(everywhere.program, located, reduced, oracle, reduce=smallest)) == []

"""Localization on hand-made programs: the fault is found where it is, and where it cannot be seen alone that is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_oracle import FakeOracle, Rule, Wary
from hypothesis import given
from hypothesis import strategies as st
from sample_graphs import chain, model

from minimizer.engine.child.outcome import Difference, Ending, Outcome, Verdict
from minimizer.engine.localize.localize import Localized, localize
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import SMALL
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Layer
from minimizer.vocabulary import Kind


def locate(program: Program, rule: Rule, **options: Any) -> tuple[Localized, FakeOracle]:
    oracle = FakeOracle(rule)
    return localize(program, cast(Oracle, oracle), **options), oracle


def has(*targets: str) -> Rule:
    return lambda program: set(targets) <= {node.target for node in program.nodes}


# the whole way down ---------------------------------------------------------------------------------------------------


def test_the_one_bad_node_of_a_deep_model_is_found() -> None:
    program = model(8, {5: "torch.bad"})
    located, oracle = locate(program, has("torch.bad"))
    assert [node.target for node in located.window.nodes] == ["torch.bad"]
    assert located.confirmed
    assert [root.path for root in located.roots] == ["blocks.5"]
    assert len(oracle.judged) < program.size / 2


def test_the_window_runs_on_golden_inputs_as_they_were_at_that_moment() -> None:
    located, _ = locate(model(3, {1: "torch.bad"}), has("torch.bad"))
    (node,) = located.window.nodes
    (given_value,) = located.window.inputs
    assert list(node.refs()) == [given_value.name]
    assert given_value.golden == f"{given_value.name}@{node.name}"
    assert located.window.outputs == (node.name,)


def test_all_roots_are_reported_and_the_first_is_taken() -> None:
    program = model(6, {1: "torch.bad", 4: "torch.bad"})
    located, _ = locate(program, has("torch.bad"))
    assert [root.path for root in located.roots] == ["blocks.1", "blocks.4"]
    assert located.window.nodes[0].module == "blocks.1.mlp.activation"


@pytest.mark.parametrize("target", ["1", "blocks.4", "blocks"])
def test_another_root_can_be_asked_for(target: str) -> None:
    located, _ = locate(model(6, {1: "torch.bad", 4: "torch.bad"}), has("torch.bad"), target=target)
    expected = "blocks.1.mlp.activation" if target == "blocks" else "blocks.4.mlp.activation"
    assert located.window.nodes[0].module == expected


def test_a_root_can_be_asked_for_by_a_module_in_it() -> None:
    located, _ = locate(model(6, {1: "torch.bad", 4: "torch.bad"}), has("torch.bad"), target="blocks.4.mlp.activation")
    assert located.window.nodes[0].module == "blocks.4.mlp.activation"


@pytest.mark.parametrize("target", ["7", "no.such.module", "block"])
def test_a_target_that_is_no_root_leaves_the_first(target: str) -> None:
    located, _ = locate(model(6, {1: "torch.bad", 4: "torch.bad"}), has("torch.bad"), target=target)
    assert located.window.nodes[0].module == "blocks.1.mlp.activation"


def test_every_region_is_judged_and_told_in_execution_order() -> None:
    told: list[Layer] = []
    located, _ = locate(model(4, {2: "torch.bad"}), has("torch.bad"), on_region=told.append)
    assert tuple(told) == located.layers
    assert [layer.order for layer in told] == list(range(len(told)))
    (bad,) = [layer for layer in told if layer.verdict == "bad"]
    assert (bad.path, bad.local_error, bad.required_atol, bad.required_rtol) == ("blocks.2", 0.5, 0.25, 0.125)
    good = {layer.path: layer.local_error for layer in told if layer.verdict == "good"}
    assert good == {"embedding": 0.0, "blocks.0": 0.0, "head": 0.0}


def test_a_region_that_cannot_be_judged_is_unknown_and_no_root() -> None:
    class Unsure(FakeOracle):
        def _outcome(self, program: Program) -> Outcome:
            if any(node.module.startswith("blocks.0") for node in program.nodes) and program.size < 30:
                return Outcome(ending=Ending.EAGER_ERROR)
            return super()._outcome(program)

    oracle = Unsure(has("torch.bad"))
    located = localize(model(4, {2: "torch.bad"}), cast(Oracle, oracle))
    assert [layer.verdict for layer in located.layers if layer.path == "blocks.0"] == ["unknown"]
    assert [root.path for root in located.roots] == ["blocks.2"]


LAYOUT = Verdict(fault=True, kind="wrong_metadata", differences=[Difference(where="output[0]", what="stride")])


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(ending=Ending.COMPILE_ERROR), "bad"),
        (Outcome(ending=Ending.DIFFERENT, verdict=Verdict(fault=True, kind="wrong_metadata")), "bad"),
        (Outcome(ending=Ending.DIFFERENT, verdict=LAYOUT), "good"),
        (Outcome(ending=Ending.NONDETERMINISTIC, verdict=Verdict(nondeterministic=True)), "unknown"),
        (Outcome(ending=Ending.SAME, verdict=Verdict()), "good"),
    ],
)
def test_a_region_that_fails_alone_in_another_way_is_not_good(outcome: Outcome, verdict: str) -> None:
    class Otherwise(FakeOracle):
        def _outcome(self, program: Program) -> Outcome:
            is_first = any(node.module.startswith("blocks.0") for node in program.nodes) and program.size < 30
            return outcome if is_first else super()._outcome(program)

        def shows(self, outcome: Outcome) -> bool:
            signature = signature_of(outcome)
            return signature is not None and signature.kind is Kind.WRONG_OUTPUT

    oracle = Otherwise(has("torch.bad"))
    located = localize(model(4, {2: "torch.bad"}), cast(Oracle, oracle))
    assert [layer.verdict for layer in located.layers if layer.path == "blocks.0"] == [verdict]
    assert [root.path for root in located.roots] == ["blocks.2"]
    assert [region.path for region in located.elsewhere] == (["blocks.0"] if verdict == "bad" else [])
    assert list(oracle.also_seen.values()) == ([1] if signature_of(outcome) else []), "tried once, seen once"


class Recording(FakeOracle):
    """Keeps the kinds of programs of every batch."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.batches: list[list[str]] = []

    def judge(self, programs: Sequence[Program], **changes: Any) -> list[Outcome]:
        self.batches.append([program.fingerprint(values=False) for program in programs])
        return super().judge(programs, **changes)


def test_one_of_each_kind_is_judged_first_and_twins_of_good_blocks_are_left_alone() -> None:
    """So that cost grows with the number of distinct blocks."""
    oracle = Recording(has("torch.bad"))

    located = localize(model(6, {5: "torch.bad"}), cast(Oracle, oracle))

    firsts, twins = oracle.batches[:2]
    assert len(set(firsts)) == len(firsts)
    assert twins == []
    assert [layer.verdict for layer in located.layers if layer.path == "blocks.3"] == ["unknown"]


def test_twins_of_a_failing_block_are_roots_too() -> None:
    located, oracle = locate(model(6, {2: "torch.bad", 4: "torch.bad"}), has("torch.bad"))

    assert [root.path for root in located.roots] == ["blocks.2", "blocks.4"]
    assert oracle.judged


def test_every_twin_is_judged_where_no_kind_of_block_fails() -> None:
    oracle = Recording(lambda program: False)

    localize(model(6), cast(Oracle, oracle))

    firsts, twins = oracle.batches[:2]
    assert twins
    assert set(twins) <= set(firsts)


class Showing(FakeOracle):
    """A numeric failure: says which outputs of an instrumented window are wrong."""

    def __init__(self, rule: Rule, *, vanishes: bool = False) -> None:
        super().__init__(rule, Kind.WRONG_OUTPUT)
        self._vanishes = vanishes

    def _outcome(self, program: Program) -> Outcome:
        outcome = super()._outcome(program)
        if len(program.outputs) < 4 or outcome.verdict is None or not outcome.verdict.differences:
            return outcome
        if self._vanishes:
            return Outcome(ending=Ending.SAME, verdict=Verdict())
        bad = next(i for i, name in enumerate(program.outputs) if program.node(name).target == "torch.bad")
        places = [Difference(where=f"output[{index}]") for index in range(bad, len(program.outputs))]
        return Outcome(ending=Ending.DIFFERENT, verdict=Verdict(fault=True, kind="wrong_output", differences=places))


@pytest.mark.parametrize("vanishes", [False, True])
def test_trap_17_the_first_wrong_value_names_the_node_whether_or_not_observing_hides_it(vanishes: bool) -> None:
    oracle = Showing(has("torch.bad"), vanishes=vanishes)

    located = localize(model(4, {2: "torch.bad"}), cast(Oracle, oracle))

    assert [node.target for node in located.window.nodes] == ["torch.bad"]


# what needs more than a node ------------------------------------------------------------------------------------------


def test_a_pattern_over_several_nodes_is_kept_whole() -> None:
    program = model(5)
    nodes = list(program.nodes)
    start = next(i for i, n in enumerate(nodes) if n.module == "blocks.3.mlp")
    nodes[start] = replace(nodes[start], target="torch.one")
    nodes[start + 3] = replace(nodes[start + 3], target="torch.two")
    located, _ = locate(replace(program, nodes=tuple(nodes)), has("torch.one", "torch.two"))
    assert located.confirmed
    assert has("torch.one", "torch.two")(located.window)
    assert {n.module.split(".")[1] for n in located.window.nodes} == {"3"}
    assert located.window.size <= 11


def test_a_pattern_across_two_blocks_is_found_by_widening() -> None:
    program = model(6, {2: "torch.one", 3: "torch.two"})
    located, _ = locate(program, has("torch.one", "torch.two"))
    assert located.confirmed
    assert has("torch.one", "torch.two")(located.window)
    assert located.window.size < program.size
    assert len(located.roots) == 1
    assert {layer.path: layer.verdict for layer in located.layers} == dict.fromkeys(
        ["embedding", *(f"blocks.{number}" for number in range(6)), "head"], "good"
    )


@given(st.permutations(range(8)))
def test_any_two_cooperating_blocks_are_found(blocks: list[int]) -> None:
    one, two, *_ = blocks
    program = model(8, {one: "torch.one", two: "torch.two"})
    located, _ = locate(program, has("torch.one", "torch.two"))
    assert located.confirmed
    assert has("torch.one", "torch.two")(located.window)


def test_a_fault_of_the_whole_program_only_is_confirmed_as_such() -> None:
    program = model(4)
    located, _ = locate(program, lambda p: p.size == program.size)
    assert located.confirmed
    assert located.window == program
    assert located.roots == ()


def test_trap_17_a_program_that_does_not_fail_when_it_is_observed_is_not_confirmed() -> None:
    program = model(4, {2: "torch.bad"})
    located, _ = locate(program, lambda _: False)
    assert not located.confirmed
    assert located.window == program
    assert located.roots == ()
    assert located.layers


@pytest.mark.parametrize("fails", [True, False])
def test_a_program_of_one_node(fails: bool) -> None:
    program = chain([("torch.bad", "")])
    located, _ = locate(program, lambda _: fails)
    assert located.confirmed is fails
    assert [n.target for n in located.window.nodes] == ["torch.bad"]


def test_a_small_program_is_left_to_the_reducer() -> None:
    program = chain([("torch.a", "")] * 3 + [("torch.bad", "")] + [("torch.a", "")] * 3)
    located, oracle = locate(program, has("torch.bad"))
    assert (located.window, located.confirmed, len(oracle.judged)) == (program, True, 1)


def test_a_large_program_without_modules_is_cut_into_pieces() -> None:
    nodes = [("torch.a", "")] * 100
    nodes[63] = ("torch.bad", "")
    located, oracle = locate(chain(nodes), has("torch.bad"))
    assert [n.target for n in located.window.nodes] == ["torch.bad"]
    assert len(oracle.judged) < 40


# jumps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, SMALL - 2, 5 * SMALL])
def test_a_jump_in_a_joint_graph_does_not_hide_what_is_wrong_behind_it(length: int) -> None:
    """There the gradients are outputs like others, so that the sign of one makes a suspect of all that follows."""
    program = chain([*[("torch.mul", "")] * length, ("torch.gt", ""), ("torch.bad", "")])
    located = localize(program, cast(Oracle, Wary(has("torch.bad"), "torch.gt")))
    assert located.confirmed
    assert [node.target for node in located.window.nodes] == ["torch.bad"]


def test_fake_outcomes_are_what_the_oracle_takes_for_a_failure() -> None:
    assert signature_of(FakeOracle(lambda _: True).judge([chain([("torch.a", "")])])[0]) == Signature(
        Kind.WRONG_OUTPUT, what="value"
    )


# a graph that is large ------------------------------------------------------------------------------------------------


class Hurried(FakeOracle):
    """Has time for a few looks at its clock."""

    def __init__(self, rule: Rule, looks: int) -> None:
        super().__init__(rule)
        self.looks = looks

    def watch(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise BudgetExceeded("the time is up")


def test_the_time_is_looked_at_while_a_graph_is_cut() -> None:
    """No trial is waited for meanwhile, which is where it is looked at else."""
    program = chain([("torch.a", f"m{index}") for index in range(300)])
    oracle = Hurried(has("torch.bad"), looks=20)
    with pytest.raises(BudgetExceeded):
        localize(program, cast(Oracle, oracle))
    assert oracle.judged == []

"""Where wrong metadata is looked for: on a rung of the ladder that compiles no kernels, if one shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from fake_oracle import FakeOracle, Rule
from toy_programs import chain

from minimizer.engine.budget.clock import Clock
from minimizer.engine.journal import Journal
from minimizer.engine.levels.window import WindowSearch
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.survey.cases import Case
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind

TARGETS = ["torch.sin", "torch.cos", "torch.relu", "torch.tanh"] * 5
DECOMPOSED = "aot_eager_decomp_partition"


class Steady(FakeOracle):
    """Knows no flaky failure."""

    sequential = None
    trials = 0

    def measure(self, program: Program) -> Any:
        raise AssertionError("the failure is steady")


def backend_of(program: Program) -> str:
    return dict(program.compile_kwargs).get("backend", "inductor").strip("'")


def searched(folder: Path, rule: Rule, kind: Kind) -> tuple[WindowSearch, Steady]:
    oracle = Steady(rule, kind)
    case = Case(cast(Any, None), chain(TARGETS), Signature(kind), "differs")
    journal = Journal(FolderSink(folder), Report(), Clock(600))
    return WindowSearch(case, cast(Any, oracle), journal, None), oracle


def has_relu(program: Program) -> bool:
    return any(node.target == "torch.relu" for node in program.nodes)


def test_wrong_metadata_is_located_without_kernels_and_confirmed_with_them(tmp_path: Path) -> None:
    search, oracle = searched(
        tmp_path, lambda one: has_relu(one) and backend_of(one) in (DECOMPOSED, "inductor"), Kind.WRONG_METADATA
    )
    start = search.find()
    assert [node.target for node in start.best.nodes] == ["torch.relu"]
    assert start.best.compile_kwargs == chain(TARGETS).compile_kwargs
    compiled = [program for program in oracle.judged if backend_of(program) == "inductor"]
    assert compiled == [start.best], "kernels are compiled for the window that is found, and for no part before it"


def test_a_window_that_fails_on_the_lower_rung_only_is_not_taken(tmp_path: Path) -> None:
    """The program's own backend is wrong at another operator."""

    def rule(program: Program) -> bool:
        wrong = "torch.tanh" if backend_of(program) == "inductor" else "torch.relu"
        return any(node.target == wrong for node in program.nodes)

    search, _ = searched(tmp_path, rule, Kind.WRONG_METADATA)
    start = search.find()
    assert [node.target for node in start.best.nodes] == ["torch.tanh"]


@pytest.mark.parametrize("kind", [Kind.WRONG_METADATA, Kind.WRONG_OUTPUT])
def test_what_no_lower_rung_shows_is_looked_for_on_its_own_backend(tmp_path: Path, kind: Kind) -> None:
    search, oracle = searched(tmp_path, lambda one: has_relu(one) and backend_of(one) == "inductor", kind)
    assert [node.target for node in search.find().best.nodes] == ["torch.relu"]
    below = [program for program in oracle.judged if backend_of(program) != "inductor"]
    assert (len(below) > 0) is (kind is Kind.WRONG_METADATA)

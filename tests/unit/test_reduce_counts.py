"""How many trials a reduction takes. These are counts of questions, not timings: a ceiling that breaks is a regression."""

from __future__ import annotations

import pytest
from fake_executor import FakeExecutor, chain, flows, has, in_a_row, no_literal

from minimizer.reduce import reduce


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("where", [0, 1, 374, 375, 600, 749])
def test_one_bad_node_in_750_is_alone_within_25_trials(where: int, jobs: int) -> None:
    targets = ["torch.sin"] * 750
    targets[where] = "torch.relu"
    executor = FakeExecutor(has("torch.relu"))
    result = reduce(chain(targets), check=executor, literal=no_literal, jobs=jobs)
    alone = next(step.trial for step in result.history if step.nodes == 1)
    assert [n.target for n in result.best.nodes] == ["torch.relu"]
    print(f"one of 750 at {where}, jobs={jobs}: alone after {alone}, {result.trials} in all")
    assert alone <= 25
    assert result.one_minimal


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("where", [0, 169, 170, 200, 339])
def test_a_window_of_five_in_344_stands_within_60_trials(where: int, jobs: int) -> None:
    window = ["torch.a", "torch.b", "torch.c", "torch.d", "torch.e"]
    targets = ["torch.sin"] * 344
    targets[where : where + 5] = window
    executor = FakeExecutor(in_a_row(*window))
    result = reduce(chain(targets), check=executor, literal=no_literal, jobs=jobs)
    found = next(step.trial for step in result.history if step.nodes == 5)
    print(f"five of 344 at {where}, jobs={jobs}: found after {found}, {result.trials} in all")
    assert [n.target for n in result.best.nodes] == window
    assert found <= 30
    assert result.trials <= 60


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("first", [0, 1, 133, 199, 399])
def test_two_cooperating_nodes_400_apart_end_in_six_within_150_trials(first: int, jobs: int) -> None:
    targets = ["torch.sin"] * 800
    targets[first], targets[first + 400] = "torch.a", "torch.b"
    executor = FakeExecutor(flows("torch.a", "torch.b"))
    result = reduce(chain(targets), check=executor, literal=no_literal, jobs=jobs)
    print(f"two 400 apart at {first}, jobs={jobs}: {result.trials} trials, {result.best.size} nodes")
    assert result.best.size == 2
    assert result.trials <= 150

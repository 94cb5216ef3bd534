"""Distributions of random operators: what is seen of a wrong one, and that right ones are left in peace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from minimizer.inside.messages import OtherDraws
from minimizer.inside.referee import distributions
from minimizer.inside.referee.call import Call
from minimizer.inside.referee.distributions import DISTINCT, RUNS, Apart, Runs
from minimizer.inside.values import snapshot
from minimizer.inside.watch.draws import Draws, raises_on_draws

X = torch.linspace(-1, 1, 1200).reshape(5, 6, 8, 5)


def noted(function: Any, *inputs: Any) -> Draws:
    module = fx.symbolic_trace(function)
    found = Draws()
    found.note(7, module, call_of(module, *inputs))
    return found


def call_of(module: fx.GraphModule, *inputs: Any) -> Call:
    return Call(module, list(inputs), snapshot.rng_state(), snapshot.global_state(), random=True)


def differing(function: Any, *inputs: Any) -> OtherDraws | None:
    return noted(function, *inputs).differing()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Runs, Runs]]:
    """The rounds of runs that were compared."""
    seen: list[tuple[Runs, Runs]] = []
    plain = distributions.difference

    def difference(*rounds: tuple[Runs, Runs]) -> Apart | None:
        seen.extend(rounds)
        return plain(*rounds)

    monkeypatch.setattr(distributions, "difference", difference)
    return seen


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.dropout(x, 0.25),
        lambda x: torch.nn.functional.dropout2d(x, 0.5),
        lambda x: torch.rand_like(x),
        lambda x: torch.bernoulli(x.abs()),
        lambda x: x.exponential_(2.0),
        lambda x: torch.randint_like(x, 7),
        lambda x: torch.normal(x, 0.5),
        lambda x: torch.randn_like(x.sum()),
        lambda x: torch.nn.functional.rrelu(x, training=True),
    ],
    ids=["dropout", "of channels", "rand", "bernoulli", "exponential", "randint", "normal", "one number", "rrelu"],
)
def test_inductors_own_operators_draw_as_eagers_do(function: Any, compared: list[tuple[Runs, Runs]]) -> None:
    assert differing(function, X.clone()) is None
    assert [(one.distinct, other.distinct) for one, other in compared] == [(RUNS, RUNS)] * 2


@pytest.mark.fault_behind("random_replaced")
@pytest.mark.parametrize(
    ("compiled", "what"),
    [
        (lambda x: torch.nn.functional.dropout(x, 0.5), "from another distribution than eager (zeros: "),
        (lambda x: torch.nn.functional.dropout(x, 0.3) * 0.5, "from another distribution"),
        (lambda x: x * torch.nn.functional.dropout(torch.ones(5, 6, 8, 1), 0.3), "from another distribution"),
        (lambda x: x * (torch.arange(1200).reshape(5, 6, 8, 5) % 3 > 0), str(Apart(DISTINCT, RUNS, 1))),
    ],
    ids=["another rate", "another scale", "one mask for several elements", "no draw"],
)
def test_a_dropout_that_is_spread_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch, compiled: Any, what: str) -> None:
    monkeypatch.setattr(torch._inductor, "compile", lambda graph, inputs: lambda *args: (compiled(*args),))
    found = differing(lambda x: torch.nn.functional.dropout(x, 0.3), X + 2)
    assert found is not None and (found.graph, found.node) == (7, "dropout")
    assert found.what.startswith("torch.nn.functional.dropout draws ") and what in found.what


def test_an_operator_that_no_compiler_takes_alone_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> Any:
        raise NotImplementedError("not alone")

    monkeypatch.setattr(torch._inductor, "compile", refuses)
    assert differing(lambda x: torch.rand_like(x), X) is None


def test_equal_operators_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[fx.GraphModule] = []

    def compile(graph: fx.GraphModule, inputs: Any) -> Any:
        compiled.append(graph)
        return graph

    monkeypatch.setattr(torch._inductor, "compile", compile)
    assert differing(lambda x: torch.rand_like(x) + torch.rand_like(x) + torch.randn_like(x), X) is None
    assert len(compiled) == 2


@pytest.mark.parametrize(
    ("function", "depends"),
    [
        (lambda x: torch.normal(x, -1.0), False),
        (lambda x: torch.rand_like(x) + x.view(7), False),
        (lambda x: torch.linalg.cholesky(torch.diag(torch.rand_like(x) - 2)), True),
        (lambda x: torch.rand_like(x), True),
    ],
    ids=["the operator refuses", "beside a draw", "behind a draw", "it does not raise"],
)
def test_an_error_behind_a_draw_may_depend_on_it(function: Any, depends: bool) -> None:
    module = fx.symbolic_trace(function)
    assert raises_on_draws(module, call_of(module, torch.ones(3))) is depends


def test_nothing_is_run_once_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, compared: list[tuple[Runs, Runs]]
) -> None:
    monkeypatch.setattr(distributions, "SECONDS", 0.0)
    assert differing(lambda x: torch.nn.functional.dropout(x, 0.5), X) is None
    assert compared == []


def test_the_random_state_is_as_before() -> None:
    state = torch.get_rng_state()
    differing(lambda x: torch.rand_like(x), X)
    assert torch.equal(torch.get_rng_state(), state)

"""Which results are off to one side, and which are only rounded."""

from __future__ import annotations

import pytest
import torch

from minimizer.inside.referee.bias import LEAST_CALLS, MOST_SPREAD, Bias, Sample, bias, sample


def cut(x: torch.Tensor) -> torch.Tensor:
    return (x.float().view(torch.int32) & -65536).view(torch.float32).bfloat16()


def sampled(value: torch.Tensor, truth: torch.Tensor) -> Sample:
    found = sample(value, truth)
    assert found is not None
    return found


def of_calls(compiled: object, *, calls: int = 24, positive: bool = False, repeated: bool = False) -> Bias | None:
    """The bias of a cast to bfloat16 on so many calls, against eager's, which rounds."""
    torch.manual_seed(0)
    inputs = [torch.randn(40, 20) for _ in range(calls)]
    inputs = [inputs[0] if repeated else x.abs() if positive else x for x in inputs]
    eager = [sampled(x.bfloat16(), x.double()) for x in inputs]
    return bias(eager, [sampled(compiled(x), x.double()) for x in inputs])  # type: ignore[operator]


def test_a_cast_that_cuts_is_off_towards_zero() -> None:
    found = of_calls(cut)
    assert found is not None and found.side == "towards zero"
    assert 0.2 < found.mean < 0.4 and abs(found.eager) < 0.02 and found.error < 0.02


def test_a_result_that_grows_is_off_away_from_zero() -> None:
    found = of_calls(lambda x: (x * (1 + 2.0**-9)).bfloat16())
    assert found is not None and found.side == "away from zero"


def test_a_constant_that_is_added_is_off_upwards() -> None:
    found = of_calls(lambda x: (x + 2.0**-8).bfloat16())
    assert found is not None and found.side == "upwards"


@pytest.mark.parametrize("repeated", [False, True], ids=["other inputs", "the same inputs in each call"])
@pytest.mark.parametrize("positive", [False, True])
def test_another_rounding_is_none(positive: bool, repeated: bool) -> None:
    assert of_calls(lambda x: (x * (1 + 2.0**-24)).bfloat16(), positive=positive, repeated=repeated) is None


def test_one_element_that_is_always_rounded_to_the_same_side_is_none() -> None:
    eager, compiled = Sample(-0.1, -0.1, 0.3, 1), Sample(0.4, 0.4, 0.4, 1)
    assert bias([eager] * 24, [compiled] * 24) is None


def test_what_large_terms_cancel_to_is_none() -> None:
    eager, compiled = Sample(0.1, 0.1, MOST_SPREAD + 1, 10**4), Sample(9.0, 9.0, MOST_SPREAD, 10**4)
    assert bias([eager] * 24, [compiled] * 24) is None
    assert bias([eager._replace(spread=1.0)] * 24, [compiled] * 24) is not None


def test_a_few_calls_say_nothing() -> None:
    assert of_calls(cut, calls=LEAST_CALLS) is not None
    assert of_calls(cut, calls=LEAST_CALLS - 1) is None


def test_what_is_no_number_is_left_out() -> None:
    truth = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    off = truth.float() * torch.tensor([1.0, 1.0, float("nan")])
    assert sample(off, truth) == Sample(0.0, 0.0, 0.0, 2)
    assert sample(torch.zeros(3), torch.zeros(3).double()) is None
    assert sample(torch.full((3,), float("inf")), truth) is None

"""Golden values of a captured graph: what is copied together stays together."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import fx
from torch._functorch import predispatch

from minimizer.inside.graph import golden
from minimizer.inside.graph.golden import GoldenGraph, storable
from minimizer.inside.graph.literals import literal
from minimizer.inside.values.snapshot import rng_state


def test_inputs_keep_the_storage_they_share() -> None:
    module = fx.symbolic_trace(lambda whole, head: whole.mul_(0.5) + head.sum())
    whole = torch.ones(4)
    graph = GoldenGraph(module, [whole, whole[:2]], rng_state(), {node.name: node for node in module.graph.nodes})
    found = graph.values(["whole", "head", "mul_"])
    assert found["whole"].tolist() == [1.0] * 4
    found["whole"][0] = 7.0
    assert found["head"].tolist() == [7.0, 1.0]
    assert found["mul_"].tolist() == [0.5] * 4
    assert whole.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("keys", "ran"),
    [
        (["whole"], []),
        (["first"], ["first"]),
        (["first@second"], ["first"]),
        (["third", "first"], ["first", "second", "third"]),
    ],
)
def test_a_run_ends_behind_the_last_value_that_is_asked_for(keys: list[str], ran: list[str]) -> None:
    """A cut at the beginning of a large model costs no run of the whole."""
    seen: list[str] = []

    def noted(value: torch.Tensor, name: str) -> torch.Tensor:
        seen.append(name)
        return value + 1

    graph = fx.Graph()
    value = graph.placeholder("whole")
    names = {"whole": value}
    for name in ("first", "second", "third", "fourth"):
        names[name] = value = graph.call_function(noted, (value, name))
    graph.output(value)
    found = GoldenGraph(fx.GraphModule({}, graph), [torch.zeros(2)], rng_state(), names).values(keys)
    assert (sorted(found), seen) == (sorted(keys), ran)
    steps = {"whole": 0.0, "first": 1.0, "first@second": 1.0, "third": 3.0}
    assert {key: value[0].item() for key, value in found.items()} == {key: steps[key] for key in keys}


def test_a_run_that_ends_inside_of_a_transform_leaves_it() -> None:
    """What is asked next would run within it, and have none but its wrappers."""
    graph = fx.Graph()
    whole = graph.placeholder("whole")
    graph.call_function(predispatch._vmap_increment_nesting, (2, "error"))
    inner = graph.call_function(predispatch._add_batch_dim, (whole, 0, 1))
    outer = graph.call_function(predispatch._remove_batch_dim, (inner, 1, 2, 0))
    graph.call_function(predispatch._vmap_decrement_nesting)
    graph.output(outer)
    names = {"whole": whole, "inner": inner, "outer": outer}
    golden_graph = GoldenGraph(fx.GraphModule({}, graph), [torch.ones(2, 3)], rng_state(), names)
    assert golden_graph.values(["inner@outer"]) == {}
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert sorted(golden_graph.values(["whole", "outer"])) == ["outer", "whole"]


@pytest.mark.parametrize(
    ("special", "dtype", "text"),
    [
        ([float("nan"), float("inf")], torch.float32, 'torch.full((9, 9), float("nan"))'),
        ([float("-inf")], torch.float16, 'torch.full((9, 9), float("-inf"), dtype=torch.float16)'),
        ([], torch.float32, None),
    ],
)
def test_of_a_large_value_that_is_not_finite_a_simple_one_may_do(
    special: list[float], dtype: torch.dtype, text: str | None
) -> None:
    value = torch.ones(9, 9, dtype=dtype)
    value[0, : len(special)] = torch.tensor(special, dtype=dtype)
    assert golden.literal(value) is None
    assert golden.nonfinite(value) == text


def test_integers_are_finite() -> None:
    assert golden.nonfinite(torch.ones(9, 9, dtype=torch.int64)) is None


def test_views_of_one_storage_in_several_dtypes_can_be_saved(tmp_path: Path) -> None:
    """A window between ``view_as_complex`` and what uses both has such inputs."""
    x = torch.randn(4, 2)
    values = {"x": x, "pairs": torch.view_as_complex(x), "part": x[1:]}
    torch.save(storable(values), tmp_path / "golden.pt")
    found = torch.load(tmp_path / "golden.pt", weights_only=True)
    assert all(torch.equal(found[key], value) for key, value in values.items())
    assert found["part"].untyped_storage().data_ptr() == found["x"].untyped_storage().data_ptr()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("real", "imag"), [*product((0.0, -0.0, 1.5, -2.0), repeat=2), (NAN, -0.0), (0.0, INF), (-INF, 1.0)]
)
def test_the_text_of_a_complex_number_has_the_same_bits(real: float, imag: float) -> None:
    """``-0+0j`` is 0j, and ``-1j`` has a real part of -0.0: a graph with such a constant would not show what its script does."""
    value = complex(real, imag)
    in_tensor = golden.literal(torch.tensor([value], dtype=torch.complex128))
    assert in_tensor is not None
    for made in (eval(literal(value)["code"]), eval(in_tensor, {"torch": torch}).tolist()[0]):
        for part, given in ((made.real, real), (made.imag, imag)):
            assert repr(part) == repr(given) and math.copysign(1, part) == math.copysign(1, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_for_a_large_value_with_negative_zeros_one_of_those_may_do(dtype: torch.dtype, zero: float) -> None:
    value = torch.ones(9, 9, dtype=dtype)
    value[3, 4] = zero
    text = golden.negative_zeros(value)
    has_any = dtype.is_floating_point and math.copysign(1, zero) < 0
    assert (text is not None) is has_any
    if text is not None:
        made = eval(text)
        assert made.shape == value.shape and made.dtype is dtype and bool(made.signbit().all())

"""The comparator sees everything a caller can see, and nothing else.

``CORPUS`` holds one call per way of being different. The mutation guard at the end takes the comparator's checks out in turn and
shows that an example of the corpus then goes unnoticed: no check is there for nothing, and none can be lost in silence.
"""

from __future__ import annotations

import json
import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from minimizer.inside.referee import compare as comparator
from minimizer.inside.referee.call import Side
from minimizer.inside.rulings import Unlike
from minimizer.inside.values.boundary import Difference, boundary_of
from minimizer.inside.values.elements import Tolerance
from minimizer.inside.wire import plain

NAN, INF = math.nan, math.inf


def compare(
    expected: Any,
    actual: Any,
    tolerance: Tolerance | None = None,
    *,
    inputs: tuple[list[Any], list[Any]] = ([], []),
    grads: tuple[list[Any], list[Any]] = ([], []),
) -> list[Difference]:
    """The differences of two results, of two sides' inputs after the call, and of their gradients."""
    sides = zip((expected, actual), inputs, grads, strict=True)
    return comparator.compare(*(Side(*side) for side in sides), tolerance)


def seen(expected: Any, actual: Any, **sides: Any) -> set[tuple[str, str, str]]:
    return {(d.where, d.kind, d.what) for d in compare(expected, actual, **sides)}


@dataclass
class Call:
    """One call on both sides."""

    expected: Any
    actual: Any
    sides: dict[str, Any]


def call(expected: Any, actual: Any, **sides: Any) -> Call:
    return Call(expected, actual, sides)


def shared_and_own() -> Call:
    base, copy = torch.zeros(4), torch.zeros(4)
    return call(base[:2], copy[:2], inputs=([base], [torch.zeros(4)]))


CORPUS: dict[str, tuple[Call, tuple[str, str, str]]] = {
    "value": (call(torch.ones(3), torch.tensor([1.0, 1.0, 1.1])), ("output", "wrong_output", "value")),
    "nan": (call(torch.tensor([NAN, 1.0]), torch.tensor([NAN, NAN])), ("output", "wrong_output", "nan")),
    "inf": (call(torch.tensor([INF, 1.0]), torch.tensor([-INF, 1.0])), ("output", "wrong_output", "inf")),
    "input": (
        call(None, None, inputs=([torch.ones(2)], [torch.zeros(2)])),
        ("input[0]", "wrong_output", "value"),
    ),
    "gradient": (
        call(None, None, grads=([None, torch.ones(2)], [None, torch.zeros(2)])),
        ("grad[1]", "wrong_gradient", "value"),
    ),
    "dtype": (call(torch.ones(2), torch.ones(2).half()), ("output", "wrong_metadata", "dtype")),
    "shape": (call(torch.ones(5), torch.ones(1)), ("output", "wrong_metadata", "shape")),
    "stride": (call(torch.ones(2, 3), torch.ones(3, 2).t()), ("output", "wrong_metadata", "stride")),
    "aliasing": (shared_and_own(), ("output", "wrong_metadata", "aliasing")),
    "requires_grad": (
        call(torch.ones(2, requires_grad=True), torch.ones(2)),
        ("output", "wrong_metadata", "requires_grad"),
    ),
    "type": (call([torch.ones(2)], [None]), ("output[0]", "wrong_output", "type")),
    "python": (call((1, "a"), (2, "a")), ("output[0]", "wrong_output", "python")),
}

# What each check alone can see. `check_structure` and the rest are the names in `comparator.CHECKS`.
SEEN_ONLY_BY = {
    "check_values": "value",
    "check_nan": "nan",
    "check_inf": "inf",
    "check_gradients": "gradient",
    "check_dtype": "dtype",
    "check_shape": "shape",
    "check_stride": "stride",
    "check_aliasing": "aliasing",
    "check_requires_grad": "requires_grad",
    "check_structure": "type",
    "check_python": "python",
}


@pytest.mark.parametrize("name", CORPUS)
def test_flags_every_example_of_the_corpus(name: str) -> None:
    example, difference = CORPUS[name]
    assert seen(example.expected, example.actual, **example.sides) == {difference}


@pytest.mark.parametrize("check", [check.__name__ for check in comparator.CHECKS])
def test_without_one_check_an_example_goes_unnoticed(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example, difference = CORPUS[SEEN_ONLY_BY[check]]
    assert seen(example.expected, example.actual, **example.sides) == {difference}
    blind = tuple(each for each in comparator.CHECKS if each.__name__ != check)
    monkeypatch.setattr(comparator, "CHECKS", blind)
    assert seen(example.expected, example.actual, **example.sides) == set()


# --- trap 5: what torch._dynamo.utils.same is blind to --------------------------------------------------------------------------


def test_trap_05_shared_nan_hides_nothing() -> None:
    expected, actual = torch.tensor([NAN, 1.0, 2.0, 3.0]), torch.tensor([NAN, 4.0, 5.0, 6.0])
    assert torch._dynamo.utils.same(expected, actual, expected.double(), equal_nan=True), (
        "upstream sees it: drop the trap"
    )
    (difference,) = compare(expected, actual)
    assert (difference.what, difference.mismatched, difference.index) == ("value", 3, (1,))


def test_trap_05_shapes_5_and_1_differ() -> None:
    assert seen(torch.ones(5), torch.ones(1)) == {("output", "wrong_metadata", "shape")}
    expected, actual = torch.arange(5.0), torch.zeros(1)
    assert ("output", "wrong_output", "value") in seen(expected, actual)


def test_trap_05_one_bad_element_of_16_million() -> None:
    expected = torch.randn(4096, 4096, generator=torch.Generator().manual_seed(0))
    actual = expected.clone()
    actual[4000, 7] += 0.3
    assert torch._dynamo.utils.same(expected, actual, expected.double(), tol=1e-3), "upstream sees it: drop the trap"
    (difference,) = compare(expected, actual)
    assert (difference.mismatched, difference.elements, difference.index) == (1, 4096 * 4096, (4000, 7))
    assert difference.max_abs == pytest.approx(0.3, rel=1e-5)


def test_trap_05_zeros_are_not_5e_4() -> None:
    expected, actual = torch.full((100,), 5e-4), torch.zeros(100)
    (difference,) = compare(expected, actual)
    assert (difference.what, difference.mismatched, difference.max_rel) == ("value", 100, 1.0)


def test_trap_05_wrong_integers_are_flagged() -> None:
    assert seen(torch.tensor([1, 2]), torch.tensor([1, 3])) == {("output", "wrong_output", "value")}


def test_trap_05_stride_is_looked_at() -> None:
    assert seen(torch.ones(2, 3), torch.ones(3, 2).t()) == {("output", "wrong_metadata", "stride")}


def test_trap_05_aliasing_is_looked_at() -> None:
    base = torch.zeros(4)
    assert seen([base[:2], base[2:]], [torch.zeros(2), torch.zeros(2)]) == {("output[1]", "wrong_metadata", "aliasing")}
    assert seen([torch.zeros(2), torch.zeros(2)], [base[:2], base[2:]]) == {("output[1]", "wrong_metadata", "aliasing")}


def test_a_difference_names_the_place_that_each_side_is_an_alias_of() -> None:
    x, y, base = torch.zeros(4), torch.zeros(4), torch.zeros(8)
    inputs = ([x, y], [x, y])
    (shared,) = compare([base[:4], base[4:], x[:2]], [base[:4], base[4:], y[:2]], inputs=inputs)
    assert (shared.where, shared.expected_alias, shared.actual_alias) == ("output[2]", "input[0]", "input[1]")
    (own,) = compare([base[:4], base[4:]], [base[:4], torch.zeros(4)])
    assert (own.where, own.expected_alias, own.actual_alias) == ("output[1]", "output[0]", "")
    (merged,) = comparator.compare(Side([x, x.view(4)]), Side([x, x]), identity=True)
    assert (merged.where, merged.expected_alias, merged.actual_alias) == ("output[1]", "", "output[0]")


@pytest.mark.parametrize(
    ("expected", "actual", "unlike"),
    [
        (torch.eye(2), torch.eye(2).to_sparse(), Unlike.LAYOUT),
        (torch.eye(2), torch.empty(2, 2, device="meta"), Unlike.DEVICE),
        (torch.eye(2), None, Unlike.ABSENT),
        (None, torch.eye(2), Unlike.ABSENT),
        (torch.eye(2), "None", Unlike.CLASS),
        ((torch.eye(2),), [torch.eye(2)], Unlike.CLASS),
    ],
)
def test_a_difference_of_type_says_what_is_unlike(expected: Any, actual: Any, unlike: Unlike) -> None:
    (found,) = comparator.check_structure(boundary_of([("output", expected, actual)]))
    assert (found.what, found.unlike) == ("type", unlike)


def test_trap_05_requires_grad_is_looked_at() -> None:
    expected = torch.ones(2, requires_grad=True) * 2
    assert seen(expected, expected.detach().clone()) == {("output", "wrong_metadata", "requires_grad")}


def test_trap_05_input_mutation_is_looked_at() -> None:
    x = torch.ones(3)
    found = seen(x, x.clone(), inputs=([x], [x + 1]))
    assert ("input[0]", "wrong_output", "value") in found


# --- trap 16: what hashes of results are blind to --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        torch.neg,
        lambda x: x.flip(0),
        lambda x: torch.cat([x[1:2], x[:1], x[2:]]),
        lambda x: x * torch.tensor([1, -1]).repeat(32),
    ],
    ids=["sign", "reversed", "two swapped", "every other sign"],
)
def test_trap_16_sign_flips_and_permutations_are_seen(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    assert seen(x, change(x)) == {("output", "wrong_output", "value")}


# --- what does not count --------------------------------------------------------------------------------------------------------


def test_strides_of_dimensions_of_size_one_and_zero_do_not_count() -> None:
    assert seen(torch.empty_strided((1, 3), (3, 1)).fill_(1), torch.empty_strided((1, 3), (17, 1)).fill_(1)) == set()
    assert seen(torch.empty_strided((0, 3), (3, 1)), torch.empty_strided((0, 3), (1, 9))) == set()


def test_nan_payload_and_the_sign_of_zero_do_not_count() -> None:
    quiet = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert seen(quiet, quiet.flip(0)) == set()
    assert seen(torch.tensor([0.0, -0.0]), torch.tensor([-0.0, 0.0])) == set()


def test_strides_of_gradients_do_not_count() -> None:
    assert seen(None, None, grads=([torch.ones(2, 3)], [torch.ones(3, 2).t()])) == set()


def test_rounding_within_the_tolerance_of_the_dtype_does_not_count() -> None:
    x = torch.randn(100, generator=torch.Generator().manual_seed(0))
    assert seen(x, x * (1 + 1e-6)) == set()
    assert seen(x.bfloat16(), (x * 1.004).bfloat16()) == set()
    assert seen(x.double(), x.double() * (1 + 1e-6)) != set()


def test_padding_does_not_count() -> None:
    padded = torch.zeros(4, 8)
    assert seen(torch.zeros(4, 8)[:, :5], padded[:, :5]) == set()


def test_views_of_empty_storages_share_nothing() -> None:
    empty = torch.zeros(0)
    assert seen([empty, empty.view(0, 3)], [torch.zeros(0), torch.zeros(0, 3)]) == set()


def test_a_parameter_may_come_back_as_a_tensor() -> None:
    assert seen(torch.nn.Parameter(torch.ones(1)), torch.ones(1, requires_grad=True)) == set()


def test_lists_of_fx_are_lists() -> None:
    assert seen([1, 2], torch.fx.immutable_collections.immutable_list([1, 2])) == set()
    assert seen(torch.ones(2).shape, (2,)) == set()


# --- details of each check ------------------------------------------------------------------------------------------------------


def test_difference_tells_the_tolerances_that_would_pass() -> None:
    (difference,) = compare(torch.tensor([1.0, 100.0]), torch.tensor([1.0, 101.0]))
    assert difference.max_abs == 1.0
    assert difference.max_rel == pytest.approx(0.01)
    assert difference.required_atol == pytest.approx(1 - 1.3e-4)
    assert difference.required_rtol == pytest.approx(0.01, rel=1e-3)
    assert (difference.expected, difference.actual) == ("100", "101")
    assert difference.required_atol is not None
    assert (
        compare(torch.tensor([100.0]), torch.tensor([101.0]), Tolerance(1.3e-6, difference.required_atol + 1e-6)) == []
    )


def test_the_script_s_own_tolerance_replaces_the_default() -> None:
    expected, actual = torch.ones(2), torch.ones(2) + 1e-3
    assert seen(expected, actual) != set()
    assert seen(expected, actual, tolerance=Tolerance(1e-2, 0.0)) == set()
    assert seen(expected, expected + 1e-6, tolerance=Tolerance(0.0, 0.0)) != set()


def test_infinite_numbers_are_sent_as_text() -> None:
    (difference,) = compare(torch.zeros(1), torch.ones(1))
    data = json.loads(json.dumps(plain(difference), allow_nan=False))
    assert data["required_rtol"] == "inf"
    assert data["index"] == [0]
    assert "1 of 1 elements" in str(difference)


def test_wrong_values_come_before_metadata() -> None:
    found = compare([torch.ones(2), torch.ones(2)], [torch.ones(2).half(), torch.zeros(2)])
    assert [d.kind for d in found] == ["wrong_output", "wrong_metadata"]


def test_large_integers_are_exact() -> None:
    assert seen(torch.tensor([2**53]), torch.tensor([2**53 + 1])) == {("output", "wrong_output", "value")}
    assert seen(torch.tensor([2**62]), torch.tensor([-(2**62)])) == {("output", "wrong_output", "value")}
    big = torch.tensor([2**63], dtype=torch.uint64)
    assert seen(big, torch.tensor([2**63 + 1], dtype=torch.uint64)) == {("output", "wrong_output", "value")}


def test_integer_of_another_width_is_metadata_only() -> None:
    assert seen(torch.tensor([1, -2]), torch.tensor([1, -2], dtype=torch.int8)) == {
        ("output", "wrong_metadata", "dtype")
    }


def test_missing_elements_are_wrong_output() -> None:
    assert seen(torch.ones(3), torch.ones(2)) == {("output", "wrong_output", "shape")}
    assert seen(torch.ones(1), torch.ones(0)) == {("output", "wrong_output", "shape")}


def test_values_that_follow_from_another_dtype_come_behind_it() -> None:
    half = torch.tensor([INF, 1.0], dtype=torch.half)
    assert [d.what for d in compare(torch.tensor([1e6, 1.0]), half)] == ["dtype", "inf"]
    assert [d.what for d in compare(torch.tensor([3.0, 1.0]), half)] == ["inf", "dtype"]  # no overflow of eager's
    both = compare((torch.tensor([1e6]), torch.zeros(1)), (torch.tensor([INF]).half(), torch.ones(1)))
    assert [(d.where, d.what) for d in both] == [("output[1]", "value"), ("output[0]", "dtype"), ("output[0]", "inf")]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_values_nan_and_conjugates(dtype: torch.dtype) -> None:
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=dtype)
    assert seen(z.conj(), torch.tensor([1 - 2j, 3 + 1j], dtype=dtype)) == set()
    assert seen(z, z.conj()) == {("output", "wrong_output", "value")}
    assert seen(z, torch.tensor([complex(NAN, 2), 3 - 1j], dtype=dtype)) == {("output", "wrong_output", "nan")}


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 2.0, 4.0]).to(dtype)
    assert seen(x, x.clone()) == set()
    assert seen(x, torch.tensor([1.0, 2.0, 8.0]).to(dtype)) == {("output", "wrong_output", "value")}


def test_overflow_to_infinity_is_no_value_difference() -> None:
    assert seen(torch.tensor([60000.0]).half(), torch.tensor([INF]).half()) == {("output", "wrong_output", "inf")}


def test_sparse_tensors_are_compared_by_value_and_layout() -> None:
    dense = torch.eye(3)
    assert seen(dense.to_sparse(), dense.to_sparse()) == set()
    assert seen(dense.to_sparse(), (2 * dense).to_sparse()) == {("output", "wrong_output", "value")}
    assert ("output", "wrong_metadata", "type") in seen(dense.to_sparse(), dense)


def test_expanded_tensors() -> None:
    assert seen(torch.ones(1).expand(5), torch.ones(1).expand(5)) == set()
    assert seen(torch.ones(1).expand(5), torch.ones(5)) == {("output", "wrong_metadata", "stride")}


def test_missing_gradient_is_wrong_and_a_gradient_of_zeros_is_metadata() -> None:
    def found(expected: Any, actual: Any) -> set[tuple[str, str, str]]:
        return seen(None, None, grads=([expected], [actual]))

    assert found(torch.ones(2), None) == {("grad[0]", "wrong_gradient", "type")}
    assert found(None, torch.zeros(2)) == {("grad[0]", "wrong_metadata", "type")}
    assert found(torch.tensor([1.0, NAN]), torch.tensor([1.0, 1.0])) == {("grad[0]", "wrong_gradient", "nan")}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(1, 2), (True, 1), (1.0, 1), (1.0, 1.1), ("a", "b"), (None, 0), ({"a": 1}, {"a": 2}), ({1}, {2}), (1j, 2j)],
)
def test_plain_values_that_differ(expected: Any, actual: Any) -> None:
    assert seen(expected, actual) != set()
    assert seen(expected, expected) == set()


def test_plain_nan_equals_itself() -> None:
    assert seen((NAN, INF), (float("nan"), INF)) == set()
    assert seen(INF, 1.0) != set()


def test_containers() -> None:
    point = namedtuple("point", "x y")
    one = torch.ones(1)
    assert seen(point(one, 2), point(one, 3)) == {("output[1]", "wrong_output", "python")}
    assert seen((1, 2), point(1, 2)) == {("output", "wrong_metadata", "type")}
    assert seen([1, 2], [1]) == {("output", "wrong_output", "type")}
    assert seen([1, 2], (1, 2)) == {("output", "wrong_metadata", "type")}
    assert seen({"a": 1, "b": 2}, {"b": 2, "a": 1}) == {("output", "wrong_metadata", "python")}
    assert seen({"a": [one]}, {"a": [one + 1]}) == {("output['a'][0]", "wrong_output", "value")}


def test_containers_that_contain_themselves() -> None:
    one: list[Any] = [1]
    one.append(one)
    other: list[Any] = [2]
    other.append(other)
    assert seen(one, other) == {("output[0]", "wrong_output", "python")}


def test_a_container_met_twice_is_compared_twice() -> None:
    one, other = [1], [2]
    assert len(compare((one, one), (other, other))) == 2
    for _ in range(100):  # lists made for each walk may get the address of one that is gone
        assert compare(None, None, grads=([torch.ones(1)], [torch.zeros(1)]))


def test_result_objects_are_compared_by_their_attributes() -> None:
    @dataclass
    class Result:
        logits: torch.Tensor

    assert seen(Result(torch.ones(1)), Result(torch.ones(1))) == set()
    assert seen(Result(torch.ones(1)), Result(torch.zeros(1))) == {("output.logits", "wrong_output", "value")}


def test_inner_tensors_of_a_wrapper_subclass() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    expected, actual = TwoTensor(torch.ones(2), torch.ones(2)), TwoTensor(torch.ones(2), torch.zeros(2))
    assert seen(expected, actual) == {("output.b", "wrong_output", "value")}


def test_pieces_give_the_same_answer_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, actual = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6)
    actual[2, 3], actual[3, 5], actual[0, 1] = NAN, 100.0, 2.0
    whole = compare(expected, actual)
    monkeypatch.setattr("minimizer.inside.values.elements.PIECE", 5)
    assert compare(expected, actual) == whole
    assert [d.index for d in whole] == [(0, 1), (2, 3)]


def test_comparing_changes_nothing() -> None:
    expected, actual = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    version = expected._version
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compare(expected, actual)
    assert expected._version == version
    assert torch.equal(expected, torch.ones(3))


# --- real compilations ----------------------------------------------------------------------------------------------------------


def test_seeded_softmax_in_bf16_is_healthy() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 64).bfloat16()
    assert compare(torch.softmax(x, -1), torch.compile(lambda t: torch.softmax(t, -1))(x)) == []


def test_outputs_that_share_storage_in_eager_share_it_when_compiled() -> None:
    def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y.view(-1), x.t(), *y.chunk(2), y.expand(2, 4, 6), x.unsqueeze(0)

    one, other = torch.ones(4, 6), torch.ones(4, 6)
    assert compare(views(one), torch.compile(views)(other), inputs=([one], [other])) == []


def test_difference_is_a_plain_value() -> None:
    (difference,) = compare(1, 2)
    assert difference == Difference("output", "wrong_output", "python", "1", "2")

"""What counts as an effect of the compiler's wrappers, between the ends of two runs without the compiler."""

from __future__ import annotations

import pytest

from minimizer.engine.between.wrapper_effect import NAMES, Effect, Side, differences, told
from minimizer.engine.child.exact_log import Entry, ExactLog, Glance, Look


def log(state: dict[str, Entry], *, backwards: int = 0) -> ExactLog:
    end = Look(event="end", unit=1, full=True, changed=state)
    return ExactLog(looks=[end], backwards=backwards, wrappers=1)


def number(value: str, kind: str = "int") -> Entry:
    return {"type": kind, "value": value}


def tensor(**values: str) -> Entry:
    return {"type": "Tensor", "dtype": "torch.float32", "shape": "[2]", **values}


@pytest.mark.parametrize(
    ("bare", "wrapped", "differs"),
    [
        (number("5"), number("0"), True),
        (number("5"), number("6"), False),  # whoever counts modules counts the wrapper too
        (number("True", "bool"), number("False", "bool"), False),
        (number("'Net'", "str"), number("'OptimizedModule'", "str"), False),
        (number("1.0", "float"), number("1.0000001", "float"), False),
        (number("1.0", "float"), number("1.1", "float"), True),
        (tensor(values="[1.0, 2.0]"), tensor(values="[1.0, 2.5]"), True),
        (tensor(values="[1.0, 2.0]"), tensor(values="[1.0, 2.0000002]"), False),
        (tensor(values="#a", norm="3.5"), tensor(values="#b", norm="3.5"), False),
        (tensor(values="#a", norm="3.5"), tensor(values="#b", norm="4.5"), True),
        (tensor(values="[1.0, 2.0]"), {"alias": "y"}, False),
        ({"type": "list", "length": "9"}, {"type": "list", "length": "3"}, True),
        ({"type": "list", "length": "9"}, {"type": "list", "length": "10"}, False),
    ],
)
def test_values_that_differ_count_and_names_do_not(bare: Entry, wrapped: Entry, *, differs: bool) -> None:
    assert bool(differences(log({"x": bare}), log({"x": wrapped}))) is differs


@pytest.mark.parametrize(
    ("bare", "wrapped", "differs"),
    [
        ("'loss 0.06'", "'loss 5.9'", True),
        ("'0.weight 0.5'", "'_orig_mod.0.weight 0.5'", False),
        ("'compiled: no 1'", "'compiled: yes 7'", False),
        ("'loss 0.5000001'", "'loss 0.5000002'", False),
    ],
)
def test_printed_lines_differ_by_their_numbers(bare: str, wrapped: str, *, differs: bool) -> None:
    ends = [log({"printed text[0]": number(text, "str")}) for text in (bare, wrapped)]
    assert bool(differences(ends[0], ends[1])) is differs


def test_what_is_below_a_wrapper_has_the_path_that_it_has_without() -> None:
    bare = log({"net.weight": tensor(values="[1.0]"), "d['weight']": number("1.0", "float")})
    wrapped = log({"net._orig_mod.weight": tensor(values="[2.0]"), "d['_orig_mod.weight']": number("3.0", "float")})
    assert differences(bare, wrapped).keys() == {"net.weight", "d['weight']"}


def test_what_a_container_of_another_size_holds_stands_at_other_places() -> None:
    bare = log({"m": {"type": "list", "length": "2"}, "m[1].weight": tensor(values="[1.0]")})
    wrapped = log({"m": {"type": "list", "length": "3"}, "m[1].weight": tensor(values="[2.0]")})
    assert differences(bare, wrapped) == {}


def test_another_number_of_backwards_is_another_course() -> None:
    assert differences(log({}, backwards=2), log({}, backwards=1)) == {"course": Side("2 backwards", "1 backwards")}


def test_the_verdict_has_the_line_both_values_and_the_cure() -> None:
    effect = Effect("printed text[0]", Side("'loss 0.06'", "'loss 5.9'"), Glance(key="k", sort=NAMES, line=12))
    said = told(effect, "line 12", "for name, p in model.named_parameters():")
    assert "line 0 of what the script prints is 'loss 5.9', and 'loss 0.06' without torch.compile" in said
    assert "line 12 (for name, p in model.named_parameters():) looks at the wrapper" in said
    assert "`model._orig_mod`" in said and "`model.compile()`" in said


def test_pages_of_numbers_are_told_where_they_differ() -> None:
    same = "0.1, " * 100
    effect = Effect("printed text[0]", Side(f"[{same}0.06]", f"[{same}5.9]"), Glance(key="k", sort=NAMES, line=12))
    said = told(effect, "line 12", "save(model.state_dict())")
    assert "0.1, 5.9], and ..." in said and "0.1, 0.06] without torch.compile" in said
    assert len(said) < 500, "the verdict is one paragraph of the report"

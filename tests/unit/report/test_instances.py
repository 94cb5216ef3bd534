"""Equal modules in words."""

from __future__ import annotations

import pytest

from minimizer.report.culprit import Culprit
from minimizer.report.instances import Instances, listed, others


def layers(*numbers: int) -> list[str]:
    return [f"layers.{number}" for number in numbers]


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["layers.37"], "layers.37"),
        (layers(*range(12)), "layers 0 to 11"),
        (layers(3, 1), "layers 1 and 3"),
        (layers(0, 1, 2, 5, 7, 8, 9), "layers 0 to 2, 5 and 7 to 9"),
        (["0", "1", "2"], "modules 0 to 2"),
        (["h.0.mlp", "h.1.mlp", "h.2.mlp"], "h 0 to 2 (mlp)"),
        (["a.0.experts.0", "a.0.experts.1", "a.1.experts.0"], "a.0.experts 0 and 1 and a.1.experts.0"),
        (["encoder", "decoder"], "encoder and decoder"),
        ([f"part{n}" for n in "abcdefg"], "parta, partb, partc, partd, parte and 2 more"),
    ],
)
def test_paths_that_differ_in_a_number_are_taken_together(paths: list[str], said: str) -> None:
    assert listed(paths) == said


def known(**paths: list[str]) -> Culprit:
    return Culprit(module="layers.0.mlp.act", nodes=["relu"], ops=["aten.relu"], instances=Instances(**paths))


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (known(wrong=layers(*range(12)), right=layers(*range(12, 64))), "the same in layers 1 to 11, and not in layers 12 to 63"),
        (known(wrong=layers(0), right=layers(1, 2, 3)), "not in layers 1 to 3"),
        (known(wrong=layers(0, 1), unclear=layers(2)), "the same in layers.1, and unclear in layers.2"),
        (Culprit(module="layers.0"), ""),
    ],
)  # fmt: skip
def test_what_is_known_of_equal_modules_is_a_phrase(culprit: Culprit, said: str) -> None:
    assert culprit.others == said


def test_modules_that_were_compiled_as_wholes_are_not_said_to_hold_the_same_fault() -> None:
    instances = Instances(wrong=layers(0, 1), right=layers(2), compared="modules")
    culprit = Culprit(module="layers.0.act", nodes=["relu"], instances=instances)
    assert others(culprit.model_dump()) == "fails by itself too in layers.1, and not in layers.2"


def test_an_entry_for_modules_of_which_nothing_else_is_known_is_called_by_all_of_them() -> None:
    entry = Culprit(module="layers.1", what="fails", instances=Instances(wrong=layers(1, 2, 3), right=layers(4)))
    assert (entry.module_name, entry.others) == ("layers 1 to 3, and not layers.4", "")

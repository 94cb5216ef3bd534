"""How alike two failures are."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.report.culprit import Culprit, GraphNode
from minimizer.report.model import Failure, Report
from minimizer.store.jobs.grouping import ALIKE, Similarity, features, similarity
from minimizer.vocabulary import Kind


def failed(*operators: str, message: str = "", graph: tuple[str, ...] = (), **failure: Any) -> dict[str, Any]:
    """The features of a failure."""
    report = Report(
        failure=Failure(kind=Kind.COMPILE_ERROR, message=message, **failure),
        culprits=[Culprit(ops=list(operators))],
        graph=[GraphNode(name=f"n{index}", op=op) for index, op in enumerate(graph)],
    )
    return features(report.to_json())


def test_the_same_is_alike() -> None:
    one = failed("aten.relu", message="no lowering for relu", exception_type="KeyError", graph=("aten.mm", "aten.relu"))
    assert similarity(one, one) == Similarity(1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (failed("aten.relu", message="no lowering for relu at all", exception_type="KeyError"), True),
        (failed("aten.gelu", message="no lowering for gelu", exception_type="KeyError"), False),
        (failed("aten.relu", message="stride mismatch of buffer", exception_type="KeyError"), False),
    ],
)
def test_what_differs_in_operators_or_words_is_told_apart(other: dict[str, Any], alike: bool) -> None:
    one = failed("aten.relu", message="no lowering for relu", exception_type="KeyError")
    assert (similarity(one, other).score >= ALIKE) is alike


def test_numbers_of_a_wrong_value_are_no_message() -> None:
    one, other = failed("aten.relu", message="expected 0.1, got 0.7"), failed("aten.relu", message="2 of 9 differ")
    assert similarity(one, other) == Similarity(1.0, None, None)


def test_nothing_known_is_not_alike() -> None:
    assert similarity(failed(), failed()).score == 0.0


def test_the_reason_names_the_figures() -> None:
    assert str(Similarity(1.0, 0.8, None)) == "90% alike: operators 100%, message 80%"

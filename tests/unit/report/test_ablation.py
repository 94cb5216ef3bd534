"""What each row of an ablation says: of the ladder by the rungs below it, of a part by whether the failure is there without it."""

from __future__ import annotations

import pytest

from minimizer.report.ablation import KINDS, of_compiler, of_ladder, rows
from minimizer.report.model import Ablated, Failure, Report, Rung
from minimizer.report.sections import ablation
from minimizer.vocabulary import Kind

LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def report(*outcomes: str, ablated: list[Ablated] | None = None) -> Report:
    ladder = [Rung(backend=name, outcome=one, seconds=0.5) for name, one in zip(LADDER, outcomes, strict=False)]
    return Report(ladder=ladder, ablation=ablated or [])


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        (("passes", "different"), ["what Dynamo captures: not at fault", "the first to fail, by what AOTAutograd makes of the graph"]),
        (("different", "crash"), ["the first to fail, by what Dynamo captures", "nothing new: it fails below, too"]),
        (("different", "passes"), ["the first to fail, by what Dynamo captures", "with what AOTAutograd makes of the graph the failure does not show"]),
        (("lost", "different"), ["nothing of what Dynamo captures", "the first to fail; the one below could not be judged"]),
    ],
)  # fmt: skip
def test_a_rung_says_what_it_adds_to_those_below(outcomes: tuple[str, ...], says: list[str]) -> None:
    assert [row.says for row in rows(report(*outcomes))] == says


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failure(kind=Kind.WRONG_OUTPUT), "wrong values"),
        (Failure(kind=Kind.WRONG_METADATA), "wrong metadata"),
        (Failure(kind=Kind.WRONG_METADATA, layout_only=True), "another memory layout"),
    ],
)
def test_values_that_are_equal_are_not_called_wrong(failure: Failure, words: str) -> None:
    one = report("passes", "different").model_copy(update={"failure": failure})
    assert [row.outcome for row in of_ladder(one)] == ["passes", words]


def test_the_rows_take_from_the_rungs_which_of_them_fail() -> None:
    ends = [("eager", "different", False), ("aot_eager", "timeout", None), ("inductor", "compile_error", True)]
    one = Report(ladder=[Rung(backend=name, outcome=word, seconds=0.5, fails=fails) for name, word, fails in ends])
    assert [(row.says, row.is_first_to_fail) for row in of_ladder(one)] == [
        ("what Dynamo captures: not at fault for the error", False),
        ("nothing of what AOTAutograd makes of the graph", False),
        ("the first to fail; the one below could not be judged", True),
    ]


@pytest.mark.parametrize(("outcome", "fails"), [("passes", False), ("different", True), ("lost", None)])
def test_a_rung_of_an_earlier_version_fails_by_its_outcome(outcome: str, *, fails: bool | None) -> None:
    assert Rung.read({"backend": "eager", "outcome": outcome, "seconds": 1}).fails is fails


@pytest.mark.parametrize(
    ("outcome", "of", "says"),
    [
        ("passes", "program", f"the failure needs {KINDS['lowerings']}"),
        ("fails", "program", f"the failure needs no {KINDS['lowerings']}"),
        ("fails otherwise", "program", "nothing: it fails in another way"),
        ("passes", "script", "the failure needs this module compiled"),
    ],
)
def test_a_part_that_is_taken_out_says_whether_the_failure_needs_it(outcome: str, of: str, says: str) -> None:
    one = Ablated(what="lowerings", of=of, outcome=outcome)  # type: ignore[arg-type]
    assert [row.says for row in rows(report(ablated=[one]))] == [says]


@pytest.mark.parametrize("outcome", ["fails", "fails otherwise"])
def test_a_script_that_fails_without_a_module_says_nothing(outcome: str) -> None:
    """It may do so for want of time, or by the change."""
    assert not [*rows(report(ablated=[Ablated(what="act", of="script", outcome=outcome)]))]


def test_all_of_it_is_one_table_and_an_issue_names_no_module_of_the_script() -> None:
    ablated = [
        Ablated(what="lowerings", of="program", outcome="passes"),
        Ablated(what="layers.3.act", of="script", outcome="passes"),
    ]
    one = report("passes", "passes", "passes", "different", ablated=ablated)
    lines = ablation(one).splitlines()
    assert lines[0] == "| compiled with | outcome | seconds | says |"
    assert lines[5].startswith("| `inductor` | wrong values | 0.5 | the first to fail")
    assert lines[6].startswith("| `lowerings` off | passes |  | the failure needs lowerings")
    assert (
        lines[7]
        == "| `layers.3.act` in eager, in the whole script | passes |  | the failure needs this module compiled |"
    )
    assert [row.what for row in of_compiler(one)] == [*LADDER, "lowerings"]

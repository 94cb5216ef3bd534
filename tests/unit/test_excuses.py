"""The registry of excuses against the code that applies its rules, and the page that explains them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

from minimizer.engine.child import protocol
from minimizer.engine.child.bounded import parse
from minimizer.excuses import EXCUSES, Excuse
from minimizer.report.confidence import confidence
from minimizer.report.examined import Checked
from minimizer.report.excused import Excused, excused, left_open, merged
from minimizer.report.model import Report
from minimizer.vocabulary import Status

APPLYING = {"excuse", "excused", "_excuse", "WhyNot"}
"""Functions whose first argument, if it is a literal, is a rule; so is every argument `excuse=`."""


def applied(source: str) -> Iterator[str]:
    """The rules that a module names where it applies them."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[:1] if name in APPLYING else []
        named = [word.value for word in node.keywords if word.arg == "excuse"]
        yield from (
            arg.value for arg in (*first, *named) if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        )


def by_file() -> dict[Path, set[str]]:
    return {path: set(applied(path.read_text())) for path in (ROOT / "minimizer").rglob("*.py")}


def test_every_rule_that_is_applied_is_in_the_registry() -> None:
    unknown = {(str(path.relative_to(ROOT)), rule) for path, rules in by_file().items() for rule in rules - {*EXCUSES}}
    assert not unknown


def test_every_rule_of_the_registry_is_applied_somewhere() -> None:
    used = set().union(*by_file().values())
    assert not {*EXCUSES} - used


def test_rules_are_found_where_they_are_applied() -> None:
    source = "x.excuse('a', 'graph 0')\nexcused('b')\nWhyNot('c', 'why')\n_excused(d, excuse='e')\nother('f')\nexcused(name)\n"
    assert set(applied(source)) == {"a", "b", "c", "e"}


@pytest.mark.parametrize("excuse", EXCUSES.values(), ids=EXCUSES)
def test_a_rule_is_a_sentence_and_has_a_reason(excuse: Excuse) -> None:
    sentence, reason = excuse.sentence, excuse.reason
    assert sentence[0].isupper() and not (excuse.leaves_open and sentence[1].isupper()) and not sentence.endswith(".")
    assert reason and not reason.endswith(".")


def test_the_page_on_the_report_explains_every_rule() -> None:
    page = (ROOT / "docs" / "report.md").read_text()
    rows = [
        f"| `{one.name}` | {one.sentence}{' **(left open)**' if one.leaves_open else ''} | {one.reason} |"
        for one in EXCUSES.values()
    ]
    assert "\n".join(rows) in page, "the table of rules in docs/report.md is to be:\n" + "\n".join(rows)


def test_rules_that_the_child_made_up_are_dropped() -> None:
    told = [{"rule": "ulps", "object": "graph 0", "count": 3}, {"rule": "<b>", "object": "x"}]
    checked = parse(protocol.Checked, {"excused": told})
    assert [(one.rule, one.object, one.count) for one in checked.excused] == [("ulps", "graph 0", 3)]


def test_a_rule_that_is_not_in_the_registry_is_our_mistake() -> None:
    with pytest.raises(KeyError):
        excused("no_such_rule")


def test_equal_excuses_of_several_runs_are_told_once_with_the_larger_count() -> None:
    found = merged([excused("ulps", "graph 0", 2)], [excused("ulps", "graph 0", 5), excused("rounding", "graph 0")])
    assert [(one.rule, one.count) for one in found] == [("ulps", 5), ("rounding", 1)]


def test_only_what_leaves_the_main_line_open_is_in_the_first_sentence() -> None:
    assert left_open([excused("rounding", "graph 0", 7)]) == ""
    said = left_open([excused("rounding"), excused("communicates", "graph 0", 2), excused("communicates", "graph 3")])
    assert said == (
        "Not everything was compared: calls of graphs that communicate are not run again in eager where their "
        "collectives cannot be cut out or compiled code raises, nor is a backward that communicates (graph 0, graph 3)."
    )


def test_what_is_left_open_costs_confidence() -> None:
    seen = {"frames": 1, "graphs": 1, "calls": 3, "calls_made": 3}
    whole = Report(status=Status.HEALTHY, checked=Checked(**seen, excused=[excused("rounding")]))
    open_ = Report(status=Status.HEALTHY, checked=Checked(**seen, excused=[excused("child_processes", count=2)]))
    assert (confidence(whole).level, confidence(open_).level) == ("medium", "low")
    assert EXCUSES["child_processes"].sentence in confidence(open_).reasons


def test_a_rule_of_another_version_is_shown_and_leaves_everything_open() -> None:
    other = Excused(rule="a_rule_to_come", object="graph 0", count=2)
    assert other.leaves_open and other.words == "a rule to come (graph 0, 2 times)"

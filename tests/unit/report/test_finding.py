"""Findings for a reader: their order, their words, and what of them reaches the documents."""

from __future__ import annotations

from minimizer.cli.verdict import verdict_lines
from minimizer.report.as_markdown import render
from minimizer.report.culprit import Source
from minimizer.report.finding import Cost, Finding, Remedy, by_cost, headline
from minimizer.report.model import Report
from minimizer.vocabulary import Status

SETTINGS = Finding(kind="settings", what="The script changes 1 setting.")
BREAKS = Finding(
    kind="graph_breaks",
    what="A graph break splits `f`.",
    source=Source(file="a.py", line=3, code="print(x)"),
    cost=Cost(what="at this line", value=4.0, unit="graph breaks per call"),
)
TRIED = Remedy(what="`dynamic=True`", diff="-a\n+b", before=8.0, after=0.0, unit="recompiles", helped=True)
RECOMPILES = Finding(
    kind="recompiles",
    what="`g` was compiled again 8 times.",
    source=Source(file="a.py", line=9),
    cost=Cost(what="compiling again", value=12.34, unit="s"),
    remedies=[TRIED],
)


def test_the_costliest_comes_first_and_what_is_only_told_last() -> None:
    cheap = RECOMPILES.model_copy(update={"cost": Cost(what="compiling again", value=1.0, unit="s")})
    assert by_cost([SETTINGS, BREAKS, cheap, RECOMPILES]) == [RECOMPILES, cheap, BREAKS, SETTINGS]


def test_the_headline_names_the_costliest_finding_with_its_place_and_what_helps() -> None:
    assert headline([RECOMPILES, BREAKS, SETTINGS]) == (
        "The costliest of 2 findings at a.py line 9 (12.3 s compiling again): `g` was compiled again 8 times. "
        "`dynamic=True` helps: 8 recompiles before, 0 with it."
    )
    assert headline([SETTINGS]) == headline([]) == ""


def test_a_healthy_report_has_the_verdict_first_and_its_findings_below() -> None:
    report = Report(status=Status.HEALTHY, summary="All agrees.", findings=[RECOMPILES, BREAKS])
    text = render(report, script_name="a.py", repro=None)
    assert text.startswith("**No failure was found.** The costliest of 2 findings at a.py line 9")
    order = [
        text.index(part) for part in ("All agrees.", "**1. Recompiles**", "+b", "**2. Graph breaks**", "`print(x)`")
    ]
    assert order == sorted(order)


def test_the_terminal_has_a_line_for_each_finding_and_what_helps() -> None:
    report = Report(status=Status.HEALTHY, findings=[RECOMPILES, SETTINGS]).to_json()
    assert [line for line in verdict_lines(report) if line.startswith(("finding", "helps"))] == [
        "finding    a.py line 9: `g` was compiled again 8 times. (12.3 s compiling again)",
        "helps      `dynamic=True`: 8 recompiles before, 0 with it.",
        "finding    The script changes 1 setting.",
    ]
    assert verdict_lines(report | {"findings": "of another version"})


def test_nothing_of_a_finding_becomes_markup() -> None:
    hostile = BREAKS.model_copy(update={"what": "A break, since Dynamo says: <b>x</b> ` @team."})
    text = render(Report(status=Status.HEALTHY, findings=[hostile]), script_name="a.py", repro=None)
    assert "<b>" not in text and "@team" not in text

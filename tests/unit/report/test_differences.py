"""Figures that agree: each says of what it is, and one of them is the one to quote, wherever it is shown."""

from __future__ import annotations

import sample_reports

from minimizer.cli.verdict import verdict_lines
from minimizer.report.as_markdown import render
from minimizer.report.culprit import Layer
from minimizer.report.examined import Health
from minimizer.report.figures import differences
from minimizer.report.issue import issue_of
from minimizer.report.model import Report

HEADLINE = "1.03 in the script's layer blocks.4.act, compiled alone on eager's inputs"
OTHER = "1 in the repro (1 of 1 element wrong)"


def text(report: Report | None = None) -> str:
    return render(report or sample_reports.value(), script_name="a.py", repro=sample_reports.REPRO).replace("\\", "")


def test_the_layer_of_the_script_is_quoted_first_and_the_repro_is_called_the_repro() -> None:
    report = sample_reports.value()
    assert [figure.words for figure in differences(report)] == [HEADLINE, OTHER]
    report.layers = []
    assert [figure.words for figure in differences(report)] == [OTHER]


def test_the_innermost_layer_that_was_measured_stands_for_the_culprits() -> None:
    report = sample_reports.value()
    report.layers = [
        Layer(path="blocks.4", order=1, local_error=1.65, verdict="bad"),
        Layer(path="blocks.40", order=2, local_error=9.0, verdict="bad"),
        Layer(path="blocks.4.act", order=1, phase="backward", local_error=7.0, verdict="bad"),
    ]
    assert differences(report)[0].words.startswith("1.65 in the script's layer blocks.4, ")
    report.layers[0] = report.layers[0].model_copy(update={"cls": "Block"})
    assert differences(report)[0].words.startswith("1.65 in the script's layer blocks.4 (Block), ")


def test_an_error_and_a_fault_between_graphs_have_no_difference() -> None:
    for make in (sample_reports.compile_error, sample_reports.crash, sample_reports.between):
        assert differences(make()) == []


def test_report_issue_and_terminal_quote_the_same_figure() -> None:
    report = sample_reports.value()
    issue = issue_of(report, sample_reports.REPRO)
    assert f"Largest difference: **{HEADLINE}**; {OTHER}." in text()
    assert issue is not None and f"{HEADLINE}; {OTHER}." in issue.body.replace("\\", "")
    assert f"difference {HEADLINE}" in verdict_lines(report.to_json())
    assert not any(
        line.startswith("difference") for line in verdict_lines(report.to_json() | {"of": "another version"})
    )


def test_runs_are_runs_of_something() -> None:
    assert "in 2 of 2 runs of the script.**" in text()
    assert "`repro.py` failed in the same way in 3 of 3 runs" in text()
    lines = verdict_lines(sample_reports.value().to_json())
    assert "verified   repro.py failed in 3 of 3 clean processes" in lines


def test_lines_before_and_after_are_of_the_same_thing() -> None:
    """A repro of a graph is written anew: that it is longer than the script is no reduction from 10 lines to 14."""
    assert "| lines" not in text() and "`repro.py` has 14 lines of code." in text()
    assert "| lines of the script | 31 | 14 of `repro.py`, with its check |" in text(sample_reports.between())


def test_a_time_says_on_what_machine_and_a_missing_one_says_why() -> None:
    report = sample_reports.value()
    report.health = Health(compile_seconds=121.9, is_crowded=True, untimed="other processes used the cores")
    assert "compile time: 121.9 s (too long: the machine had more to do than it has cores)" in text(report)
    assert "time of a call: not measured, since other processes used the cores" in text(report)
    report.health = Health(compile_seconds=2.0, eager_seconds=0.5, compiled_seconds=0.25)
    assert "compile time: 2.0 s\n" in text(report) and "not measured" not in text(report)


def test_words_of_ours_are_not_called_the_scripts() -> None:
    assert "The first difference in what a graph of the script returns:" in text()
    assert "What the script showed" in text(sample_reports.compile_error())

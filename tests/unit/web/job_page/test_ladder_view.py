"""The ladder on the page of a job: the rows of the report's table, with a sign for each."""

from __future__ import annotations

from minimizer.report.ablation import of_ladder
from minimizer.report.model import Report, Rung
from web.job_page.diagnosis import diagnosis


def test_the_page_shows_the_rows_of_the_report() -> None:
    ends = [
        ("eager", "passes", False),
        ("aot_eager", "different", False),
        ("own", "timeout", None),
        ("inductor", "compile_error", True),
    ]
    report = Report(ladder=[Rung(backend=name, outcome=word, seconds=1, fails=fails) for name, word, fails in ends])
    shown = diagnosis(report).ladder
    assert [one.row for one in shown] == [*of_ladder(report)]
    assert [one.sign for one in shown] == ["good", "unknown", "unknown", "bad"]

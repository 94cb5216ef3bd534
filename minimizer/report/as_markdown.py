"""The two documents made from a report, and the order of their sections: `report.md` and `issue.md`.

`report.md` has all details, for the submitter of the script. `issue.md` has the sections of PyTorch's own form for
faults of torch.compile, for readers who have never seen the script.
"""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.report import (
    drift_section,
    generated_code,
    health_section,
    issue_sections,
    maintainers,
    measurements,
    sections,
    traces,
)
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.model import Report
from minimizer.report.safe_markdown import bullets, code, escape
from minimizer.report.side_by_side import side_by_side

FORM = ("🐛 Describe the bug", "Error logs", "Versions")
"""The fields of PyTorch's form `pt2-bug-report.yml`, as GitHub writes them into the issue that is sent with it."""


def render(report: Report, *, script_name: str, repro: str | None) -> str:
    """`report.md`; ``repro`` is the text of ``repro.py``, if there is one."""
    return _document(
        "##",
        [
            ("", sections.verdict(report)),
            ("", sections.how_sure(report)),
            (_reproducer(report), sections.reproducer(report, repro)),
            ("Error logs", sections.error_logs(report)),
            ("Where", sections.culprits(report)),
            ("Between graphs", side_by_side(report)),
            ("Ablation", sections.ablation(report)),
            ("Necessary conditions", maintainers.conditions(report, repro)),
            ("Replay", maintainers.replay(report, repro)),
            ("Workaround", sections.workaround(report)),
            ("Generated code", generated_code.of_all(report.generated_code, _of_further(report))),
            ("Layers", measurements.layers(report)),
            ("Health", health_section.health(report)),
            ("Losses", drift_section.losses(report)),
            ("Traces", traces.section(report, script_name)),
            ("What was tried", sections.attempts(report)),
            ("Reduction", measurements.reduction(report)),
            ("PyTorch's own minifier", sections.witnesses(report)),
            ("Also seen", sections.also_seen(report)),
            ("What was checked", measurements.checked(report, script_name)),
            ("Notes", bullets(escape(note) for note in report.notes)),
            ("Versions", sections.versions(report)),
            ("Labels", ", ".join(map(code, maintainers.labels(report, repro)))),
        ],
    )


def render_issue(report: Report, repro: str, cut: issue_sections.Cut) -> str:
    """The body of an issue, in the fields of PyTorch's form and without a folder of this machine."""
    bug = [
        ("", issue_sections.description(report, repro)),
        ("", issue_sections.seen_between(report)),
        (_reproducer(report), issue_sections.reproducer(report, repro, cut)),
        ("Ablation", issue_sections.ablation(report, cut)),
        ("Necessary conditions", maintainers.conditions(report, repro)),
        ("Replay", maintainers.replay(report, repro)),
        ("Workaround", issue_sections.workaround(report)),
        ("", issue_sections.generated(report, cut)),
        ("", issue_sections.closing(report, repro, cut)),
    ]
    asked = (_document("####", bug), issue_sections.logs(report, cut), issue_sections.versions(report))
    return _document("###", list(zip(FORM, asked, strict=True)))


def _reproducer(report: Report) -> str:
    """The name for the repro: minimal only if that was shown for a graph; for a script, only removals of parts were
    tried.
    """
    is_minimal = report.reduction is not None and report.reduction.fails_only_together
    return "Minimal reproducer" if is_minimal else "Reproducer"


def _of_further(report: Report) -> dict[str, GeneratedCode]:
    """The generated code of further faults, by their files."""
    return {culprit.repro: culprit.generated_code for culprit in report.culprits if culprit.generated_code is not None}


def _document(level: str, parts: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(f"{level} {title}\n\n{body.strip()}" if title else body for title, body in parts if body) + "\n"

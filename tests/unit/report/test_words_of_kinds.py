"""The words for a kind of failure, in the table and where they are used."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import parse_qs, urlsplit

import pytest
import sample_reports
from sample_reports import REPRO

from minimizer.cli.ci_formats import Finding, sarif
from minimizer.engine.emit.header import comment
from minimizer.engine.findings import Fault
from minimizer.engine.levels.from_outcomes import verdict_sentence
from minimizer.report.as_markdown import render
from minimizer.report.issue import issue_of
from minimizer.report.model import Failure, Report, Reproducibility
from minimizer.report.words import LAYOUT_ONLY, WORDS
from minimizer.store import Job
from minimizer.vocabulary import Kind, Stage, Status
from web.job_page.verdict import verdict

GRADIENT = {
    "summary": "torch.compile (inductor) computes wrong gradients for aten.relu in blocks.4.act",
    "header": "# torch.compile computes wrong gradients for aten.relu",
    "report": "**The compiled code computes wrong gradients under `torch.compile` on cpu",
    "title": "[inductor] torch.relu has a wrong gradient on CPU",
    "issue": "`torch.relu` has a wrong gradient under `torch.compile` on cpu.",
    "searched": "gradient",
    "page": "The compiled code computes wrong gradients",
}
HANG = {
    "summary": "torch.compile (inductor) never returns for aten.relu in blocks.4.act",
    "header": "# torch.compile never returns for aten.relu",
    "report": "**Compilation or the compiled call never ends under `torch.compile` on cpu",
    "title": "[inductor] torch.relu never returns",
    "issue": "`torch.relu` never returns under `torch.compile` on cpu.",
    "searched": "hang",
    "page": "Compilation or the compiled call never ends",
}
LAYOUT = {
    "summary": "Values equal, memory layout differs: torch.compile (inductor) changes only the strides for aten.relu in blocks.4.act",
    "header": "# torch.compile changes only the strides for aten.relu",
    "report": "**Values equal, memory layout differs under `torch.compile` on cpu",
    "title": "[inductor] torch.relu returns a tensor in another memory layout on CPU",
    "issue": "`torch.relu` returns a tensor in another memory layout under `torch.compile` on cpu.",
    "searched": "metadata",
    "page": "Values equal, memory layout differs",
}


def fault_of(report: Report) -> Fault:
    return Fault(report.failure, tuple(report.culprits), reduction=report.reduction, verification=report.verification)


def sentences(report: Report) -> dict[str, str]:
    """The report's failure in words, at each place where people read of it."""
    issue, failure = issue_of(report, REPRO), report.failure
    assert issue is not None and failure is not None
    job = cast(Job, SimpleNamespace(status=Status.MINIMIZED, failure=failure, summary=""))
    return {
        "summary": verdict_sentence(fault_of(report)),
        "header": comment(failure, report.culprits, {}, failure.reproducibility, 1, {}),
        "report": render(report, script_name="a.py", repro=REPRO),
        "title": issue.title,
        "issue": issue.body.partition("\n\n")[2],
        "searched": parse_qs(urlsplit(issue.search_url).query)["q"][0].rpartition(" ")[2],
        "page": verdict(job).title,
    }


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (sample_reports.report(Kind.WRONG_GRADIENT), GRADIENT),
        (sample_reports.report(Kind.HANG), HANG),
        (sample_reports.report(Kind.WRONG_METADATA, failure={"layout_only": True}), LAYOUT),
    ],
    ids=["gradient", "hang", "layout"],
)
def test_a_failure_has_its_words_wherever_people_read_of_it(report: Report, expected: dict[str, str]) -> None:
    assert {place: text[: len(expected[place])] for place, text in sentences(report).items()} == expected


def test_operators_of_a_program_that_was_not_reduced_are_not_called_its_culprits() -> None:
    """Where no time was left to look for the part that fails, the repro holds a whole graph of them."""
    names = [f"aten.op{number}" for number in range(24)]
    report = sample_reports.report(Kind.WRONG_OUTPUT)
    assert report.reduction is not None
    report.culprits[0] = report.culprits[0].model_copy(update={"nodes": names, "ops": [*names, "aten.op0"]})
    report.reduction = report.reduction.model_copy(update={"one_minimal": False})
    said = sentences(report)
    assert "computes wrong values for one of 24 operators in" in said["summary"]
    assert "The culprit is among 24 operators in" in said["report"].splitlines()[0]
    report.reduction = report.reduction.model_copy(update={"one_minimal": True})
    assert "aten.op0, aten.op1, aten.op2, aten.op3" in sentences(report)["summary"]


def test_an_operator_of_the_scripts_own_is_named_first() -> None:
    report = sample_reports.report(Kind.CRASH, failure={"stage": Stage.CUSTOM_OP})
    assert verdict_sentence(fault_of(report)).startswith(
        "An operator of the script's own is at fault, and torch.compile crashes the process when it runs aten.relu in "
    )


def test_a_finding_is_no_fault_of_the_compiler() -> None:
    message = "`step` was compiled again 4 times, since the size of `x` changes."
    report = sample_reports.report(Kind.RECOMPILES, failure={"stage": Stage.DYNAMO, "message": message}, blame=None)
    text = render(report, script_name="a.py", repro=REPRO)
    assert issue_of(report, REPRO) is None
    assert f"in 2 of 2 runs of the script.** {message.replace('`', chr(92) + '`')}" in text
    assert "go wrong" not in text and "bug" not in text
    assert "bug" not in comment(
        Failure(kind=Kind.RECOMPILES), report.culprits, {}, Reproducibility(failed=2, runs=2), 1, {}
    )


def test_every_kind_has_words() -> None:
    assert set(WORDS) == set(Kind)
    for words in (*WORDS.values(), LAYOUT_ONLY):
        assert all(dataclasses.astuple(words)) and words.does_for.count("{what}") == 1


def test_the_rules_of_sarif_are_the_headings() -> None:
    finding = Finding(Path("a.py"), {"status": Status.HEALTHY}, None, False, False, None, "")
    rules = json.loads(sarif(finding))["runs"][0]["tool"]["driver"]["rules"]
    said = {rule["id"]: rule["shortDescription"]["text"] for rule in rules}
    assert said == {kind: f"{words.heading}." for kind, words in WORDS.items()}

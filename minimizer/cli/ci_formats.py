"""A report as CI systems read it: GitHub's workflow commands and step summary, JUnit XML, SARIF 2.1.0."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from minimizer import __version__
from minimizer.cli.progress import printable
from minimizer.cli.verdict import OTHER_LAYOUT, verdict_lines
from minimizer.report.words import WORDS
from minimizer.vocabulary import Status

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT_KEY = "minimizerFailure/v1"
DEFAULT_NAME = "script.py"
"""The service's name for a script whose own is not a plain one."""


@dataclass(frozen=True)
class Finding:
    """The finding on one script. ``counts``: a gate is to fail for it."""

    script: Path
    report: dict[str, Any]
    fingerprint: str | None
    counts: bool
    is_known: bool
    url: str | None
    repro: str

    @property
    def uri(self) -> str:
        """The script's path; see `_uri`."""
        return _uri(self.script)

    @property
    def place(self) -> tuple[str, int | None]:
        """The file of the failure, and the line; the script, and no line, if that is unknown here."""
        sources = [culprit.get("source") for culprit in self.report.get("culprits") or ()]
        for source in [*sources, (self.report.get("error") or {}).get("source")]:
            if source and (path := self._file(source["file"])) is not None:
                return _uri(path), max(1, int(source["line"]))
        return self.uri, None

    def _file(self, name: str) -> Path | None:
        """The file that a report calls ``name``: by its path from the script's folder, or from a folder above it in the
        checkout.

        A project whose scripts have their own folder imports its modules from there.
        """
        if name in (self.script.name, DEFAULT_NAME) and not (self.script.parent / name).is_file():
            return self.script
        roots = _roots()
        above = [folder for folder in self.script.resolve().parents if any(map(folder.is_relative_to, roots))]
        return next((path for folder in (self.script.parent, *above) if (path := folder / name).is_file()), None)

    @property
    def stack(self) -> str:
        """The stack of the failing run; empty without one."""
        failing = self.report.get("failure") or self.report.get("error") or {}
        return str(failing.get("traceback") or "")

    @property
    def is_layout_only(self) -> bool:
        return bool((self.report.get("failure") or {}).get("layout_only"))

    @property
    def could_judge(self) -> bool:
        return self.report["status"] not in (Status.FAILED, Status.CANCELLED)

    @property
    def message(self) -> str:
        said = printable(self.report.get("summary") or self.report.get("reason") or str(self.report["status"]), 2000)
        return said + (f" {self.url}" if self.url else "")


def annotation(finding: Finding) -> str:
    """A workflow command of GitHub Actions; empty without a place to annotate."""
    if finding.report["status"] == Status.HEALTHY:
        return ""
    level = "error" if finding.counts or not finding.could_judge else "notice" if finding.is_layout_only else "warning"
    title = _title(finding)
    file, line = finding.place
    properties = {"file": file, **({"line": str(line)} if line is not None else {}), "title": title}
    said = ",".join(f"{name}={_escape(value, more=True)}" for name, value in properties.items())
    return f"::{level} {said}::{_escape(finding.message)}"


def step_summary(finding: Finding) -> str:
    """Markdown for the summary page of a workflow run."""
    lines = verdict_lines(finding.report)
    state = [f"`{finding.fingerprint}`, {'known' if finding.is_known else 'new'}"] if finding.fingerprint else []
    link = [f"[The job]({finding.url})"] if finding.url else []
    text = [f"### {_title(finding)} in `{finding.uri}`", "", _fenced("\n".join(lines)), *state, "", *link]
    if finding.repro:
        text += [
            "",
            "<details><summary>repro.py</summary>",
            "",
            _fenced(finding.repro.rstrip(), "python"),
            "",
            "</details>",
        ]
    return "\n".join(text) + "\n\n"


def junit(finding: Finding) -> str:
    """One test case: failed if the failure counts, skipped if it is known, not verified or layout only, an error
    without a verdict.

    The output of a passing one says how much was compared.
    """
    report = finding.report
    timings = report.get("timings") or {}
    seconds = f"{timings['total'] if 'total' in timings else sum(timings.values()):.3f}"
    is_failure = bool(report.get("failure"))
    totals = {
        "tests": "1",
        "failures": str(int(finding.counts)),
        "errors": str(int(not finding.could_judge)),
        "skipped": str(int(is_failure and finding.could_judge and not finding.counts)),
        "time": seconds,
    }
    root = ElementTree.Element("testsuites", {"name": "minimizer", **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "minimizer", **totals})
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "torch.compile", "name": finding.uri, "file": finding.uri, "time": seconds}
    )
    shown = [*verdict_lines(report), *([finding.url] if finding.url else [])]
    details = _xml("\n\n".join(filter(None, ("\n".join(shown), finding.stack, finding.repro))).strip())
    message = _xml(finding.message)
    if not finding.could_judge:
        ElementTree.SubElement(case, "error", {"type": str(report.get("reason")), "message": message}).text = details
    elif finding.counts:
        kind = report["failure"]["kind"]
        ElementTree.SubElement(case, "failure", {"type": kind, "message": message}).text = details
    elif is_failure:
        why = "known failure" if finding.is_known else OTHER_LAYOUT if finding.is_layout_only else "not verified"
        ElementTree.SubElement(case, "skipped", {"message": f"{why}: {message}"}).text = details
    else:
        ElementTree.SubElement(case, "system-out").text = details
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def sarif(finding: Finding) -> str:
    """One run of one tool, with one result if there is a failure."""
    report = finding.report
    rules = [
        {
            "id": str(kind),
            "name": "".join(word.title() for word in kind.split("_")),
            "shortDescription": {"text": f"{said.heading}."},
        }
        for kind, said in WORDS.items()
    ]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "minimizer", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": finding.could_judge}],
        "results": [],
    }
    if report.get("failure"):
        kind = report["failure"]["kind"]
        file, line = finding.place
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(file)}}
        if line is not None:
            place["region"] = {"startLine": line}
        run["results"].append(
            {
                "ruleId": kind,
                "ruleIndex": [rule["id"] for rule in rules].index(kind),
                "level": "error" if finding.counts else "note" if finding.is_layout_only else "warning",
                "message": {"text": finding.message},
                "locations": [{"physicalLocation": place}],
                "partialFingerprints": {FINGERPRINT_KEY: finding.fingerprint},
                "baselineState": "unchanged" if finding.is_known else "new",
                **({"hostedViewerUri": finding.url} if finding.url else {}),
            }
        )
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _uri(path: Path) -> str:
    """A path relative to the checkout, else to the working directory, if it is below one of them.

    GitHub resolves every path in the checkout, also in a step with a ``working-directory``.
    """
    path = path.resolve()
    above = next((folder for folder in _roots() if path.is_relative_to(folder)), None)
    return (path.relative_to(above) if above is not None else path).as_posix()


def _roots() -> list[Path]:
    """The checkout, if CI names one, and the working directory."""
    checkout = os.environ.get("GITHUB_WORKSPACE")
    return [*([Path(checkout).resolve()] if checkout else []), Path.cwd()]


def _title(finding: Finding) -> str:
    failure = finding.report.get("failure")
    if failure:
        return f"torch.compile: {OTHER_LAYOUT if finding.is_layout_only else failure['kind']}"
    return "torch.compile: healthy" if finding.report["status"] == Status.HEALTHY else "torch.compile: not judged"


def _escape(text: str, *, more: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if more else text


def _fenced(text: str, language: str = "text") -> str:
    """A code block whose fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _xml(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

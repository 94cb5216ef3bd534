"""An issue for PyTorch's tracker, made from a report: title, body, labels, and links for a person to follow.

Nothing is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from minimizer.report.as_markdown import render_issue
from minimizer.report.issue_sections import Cut, title
from minimizer.report.maintainers import labels
from minimizer.report.model import Report
from minimizer.report.words import words_of
from minimizer.vocabulary import Reason

TRACKER = "https://github.com/pytorch/pytorch/issues"
MAX_URL = 8000
"""Characters of a link: GitHub refuses a request line of 8 KiB and more."""
CODELESS = Cut(code="none")
CUTS = (
    Cut(), Cut(code="kernel"), Cut(code="lines"), CODELESS, replace(CODELESS, has_settings=False),
    *(replace(CODELESS, has_settings=False, log_lines=lines) for lines in (40, 20, 10)),
    *(replace(CODELESS, has_settings=False, log_lines=lines, has_repro=False) for lines in (10, 3)),
)  # fmt: skip
"""The parts left out, in the first variant whose link is short enough.

All of them are in files, which the body names.
"""
MOST_SEARCHED, MOST_PHRASE = 2, 60
"""Most operators, and characters of the message, in a search: the tracker finds only issues with all words of a query.
"""


@dataclass(frozen=True)
class Issue:
    """``url`` opens GitHub's form with title and body in it, ``search_url`` shows issues like this one."""

    title: str
    body: str
    labels: list[str]
    url: str
    search_url: str

    @property
    def text(self) -> str:
        """`issue.md`: the body after comments that GitHub hides, so that the whole can be pasted."""
        said = f"Title: {self.title}", f"Labels: {', '.join(self.labels)}"
        return "".join(f"<!-- {line} -->\n" for line in said) + f"\n{self.body}"


def issue_of(report: Report, repro: str | None) -> Issue | None:
    """The issue; None if it must not be filed: no verified repro, in dispute, or no fault of PyTorch's compiler."""
    wanted = labels(report, repro)
    verified = report.verification is not None and report.verification.holds
    if repro is None or not wanted or not verified or report.reason is Reason.DISPUTED:
        return None
    name = title(report, repro)
    for cut in CUTS:
        body = render_issue(report, repro, cut)
        # Labels are no part of the link: GitHub takes them from members only. Spaces are plus signs: code has many, and %20 is longer.
        url = f"{TRACKER}/new?{urlencode({'title': name, 'body': body})}"
        if len(url) <= MAX_URL:
            break
    else:
        url = f"{TRACKER}/new?{urlencode({'title': name, 'body': 'The text is in issue.md.'})}"
    return Issue(name, body, wanted, url, _search(report))


def _search(report: Report) -> str:
    terms = " ".join(["is:issue", "torch.compile", *_words(report)])
    return f"{TRACKER}?{urlencode({'q': terms}, quote_via=quote)}"


def _words(report: Report) -> Iterator[str]:
    """Search words: operators, the kind, and words of the exception."""
    failure = report.failure
    assert failure is not None
    operators = dict.fromkeys(op.partition(".")[2] for c in report.roots for op in c.operators)
    yield from [re.sub(r"\W", "", op) for op in operators if op][:MOST_SEARCHED]
    if failure.of_graph:
        yield "precision"
        return
    if failure.mechanism is not None:
        yield from ("dynamo", failure.mechanism.rpartition("_")[2])
        return
    if failure.exception_type is None:
        yield words_of(failure).searched
        return
    yield re.sub(r"\W", "", failure.exception_type.rpartition(".")[2])
    first = next(iter(failure.message.splitlines()), "").partition(": ")[2]
    phrases = re.findall(r"[A-Za-z_]{3,}(?: [A-Za-z_]+)*", first)
    if phrase := max(phrases, key=len, default=""):
        yield f'"{phrase[:MOST_PHRASE]}"' if " " in phrase else phrase

"""How values read on a page: Jinja filters and what every template knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from flask import Flask
from markupsafe import Markup

import minimizer
from minimizer.report.figures import differences
from minimizer.report.outcomes import in_words
from minimizer.report.words import WORDS
from minimizer.vocabulary import counted
from web.job_page import diagnosis, verdict
from web.pages import highlight

# In place of a value that there is none of.
NOTHING = "\N{EN DASH}"

_GITHUB = re.compile(r"https?://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)/?")


def install(app: Flask) -> None:
    """Make the filters and the constants known to the templates of ``app``."""
    app.jinja_env.filters.update(
        ago=ago,
        brief=brief,
        clock=clock,
        number=number,
        count=counted,
        size=size,
        issue_name=issue_name,
        python=highlight.python,
        numbered=highlight.numbered,
        tone=verdict.tone,
        label=verdict.label,
        kind_tone=verdict.kind_tone,
        kind_title=lambda kind: WORDS[kind].heading,
        outcome=in_words,
        sign=diagnosis.sign,
        differences=differences,
        spans=spans,
    )
    app.jinja_env.globals.update(version=minimizer.__version__, most_shown=highlight.MAX_CHARS)


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago a moment was, in the largest unit that fits."""
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        count = seconds // length
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now" if seconds < 10 else f"{seconds} seconds ago"


def clock(seconds: float | None) -> str:
    """A duration: ``4.2 s``, ``48 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def brief(seconds: float | None) -> str:
    """The duration of a call: ``1.2 ms``; ``unknown`` if it was not measured."""
    if seconds is None:
        return "unknown"
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms" if seconds < 1 else clock(seconds)


def number(value: object) -> str:
    """A measured number with three significant digits; a dash for a non-number."""
    if not isinstance(value, int | float):
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def size(count: int) -> str:
    """A number of bytes."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def spans(text: str) -> Markup:
    """A sentence with backquoted parts as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backquote of the script's own
        return Markup.escape(text)
    shown = (
        Markup("<code>{}</code>").format(part) if place % 2 else Markup.escape(part) for place, part in enumerate(parts)
    )
    return Markup("").join(shown)


def issue_name(url: str) -> str:
    """An issue as people write it, ``pytorch/pytorch#1``; any other address without its scheme."""
    known = _GITHUB.fullmatch(url)
    return f"{known[1]}#{known[2]}" if known else url.partition("://")[2]

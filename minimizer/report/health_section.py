"""The section on the health of compiled code: findings in the order of their cost with the remedies that were tried, then the figures."""

from __future__ import annotations

from collections.abc import Iterator

from minimizer.report.finding import Finding, Remedy, headline
from minimizer.report.model import Report
from minimizer.report.safe_markdown import block, bullets, code, escape, folded

CROWDED = "the machine had more to do than it has cores"
MOST_LINES = 20


def costliest(report: Report) -> str:
    """A sentence on the costliest finding, for below the verdict; empty if there is none that costs anything."""
    return in_code(headline(report.findings))


def health(report: Report) -> str:
    """Findings, figures, and all graph breaks and recompiles in Dynamo's words."""
    health = report.health
    figures = [
        f"compile time: {health.compile_seconds:.1f} s{' (too long: ' + CROWDED + ')' if health.is_crowded else ''}"
        if health.compile_seconds is not None
        else "",
        _pays(health.eager_seconds, health.compiled_seconds)
        or (f"time of a call: not measured, since {escape(health.untimed)}" if health.untimed else ""),
    ]
    told = [
        *(f"graph break: {escape(text)}" for text in health.graph_breaks[:MOST_LINES]),
        *(f"recompile: {escape(text)}" for text in health.recompiles[:MOST_LINES]),
    ]
    all_told = folded("All graph breaks and recompiles", bullets(told)) if told and report.findings else bullets(told)
    parts = [
        *(_finding(number, one) for number, one in enumerate(report.findings, 1)),
        bullets(filter(None, figures)),
        all_told,
    ]
    return "\n\n".join(filter(None, parts))


def _finding(number: int, finding: Finding) -> str:
    place = f", {code(f'{finding.source.file}:{finding.source.line}')}" if finding.source is not None else ""
    line = f"{code(finding.source.code)}" if finding.source is not None and finding.source.code else ""
    cost = f"Cost: {escape(finding.cost.words)}." if finding.cost is not None else ""
    head = f"**{number}. {finding.title}**{place}. {in_code(finding.what)} {cost}".rstrip()
    stack = folded("The stack", block("\n".join(finding.stack), "")) if len(finding.stack) > 1 else ""
    return "\n\n".join(filter(None, [head, line, *map("\n\n".join, map(_remedy, finding.remedies)), stack]))


def _remedy(remedy: Remedy) -> Iterator[str]:
    outcome = "helps" if remedy.helped else "does not help"
    yield f"{in_code(remedy.what)} {outcome}: {escape(remedy.words)}"
    if remedy.diff:
        shown = block(remedy.diff, "diff")
        yield shown if remedy.helped else folded("The change", shown)


def in_code(text: str) -> str:
    """A sentence with backquoted parts as code, and everything else escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backquote of the script's own
        return escape(text)
    return "".join(code(part) if place % 2 else _kept(part) for place, part in enumerate(parts))


def _kept(text: str) -> str:
    """Escaped text with the spaces at its ends."""
    return f"{' ' * text.startswith(' ')}{escape(text)}{' ' * (text.endswith(' ') and bool(text.strip()))}"


def _pays(eager: float | None, compiled: float | None) -> str:
    if not eager or not compiled:
        return ""
    times = f"a call takes {eager * 1000:.3g} ms in eager and {compiled * 1000:.3g} ms compiled"
    return (
        f"{times}: {eager / compiled:.2f} times as fast"
        if compiled < eager
        else f"{times}: compiling does not pay here"
    )

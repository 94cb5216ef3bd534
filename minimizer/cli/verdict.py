"""The final output of a job on a terminal: the verdict, and where the files are."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minimizer.cli.progress import printable
from minimizer.report.culprit import line_of, module_of, operators_of
from minimizer.report.examined import Largest
from minimizer.report.excused import Excused
from minimizer.report.figures import differences
from minimizer.report.finding import Finding
from minimizer.report.instances import others
from minimizer.report.model import OF_GRAPHS, Reduction, Report
from minimizer.report.words import LAYOUT_ONLY
from minimizer.vocabulary import Status

OTHER_LAYOUT = LAYOUT_ONLY.heading.lower()
MOST_FINDINGS = 3
"""Most findings in the output; `report.md` has all."""
NAME = 11
"""Width of the padded name at the beginning of a line."""

HEADLINES = {
    Status.MINIMIZED: "MINIMIZED",
    Status.HEALTHY: "HEALTHY",
    Status.PARTIAL: "PARTIAL",
    Status.FAILED: "NOTHING TO REDUCE",
    Status.CANCELLED: "STOPPED",
}


def verdict_lines(report: dict[str, Any], folder: Path | None = None) -> list[str]:
    """The verdict of a final report as a few lines of text."""
    status = Status(report["status"])
    reason = report.get("reason")
    lines = [HEADLINES[status] + (f" ({reason})" if reason else "")]
    if summary := printable(report.get("summary") or ""):
        lines.append(summary)
    failure, reduction = report.get("failure"), report.get("reduction")
    if failure:
        layout = f" ({OTHER_LAYOUT})" if failure.get("layout_only") else ""
        lines.append(f"failure    {failure['kind']} in {failure['stage']}{layout}")
    if failure and failure.get("mechanism"):
        of_graph = failure["mechanism"] in OF_GRAPHS
        said = failure["object"] if of_graph else failure["message"]
        lines.append(f"{'mechanism ' if of_graph else 'between   '} {failure['mechanism']}: {printable(said, 400)}")
    lines += [
        f"culprit    {_culprit(culprit)}" for culprit in report.get("culprits") or () if culprit.get("root", True)
    ]
    lines += _difference(report)
    blame, workaround = report.get("blame"), report.get("workaround")
    if blame and blame["items"]:
        lines.append(f"to blame   {printable(blame['what'], 400)}{' (confirmed)' if blame['confirmed'] else ''}")
    if reduction and reduction["nodes_before"]:
        shown = Reduction.read(reduction).shown
        minimal = f", {shown}" if shown else ""
        lines.append(
            f"reduced    {reduction['nodes_before']} nodes to {reduction['nodes_after']}{minimal},"
            f" {reduction['trials']} trials of smaller programs in {reduction['seconds']:.0f} s"
        )
    if verification := report.get("verification"):
        lines.append(
            f"verified   repro.py failed in {verification['failed_same']} of {verification['runs']} clean processes"
        )
    if workaround and workaround["code"]:
        lines += _workaround(workaround)
    elif workaround:
        lines.append(f"workaround {printable(workaround['what'], 400)}")
    lines += _findings(report)
    if status is Status.HEALTHY:
        lines += _coverage(report.get("checked") or {})
    if folder is not None:
        lines += _files(folder)
    return lines


def on_terminal(lines: Iterable[str]) -> Iterator[str]:
    """The lines wrapped for a terminal: between words, indented to the text after the name. A program stays unchanged."""
    if not sys.stdout.isatty():
        yield from lines
        return
    width = shutil.get_terminal_size().columns
    for line in lines:
        if line.startswith("    ") or len(line) <= width:
            yield line
            continue
        is_named = line[NAME - 1] == " " and " " not in line[: NAME - 1].rstrip()
        indent = " " * NAME if is_named else ""
        yield from textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )


def _difference(report: dict[str, Any]) -> list[str]:
    """The largest difference, and of what; nothing of a report that a service of another version has written."""
    with suppress(ValidationError):
        return [f"difference {printable(one.words)}" for one in differences(Report.model_validate(report))[:1]]
    return []


def _coverage(checked: dict[str, Any]) -> list[str]:
    """The largest difference of a healthy script, and what was not compared."""
    largest, left_out = checked.get("largest"), checked.get("not_compared") or []
    lines = [f"largest    {printable(Largest.model_validate(largest).words, 400)}"] if largest else []
    lines += [f"excused    {printable(one, 400)}" for one in _excused(checked)]
    return lines + [f"left out   {printable(line, 400)}" for line in left_out]


def _findings(report: dict[str, Any]) -> list[str]:
    """The findings, the costliest first, with their remedies; none from a service of another version."""
    with suppress(ValidationError):
        lines = []
        for one in [Finding.read(one) for one in report.get("findings") or []][:MOST_FINDINGS]:
            place = f"{one.source.file} line {one.source.line}: " if one.source is not None else ""
            cost = f" ({one.cost.words})" if one.cost is not None else ""
            lines.append(f"finding    {printable(place + one.what + cost, 400)}")
            if one.helped is not None:
                lines.append(f"helps      {printable(f'{one.helped.what}: {one.helped.words}', 400)}")
        return lines
    return []


def _excused(checked: dict[str, Any]) -> list[str]:
    """The summary of excuses; none from a service of another version."""
    with suppress(ValidationError):
        return [Excused.read(one).words for one in checked.get("excused") or []]
    return []


def _workaround(workaround: dict[str, Any]) -> list[str]:
    where = printable(workaround["where"], 200)
    # Line by line: several statements in one line are no Python, and this is to be copied into a script.
    diff = workaround.get("diff")
    code = [_code(line) for line in (diff or workaround["code"]).splitlines()]
    if len(code) == 1:
        return [f"workaround {code[0]}  # {where}" if where else f"workaround {code[0]}"]
    return [
        f"workaround {printable(workaround['what'], 400) if diff else f'insert these lines {where}'}:",
        *(f"    {line}" for line in code),
    ]


def _code(line: str) -> str:
    """A line of a program without control characters; its indentation counts."""
    return "".join(char if char.isprintable() else "?" for char in line.expandtabs())[:2000]


def _culprit(culprit: dict[str, Any]) -> str:
    operators, said = ", ".join(operators_of(culprit)), culprit.get("what") or ""
    what, role = (operators, f": {said}" if said else "") if operators else (said or "unknown", "")
    where = f" in {module}" if (module := module_of(culprit)) else ""
    line = f" ({place})" if (place := line_of(culprit.get("source"))) else ""
    equal = f": {more}" if (more := others(culprit)) else ""
    return printable(what + where + line + role + equal, 400)


def _files(folder: Path) -> list[str]:
    names = [
        name
        for name in ("repro.py", "data.pt", "repro-2.py", "repro-3.py", "report.md", "issue.md")
        if (folder / name).exists()
    ]
    return [f"{name:<11}{folder / name}" for name in names]

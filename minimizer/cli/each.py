"""``minimizer run --each``: the scripts of a folder one after the other, those that are done left out, and one table of their faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from minimizer.cli.exit_status import Exit, exit_status
from minimizer.cli.progress import printable
from minimizer.errors import InvalidScript, UserError
from minimizer.report.identity import fingerprint, root_operators
from minimizer.vocabulary import Reason, Status, counted

ASKED = "asked.json"
"""File next to a script's results with the hash of the request, by which a second call recognises its own results."""
AGAIN = (Reason.INTERRUPTED, Reason.WORKER_TROUBLE, Reason.INTERNAL_ERROR)
"""Ends that are no answer to a script; it is run again."""
BY_WEIGHT = (Exit.INTERNAL, Exit.MINIMIZED, Exit.PARTIAL, Exit.FAILED, Exit.USAGE, Exit.HEALTHY)
"""Exit statuses of single scripts; the first one that occurs is that of the whole."""


@dataclass(frozen=True)
class Row:
    """A script, with its report and the folder of its results, or with why it was refused."""

    script: Path
    folder: Path
    report: Mapping[str, Any] | None
    refused: str = ""

    @property
    def status(self) -> int:
        if self.report is None:
            return Exit.USAGE
        reason = self.report.get("reason")
        return exit_status(Status(self.report["status"]), Reason(reason) if reason else None)

    @property
    def group(self) -> str:
        """The key that groups scripts: the fingerprint of a failure, else the verdict."""
        if self.report is None:
            return "refused"
        return fingerprint(self.report) or self.verdict

    @property
    def verdict(self) -> str:
        if self.report is None:
            return "refused"
        reason = self.report.get("reason")
        return str(self.report["status"]) + (f" ({reason})" if reason else "")

    @property
    def heading(self) -> str:
        """The group in words."""
        failure = self.report.get("failure") if self.report is not None else None
        if self.report is None or not failure:
            return self.verdict
        operators = ", ".join(root_operators(self.report))
        return f"{failure['kind']} in {failure['stage']}{f': {operators}' if operators else ''}"


def scripts_in(folder: Path) -> list[Path]:
    """The scripts of a folder: Python files directly in it, except those whose names begin with an underscore or a dot.

    Raises:
        InvalidScript: there is none.
    """
    found = sorted(path for path in folder.glob("*.py") if path.is_file() and path.name[0] not in "._")
    if not found:
        raise InvalidScript(f"--each {folder}: no script lies directly in this folder; name the folder of the scripts")
    return found


def work_off(
    scripts: Sequence[Path], out: Path, asked: Mapping[str, Any], reduce: Callable[[Path, Path], int]
) -> tuple[list[Row], bool]:
    """Reduce each script that is not done; returns a row for each one reached, and whether all were.

    Args:
        scripts: their files.
        out: the folder of all results.
        asked: the request apart from the script, as JSON: other options make another request.
        reduce: reduces a script, leaves its results in a folder, and returns the exit status.
    """
    rows: list[Row] = []
    for number, script in enumerate(scripts, 1):
        folder = out / script.stem
        question = _question(script, asked)
        report = _answer(folder, question)
        if report is not None:
            click.echo(f"{number} of {len(scripts)}: {script}: done before", err=True)
            rows.append(Row(script, folder, report))
            continue
        click.echo(f"{number} of {len(scripts)}: {script}", err=True)
        (folder / ASKED).unlink(missing_ok=True)
        try:
            status = reduce(script, folder)
        except UserError as error:
            click.echo(f"Error: {error}", err=True)
            rows.append(Row(script, folder, None, str(error)))
            continue
        report = _read(folder / "report.json")
        if report is not None:
            (folder / ASKED).write_text(json.dumps({"question": question}) + "\n")
            rows.append(Row(script, folder, report))
        if status == Exit.CANCELLED:
            return rows, False
    return rows, True


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The rows by group, failures first and of these what most scripts have; a line for each script."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    faults = [name for name, members in groups.items() if _fails(members[0])]
    every = [row for members in groups.values() for row in members]
    yield f"{counted(len(every), 'script')}, {counted(len(faults), 'fault')}"
    width = max((len(row.script.name) for row in every), default=0)
    for name in sorted(groups, key=lambda name: (name not in faults, -len(groups[name]), groups[name][0].script)):
        members = groups[name]
        yield ""
        yield f"{printable(members[0].heading, 200)}" + (f"  [{name}]" if name in faults else "")
        for row in members:
            yield f"  {printable(row.script.name):{width}}  {_told(row)}".rstrip()


def status_of(rows: Iterable[Row], *, all_done: bool) -> int:
    """The exit status of the whole: internal errors first, then the findings."""
    if not all_done:
        return Exit.CANCELLED
    seen = {row.status for row in rows}
    return next(status for status in BY_WEIGHT if status in seen)


def _fails(row: Row) -> bool:
    return row.report is not None and bool(row.report.get("failure"))


def _told(row: Row) -> str:
    """The end of a row's line: where its repro is, or why there is none."""
    if row.report is None:
        return printable(row.refused, 200)
    repro = row.folder / "repro.py"
    if not _fails(row) or not repro.exists():
        return row.verdict if _fails(row) else ""
    return f"{row.verdict}  {repro}"


def _question(script: Path, asked: Mapping[str, Any]) -> str:
    """The hash of the request for a script: its text, and everything else in the request."""
    text = json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(script.read_bytes() + text.encode()).hexdigest()


def _answer(folder: Path, question: str) -> Mapping[str, Any] | None:
    """The report that answers this question already, if there is one."""
    asked = _read(folder / ASKED)
    report = _read(folder / "report.json")
    if asked is None or report is None or asked.get("question") != question:
        return None
    return None if report.get("reason") in AGAIN or not Status(report["status"]).is_final else report


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else None
    return None

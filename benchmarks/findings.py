"""Programs of which nothing is wrong and that cost more than they need: whether the finding, its line and its remedy are right.

    python benchmarks/findings.py                    # all programs of findings/ and their twins; hours on a small machine
    python benchmarks/findings.py item_scale         # those whose names begin so
    python benchmarks/findings.py --table            # runs nothing, prints the table of what is known

``cases.json`` says of each program the kind and the line of its finding and what must help, of a twin that there is none; changed settings are for information only, and do not count. Each program is a
line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resumable import due, is_named, parser_of
from vs_upstream import ROOT, add_row, read_rows, run_ours, say

from minimizer.cli.exit_status import exit_status
from minimizer.vocabulary import Reason, Status

FOLDER = Path(__file__).with_suffix("")
RESULTS = Path(__file__).with_suffix(".jsonl")
WORK = ROOT / "minimizer-out" / "findings"
Row = dict[str, Any]


def main() -> int:
    arguments = parser_of(__doc__, RESULTS, limit=600).parse_args()
    cases: dict[str, Row] = json.loads((FOLDER / "cases.json").read_text())["cases"]
    chosen = [name for name in cases if is_named(name, arguments)]
    rows = {row["case"]: row for row in read_rows(arguments.results)}
    for name in due(chosen, rows, arguments):
        say(name)
        add_row(rows, name, measure(FOLDER / f"{name}.py", cases[name], arguments.limit), arguments.results)
    print(table([rows[name] for name in chosen if name in rows]))
    return 0


def measure(script: Path, truth: Row, limit: int) -> Row:
    folder = WORK / script.stem
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").unlink(missing_ok=True)
    ours = run_ours(script, limit, folder)
    row: Row = {"case": script.stem, "seconds": ours.seconds}
    try:
        report = json.loads((folder / "report.json").read_text())
    except FileNotFoundError:
        return row | {"exit": None, "found": [], "wrong": [f"no report: {ours.note}"]}
    ended = exit_status(Status(report["status"]), Reason(report["reason"]) if report["reason"] else None)
    found = [said_of(finding) for finding in report["findings"] if finding["kind"] != "settings"]
    return row | {"exit": ended, "found": found, "wrong": wrong(ended, found, truth)}


def said_of(finding: Row) -> Row:
    """What a finding says, flat."""
    helped = next((remedy for remedy in finding["remedies"] if remedy["helped"]), None)
    return {
        "kind": finding["kind"],
        "line": (finding["source"] or {}).get("line"),
        "cost": finding["cost"],
        "helped": helped["what"] if helped else None,
        "before": helped["before"] if helped else None,
        "after": helped["after"] if helped else None,
        "tried": len(finding["remedies"]),
    }


def wrong(ended: int, found: Sequence[Row], truth: Row) -> list[str]:
    """What is not as it must be, in words."""
    said = [] if ended == truth.get("exit", 3) else [f"exit {ended}"]
    if truth["kind"] is None:
        return said + [f"a {one['kind']} finding of a twin" for one in found]
    right = next((one for one in found if one["kind"] == truth["kind"]), None)
    if right is None:
        return [*said, "no finding"]
    others = {one["kind"] for one in found if one is not right}
    said += [f"also {kind}" for kind in sorted(others - set(truth.get("also", ())))]
    said += [f"no {kind}" for kind in truth.get("also", ()) if kind not in others]
    if right["line"] != truth["line"]:
        said.append(f"line {right['line']}")
    if truth["remedy"] is None and right["helped"]:
        said.append(f"{right['helped']} is said to help")
    if truth["remedy"] is not None and truth["remedy"] not in (right["helped"] or ""):
        said.append(f"helped: {right['helped']}")
    return said


def table(rows: Sequence[Row]) -> str:
    """A row for each program with a finding, and the number of twins that have none."""
    lines = [
        "| program | finding | line | helped | before | after | seconds | wrong |",
        "|---|---|---:|---|---:|---:|---:|---|",
    ]
    for row in rows:
        if not row["case"].endswith("_twin"):
            first = row["found"][0] if row["found"] else {}
            cells = [first.get(name) for name in ("kind", "line", "helped", "before", "after")]
            shown = ["-" if cell is None else str(cell) for cell in cells]
            lines.append(
                f"| {' | '.join([row['case'], *shown, format(row['seconds'], '.0f'), '; '.join(row['wrong'])])} |"
            )
    twins = [row for row in rows if row["case"].endswith("_twin")]
    quiet = sum(not row["wrong"] for row in twins)
    return "\n".join([*lines, "", f"{quiet} of {len(twins)} twins have no finding."])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

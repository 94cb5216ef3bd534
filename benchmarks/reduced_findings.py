"""Findings as failures: whether the programs of findings/ are reduced under ``--expect``, and how small what is left is.

    python benchmarks/reduced_findings.py            # all programs with a finding that can be expected
    python benchmarks/reduced_findings.py item_scale # those whose names begin so
    python benchmarks/reduced_findings.py --table    # runs nothing, prints the table of what is known

Right is exit status 0 with a failure of the kind that was asked for, and a repro that was verified. Each program is a line of the results
file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from findings import FOLDER
from resumable import due, is_named, parser_of
from vs_upstream import ROOT, add_row, read_rows, run_ours, say

from minimizer.cli.exit_status import exit_status
from minimizer.vocabulary import Reason, Status

RESULTS = Path(__file__).with_suffix(".jsonl")
WORK = ROOT / "minimizer-out" / "reduced-findings"
EXPECT = {
    "recompiles": "recompiles",
    "graph_breaks": "graph-break",
    "compile_time": "compile-time",
    "memory": "memory",
    "slow": "slow",
}
"""What to ask for, by the kind of finding."""
Row = dict[str, Any]


def main() -> int:
    arguments = parser_of(__doc__, RESULTS, limit=900).parse_args()
    cases: dict[str, Row] = json.loads((FOLDER / "cases.json").read_text())["cases"]
    chosen = [name for name, case in cases.items() if case["kind"] in EXPECT and is_named(name, arguments)]
    rows = {row["case"]: row for row in read_rows(arguments.results)}
    for name in due(chosen, rows, arguments):
        say(name)
        row = measure(FOLDER / f"{name}.py", EXPECT[cases[name]["kind"]], arguments.limit)
        add_row(rows, name, row, arguments.results)
    print(table([rows[name] for name in chosen if name in rows]))
    return 0


def measure(script: Path, expect: str, limit: int) -> Row:
    folder = WORK / script.stem
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").unlink(missing_ok=True)
    ours = run_ours(script, limit, folder, ["--expect", expect, "--no-diagnosis"])
    row: Row = {"case": script.stem, "expect": expect, "seconds": ours.seconds}
    try:
        report = json.loads((folder / "report.json").read_text())
    except FileNotFoundError:
        return row | {"wrong": [f"no report: {ours.note}"]}
    failure, verification = report["failure"] or {}, report["verification"] or {}
    reduction = report["reduction"] or {}
    ended = exit_status(Status(report["status"]), Reason(report["reason"]) if report["reason"] else None)
    wrong = [] if ended == 0 else [f"exit {ended}"]
    if failure.get("kind") != expect.replace("-", "_"):
        wrong.append(f"kind {failure.get('kind')}")
    if not verification or verification["failed_same"] < verification["runs"]:
        wrong.append("not verified")
    figures = {name: reduction.get(name) for name in ("lines_before", "lines_after", "trials", "one_minimal")}
    return row | {"stage": failure.get("stage"), **figures, "wrong": wrong}


def table(rows: Sequence[Row]) -> str:
    """A row for each program."""
    lines = [
        "| program | expected | stage | lines before | lines after | 1-minimal | trials | seconds | wrong |",
        "|---|---|---|---:|---:|---|---:|---:|---|",
    ]
    for row in rows:
        cells = [row.get(name) for name in ("case", "expect", "stage", "lines_before", "lines_after")]
        shown = ["-" if cell is None else str(cell) for cell in cells]
        minimal = "yes" if row.get("one_minimal") else "no"
        figures = [minimal, str(row.get("trials", "-")), f"{row['seconds']:.0f}", "; ".join(row["wrong"])]
        lines.append(f"| {' | '.join([*shown, *figures])} |")
    right = sum(not row["wrong"] for row in rows)
    return "\n".join([*lines, "", f"{right} of {len(rows)} are reduced and verified."])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

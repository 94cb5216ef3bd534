"""Faults of Dynamo between graphs, from a folder of scripts of which the truth is known: found or not, and how small the repro is.

    python benchmarks/between.py CASES                   # every script of CASES/cases.json
    python benchmarks/between.py CASES lru getenv        # those whose names begin so
    python benchmarks/between.py CASES --table           # runs nothing, prints the table from what is known

``cases.json`` says of each script the exit status of ``minimizer run``, and of a faulty one its mechanism (of several, each is right)
and ``minimal``, the shortest program known that shows the fault. Each script is a line of the results file as soon as it has ended, and
is not run again. Lines are those of code after ``ruff format``, of both programs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from vs_upstream import REPRO_ONLY, ROOT, code_lines, read_rows, run_ours, say

from minimizer.cli.exit_status import exit_status
from minimizer.vocabulary import Reason, Status

WORK = ROOT / "minimizer-out" / "between"
Row = dict[str, Any]


def main() -> int:
    arguments = parse()
    results: Path = arguments.results
    results.parent.mkdir(parents=True, exist_ok=True)
    cases: dict[str, Row] = json.loads((arguments.cases / "cases.json").read_text())["cases"]
    chosen = [name for name in cases if name.startswith(tuple(arguments.names or [""]))]
    rows = {row["case"]: row for row in read_rows(results)}
    for name in chosen if not arguments.table else ():
        if name in rows and not arguments.fresh:
            continue
        say(name)
        rows[name] = measure(arguments.cases.resolve() / f"{name}.py", cases[name], arguments.limit)
        with results.open("a") as file:
            file.write(json.dumps(rows[name]) + "\n")
    print(table([rows[name] for name in chosen if name in rows]))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="a folder of scripts with cases.json")
    parser.add_argument("names", nargs="*", help="how the names of scripts begin (default: all)")
    parser.add_argument("--limit", type=int, default=900, metavar="SECONDS", help="budget of a script (default 900)")
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--results", type=Path, default=WORK / "results.jsonl", metavar="FILE")
    return parser.parse_args()


def measure(script: Path, truth: Row, limit: int) -> Row:
    folder = WORK / script.stem
    folder.mkdir(parents=True, exist_ok=True)
    ours = run_ours(script, limit, folder, REPRO_ONLY)
    report = json.loads((folder / "report.json").read_text())
    failure, proof = report.get("failure") or {}, report.get("verification") or {"runs": 0, "failed_same": 0}
    expected = truth.get("mechanism") or []
    return {
        "case": script.stem,
        "exit": exit_status(Status(report["status"]), Reason(report["reason"]) if report["reason"] else None),
        "expected_exit": truth["exit"],
        "mechanism": failure.get("mechanism"),
        "expected": [expected] if isinstance(expected, str) else expected,
        "object": failure.get("object"),
        "verified": bool(proof["runs"]) and proof["failed_same"] == proof["runs"],
        "lines": formatted_lines(Path(ours.repro).read_text()) if ours.repro else None,
        "minimal": formatted_lines(truth["minimal"]) if "minimal" in truth else None,
        "trials": ours.trials,
        "seconds": ours.seconds,
        "note": ours.note,
    }


def formatted_lines(text: str) -> int:
    """Lines of code after ``ruff format``."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    return code_lines(subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout)


def table(rows: list[Row]) -> str:
    """A row for each script, and the figures over all."""
    lines = [
        "| script | exit | mechanism | object | verified | lines | minimal | ratio | trials | seconds |",
        "| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        mechanism = shown(row["mechanism"]) + ("" if is_right(row) else f" (expected {', '.join(row['expected'])})")
        cells = [row["case"], f"{row['exit']}" + ("" if row["exit"] == row["expected_exit"] else " (wrong)"), mechanism]
        cells += [shown(row["object"]), "yes" if row["verified"] else "-", shown(row["lines"]), shown(row["minimal"])]
        cells += [f"{ratio:.2f}" if (ratio := ratio_of(row)) else "-", shown(row["trials"]), f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    faulty = [row for row in rows if row["expected_exit"] == 0]
    ratios = [ratio for row in faulty if (ratio := ratio_of(row))]
    right = sum(is_right(row) and row["verified"] for row in faulty)
    healthy = [row for row in rows if row["expected_exit"] != 0]
    quiet = sum(row["exit"] == row["expected_exit"] for row in healthy)
    said = f"{right} of {len(faulty)} found with the right mechanism and verified; {quiet} of {len(healthy)} healthy ones quiet."
    if ratios:
        said += f" Lines of the repro against the shortest known: {statistics.median(ratios):.2f} times in the median, {max(ratios):.2f} at most."
    return "\n".join([*lines, "", said])


def is_right(row: Row) -> bool:
    return row["mechanism"] in row["expected"] if row["expected"] else row["exit"] == row["expected_exit"]


def ratio_of(row: Row) -> float | None:
    return row["lines"] / row["minimal"] if row["lines"] and row["minimal"] else None


def shown(value: object) -> str:
    return "-" if value is None else str(value)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""Faults that only a sequence of calls shows, in training and decoding loops: found or not, where, and how small the repro is.

    python benchmarks/loops.py                       # all of loops/, each with its healthy twin
    python benchmarks/loops.py accumulated two       # those whose names begin so
    python benchmarks/loops.py --check               # runs no minimizer: that the shortest programs fail, and only with the compiler
    python benchmarks/loops.py --table               # runs nothing, prints the table from what is known

``cases.json`` says of each script what `benchmarks/monitored.py` says of its own. Right is a faulty script with the exit status, kind and
stage that it must have, a repro that was verified, and one of its lines at fault; and a twin that is called healthy. Each
script is a line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from between import shown
from monitored import WORK, Row, check, measure, read_cases
from resumable import due, is_named, parser_of
from vs_upstream import read_rows, say

FOLDER = "loops"
RESULTS = Path(__file__).with_suffix(".jsonl")


def main() -> int:
    arguments = parse()
    cases = {name: case for name, case in read_cases(FOLDER).items() if is_named(name, arguments)}
    if arguments.check:
        return check({name: case for name, case in cases.items() if "minimal" in case})
    results: Path = arguments.results
    rows = {row["case"]: row for row in read_rows(results)}
    for name in due(cases, rows, arguments):
        say(name)
        row = measure(Path(__file__).parent / FOLDER / f"{name}.py", cases[name], arguments.limit)
        rows[name] = row | {"group": cases[name]["group"], "way": way_of(name)}
        with results.open("a") as file:
            file.write(json.dumps(rows[name]) + "\n")
        say(f"  {'right' if is_right(rows[name]) else 'wrong: ' + '; '.join(flaws(rows[name]))}")
    print(table([rows[name] for name in cases if name in rows]))
    return 0


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, RESULTS, limit=600, of="script")
    parser.add_argument(
        "--check", action="store_true", help="only run the shortest programs, with the compiler and without"
    )
    return parser.parse_args()


def way_of(name: str) -> str | None:
    """The attempt that led to the repro of the last run of a script."""
    try:
        report = json.loads((WORK / name / "report.json").read_text())
    except FileNotFoundError:
        return None
    return next((attempt["what"] for attempt in report["attempts"] if attempt["outcome"] == "a repro"), None)


def flaws(row: Row) -> list[str]:
    """What makes a script count as wrong: a line that is not told is one, a long repro is none."""
    return [*row["wrong"], *(what for what in row["off"] if what.startswith("line "))]


def is_right(row: Row) -> bool:
    return not flaws(row)


def table(rows: Sequence[Row]) -> str:
    """A row for each script, and the figures over all."""
    text = [
        "| script | group | kind | stage | way | lines | shortest | trials | seconds | wrong |",
        "| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        names = ("kind", "stage", "way", "lines", "minimal", "trials")
        cells = [row["case"].replace("_", " "), row["group"], *(shown(row.get(name)) for name in names)]
        cells += [f"{row['seconds']:.0f}", "; ".join(flaws(row))]
        text.append(f"| {' | '.join(cells)} |")
    faulty, twins = ([row for row in rows if row["case"].endswith("_twin") is is_twin] for is_twin in (False, True))
    found = sum(is_right(row) for row in faulty)
    verified = sum(bool(row.get("verified")) for row in faulty)
    quiet = sum(is_right(row) for row in twins)
    said = f"{found} of {len(faulty)} right, {verified} with a verified repro; {quiet} of {len(twins)} twins quiet."
    return "\n".join([*text, "", said])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

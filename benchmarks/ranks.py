"""Programs of several ranks: found or not, in which rank, where, and whether a healthy one is left in peace.

    python benchmarks/ranks.py                       # all of ranks/
    python benchmarks/ranks.py fsdp2 ddp             # those whose names begin so
    python benchmarks/ranks.py --table               # runs nothing, prints the table from what is known

``cases.json`` says of each script what `benchmarks/monitored.py` says of its own, and ``options`` of ``minimizer run``, and ``rank``, the
first rank that shows the fault. Right is what is right there, with the rank, the module and one of the lines at fault. Each script is a
line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from between import shown
from monitored import WORK, Row, measure, read_cases
from resumable import due, is_named, parser_of
from vs_upstream import add_row, read_rows, say

FOLDER = "ranks"
RESULTS = Path(__file__).with_suffix(".jsonl")
_RANK = re.compile(r"Rank (\d+) of \d+ shows this")


def main() -> int:
    arguments = parser_of(__doc__, RESULTS, limit=600).parse_args()
    cases = {name: case for name, case in read_cases(FOLDER).items() if is_named(name, arguments)}
    results: Path = arguments.results
    rows = {row["case"]: row for row in read_rows(results)}
    for name in due(cases, rows, arguments):
        say(name)
        case = cases[name]
        row = measure(Path(__file__).parent / FOLDER / f"{name}.py", case, arguments.limit)
        row |= {"group": case["group"], "rank": rank_of(name) if row["exit"] == 0 else None}
        if case["exit"] == 0 and row["rank"] is not None and row["rank"] != case["rank"]:
            row["wrong"] = [*row["wrong"], f"rank {row['rank']}"]
        add_row(rows, name, row, results)
    print(table([rows[name] for name in cases if name in rows]))
    return 0


def rank_of(name: str) -> int:
    """The rank that showed the failure in the last run of a program: the first one, unless a note names another."""
    notes = json.loads((WORK / name / "report.json").read_text()).get("notes") or ()
    return next((int(found[1]) for note in notes if (found := _RANK.match(note))), 0)


def flaws(row: Row) -> list[str]:
    """What makes a program count as wrong: a module or line that is not told is one, a long repro is none."""
    return [*row["wrong"], *(what for what in row["off"] if what.startswith(("module ", "line ")))]


def table(rows: Sequence[Row]) -> str:
    """A row for each program, and the figures over all."""
    text = [
        "| program | kind | stage | rank | module | lines | seconds | wrong |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    for row in rows:
        cells = [row["case"].replace("_", " "), *(shown(row.get(name)) for name in ("kind", "stage", "rank", "module"))]
        cells += [shown(row.get("lines")), f"{row['seconds']:.0f}", "; ".join(flaws(row))]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join([*text, "", f"{sum(not flaws(row) for row in rows)} of {len(rows)} right."])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""What a model of 311 million parameters costs: time and memory beside the script's own, with one faulty layer and without.

    python benchmarks/size.py                # 61 and 311 million parameters, each with a fault and without; hours on a small machine
    python benchmarks/size.py small          # those whose names begin so
    python benchmarks/size.py --table        # runs nothing, writes the table from what is known

For each: the script by itself on a cold cache, then minimizer. Memory is the peak over all processes of a command, looked at five times
a second: private pages, and shared ones and files in memory once (`minimizer.sandbox.footprint`). Page cache of files on disk is no part
of it. Each row is a line of the results file as soon as it is known, and is not measured again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from between import shown
from page_section import rewrite
from resumable import due, is_named, parser_of
from vs_upstream import ROOT, Ran, add_row, code_lines, read_rows, run, say

from minimizer.sandbox.footprint import taken
from minimizer.sandbox.supervisor import descendants

SCRIPT = Path(__file__).parent / "size" / "gpt.py"
PAGE = ROOT / "docs" / "systems.md"
BEGIN, END = "<!-- benchmarks/size.py writes from here -->", "<!-- size.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
MODULES = {"small": "blocks.9.activation", "large": "blocks.12.activation"}
"""The faulty module of each size."""
CASES = [f"{size} {twin}" for size in MODULES for twin in ("faulty", "healthy")]
Row = dict[str, Any]


def main() -> int:
    arguments = parser_of(__doc__, RESULTS, limit=1800, of="case", writes_page=True).parse_args()
    chosen = [case for case in CASES if is_named(case, arguments)]
    rows = {row["case"]: row for row in read_rows(arguments.results)}
    for case in due(chosen, rows, arguments):
        say(case)
        add_row(rows, case, measure(case, arguments.limit), arguments.results)
    text = table([rows[case] for case in CASES if case in rows])
    if arguments.results == RESULTS:
        rewrite(PAGE, BEGIN, END, text)
    print(text)
    return 0


def measure(case: str, limit: int) -> Row:
    """The script by itself, and what minimizer says of it."""
    size, twin = case.split()
    with tempfile.TemporaryDirectory() as name:
        place, out = Path(name), Path(name, "out")
        plain, plain_peak = watched([sys.executable, str(SCRIPT), size, twin], place, limit)
        command = [
            sys.executable,
            "-m",
            "minimizer",
            "run",
            str(SCRIPT),
            "--no-witness",
            "--no-diagnosis",
            "--out",
            str(out),
        ]
        ours, peak = watched([*command, "--budget", str(limit), "--", size, twin], place, limit + 60)
        report = json.loads((out / "report.json").read_text())
        repro = out / "repro.py"
        lines = code_lines(repro.read_text()) if repro.exists() else None
    culprits = report.get("culprits") or [{}]
    row = {
        "case": case, "exit": ours.status, "module": culprits[0].get("module"), "lines": lines,
        "kind": (report.get("failure") or {}).get("kind"), "reason": report.get("reason"), "timings": report.get("timings"),
        "plain": [round(plain.seconds, 1), plain_peak], "ours": [round(ours.seconds, 1), peak],
    }  # fmt: skip
    return row | {"wrong": [*wrong(row, plain)]}


def wrong(row: Row, plain: Ran) -> Iterator[str]:
    size, twin = row["case"].split()
    if plain.status != 0:
        yield f"the script itself ends with {plain.status}"
    if twin == "healthy" and row["exit"] != 3:
        yield f"exit {row['exit']}, and nothing is wrong"
    if twin == "faulty" and (row["exit"] != 0 or row["module"] != MODULES[size]):
        yield f"exit {row['exit']}, module {row['module']}"


def watched(command: Sequence[str], place: Path, limit: float) -> tuple[Ran, int]:
    """A command that is run with a cold cache, and the most bytes that it takes."""
    with peak_of_children() as peak:
        ran = run([*command], place, limit)
    return ran, peak[0]


@contextmanager
def peak_of_children() -> Iterator[list[int]]:
    """Look at the memory of all processes of ours but this one; the most bytes of it are in the list, which is right at the end."""
    peak, is_over = [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.2):
            peak[0] = max(peak[0], taken(descendants(os.getpid())))

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield peak
    finally:
        is_over.set()
        watch.join()


def table(rows: Sequence[Row]) -> str:
    if not rows:
        return "Not run yet."
    head = (
        "| program | verdict | module | lines | script, s | minimizer, s | as a multiple | script, GB | minimizer, GB | as a multiple | wrong |\n"
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|"
    )
    return "\n".join([head, *map(table_row, rows)])


def table_row(row: Row) -> str:
    (own, own_peak), (seconds, peak) = row["plain"], row["ours"]
    verdict = "healthy" if row["exit"] == 3 else row["kind"] or f"exit {shown(row['exit'])}"
    cells = [row["case"], verdict, shown(row["module"]), shown(row["lines"])]
    cells += [f"{own:.0f}", f"{seconds:.0f}", f"{seconds / own:.1f}"]
    cells += [f"{own_peak / 1e9:.2f}", f"{peak / 1e9:.2f}", f"{peak / own_peak:.2f}", "; ".join(row["wrong"])]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""What a healthy verdict costs, in runs of the script: the exact runs, the compared runs, and the whole.

    python benchmarks/cost.py                  # ten healthy programs; half an hour on an idle machine
    python benchmarks/cost.py --only loop rnn  # some of them
    python benchmarks/cost.py --table          # runs nothing, writes the table from what is known

A plain run is ``python SCRIPT`` on a cold cache; one comes before and one after each verdict, and the mean of both is the unit. The
programs are those in ``programs/``, as they are: nothing is wrong with them. Each is a line of the results file as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverage import PROGRAMS, read
from page_section import rewrite
from vs_upstream import ROOT, run

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/cost.py writes from here -->", "<!-- cost.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
NAMES = (
    "layers_by_steps", "loop", "gpt_layers", "gpt_whole", "decode", "moe", "resnet", "checkpointed", "rnn", "unet",
)  # fmt: skip
LIMIT = 1800
Row = dict[str, Any]


def measure(name: str, limit: int, work: Path) -> Row:
    """One program: a plain run, a verdict, a plain run."""
    script, out = PROGRAMS / f"{name}.py", work / name
    plain = [sys.executable, str(script)]
    before = run(plain, work, limit)
    command = [
        sys.executable,
        "-m",
        "minimizer",
        "run",
        str(script),
        "--out",
        str(out),
        "--no-witness",
        "--no-diagnosis",
    ]
    verdict = run([*command, "--budget", str(limit)], work, limit + 300)
    after = run(plain, work, limit)
    report = json.loads((out / "report.json").read_text())
    timings, checked = report["timings"], report["checked"]
    return {
        "program": name, "exit": verdict.status, "plain": [round(one.seconds, 1) for one in (before, after)],
        "ended": [one.status for one in (before, after)], "exact": timings.get("exact", 0.0),
        "survey": timings.get("survey", 0.0), "seconds": round(verdict.seconds, 1),
        "compared": [checked["calls"], checked["calls_made"]], "summary": report["summary"], "load": os.getloadavg()[0],
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    text = (
        "| program | plain run, s | exact runs | survey | whole verdict | calls compared, of those made | verdict |\n"
        "|---|---:|---:|---:|---:|---:|---|"
    )
    for row in rows:
        unit = statistics.mean(row["plain"])
        shares = " | ".join(f"{row[step] / unit:.1f}" for step in ("exact", "survey", "seconds"))
        said = "healthy" if row["exit"] == 3 else f"exit {row['exit']}"
        compared = f"{row['compared'][0]:,} of {row['compared'][1]:,}"
        text += f"\n| {row['program']} | {unit:.0f} | {shares} | {compared} | {said} |"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME", help="some programs")
    parser.add_argument("--fresh", action="store_true", help="measure again what is known")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="SECONDS", help="budget of a verdict")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    known = {row["program"]: row for row in read(arguments.results)}
    for name in () if arguments.table else arguments.only:
        if name in known and not arguments.fresh:
            continue
        with tempfile.TemporaryDirectory() as work:
            known[name] = measure(name, arguments.limit, Path(work))
        with arguments.results.open("a") as file:
            file.write(json.dumps(known[name]) + "\n")
        print(json.dumps(known[name]), flush=True)
    text = table([known[name] for name in NAMES if name in known])
    if arguments.results == RESULTS:
        rewrite(PAGE, BEGIN, END, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether a budget is kept: ten slow scripts of the corpus with 120 seconds each, two at a time.

    python benchmarks/budget.py                                      # what is not known yet; twenty minutes
    python benchmarks/budget.py --side before --engine PATH/minimizer    # another engine, for a column beside ours
    python benchmarks/budget.py --table                              # runs nothing, writes the table from what is known

A job is `minimizer run SCRIPT --budget 120` with all of its steps, PyTorch's own tools included. Its overrun is told twice: by the job's
own clock, removal of its processes and folders included, and by that of the whole command, with the start of Python before it. Each job is a line of the results file as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from corpus import CORPUS, TRUTH
from coverage import read
from page_section import rewrite
from vs_upstream import ROOT, run

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/budget.py writes from here -->", "<!-- budget.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
NAMES = (
    "backend_reads_unwritten_memory", "pass_loops_on_softmax", "real_198101", "cross_entropy_backward", "backend_waits_for_ever",
    "flaky_pass", "running_mean_is_stale", "optimizer_step", "period_of_infinity", "gnn_scatter_lowering",
)  # fmt: skip
BUDGET, AT_ONCE = 120, 2
LATE_SECONDS = 900
"""Seconds behind its budget after which a job is given up."""
SIDES = ("before", "now")
Row = dict[str, Any]


def measure(name: str, side: str, engine: Sequence[str], work: Path) -> Row:
    """One job, as a line of the results file."""
    out = work / name
    command = [*engine, "run", str(CORPUS / f"{name}.py"), "--out", str(out), "--budget", str(BUDGET)]
    ran = run([*command, *TRUTH[name].get("arguments", ())], work, BUDGET + LATE_SECONDS)
    report = json.loads((out / "report.json").read_text())
    verification = report["verification"] or {"runs": 0, "failed_same": 0, "passes_with_compiler_off": False}
    shows = 0 < verification["runs"] == verification["failed_same"] and verification["passes_with_compiler_off"]
    return {
        "case": name, "side": side, "budget": BUDGET, "exit": ran.status, "seconds": round(ran.seconds, 1), "verified": shows,
        "status": report["status"], "reason": report["reason"], "one_minimal": (report["reduction"] or {}).get("one_minimal"),
        "nodes": [(report["reduction"] or {}).get(f"nodes_{when}") for when in ("before", "after")],
        "timings": report["timings"], "summary": report["summary"], "load": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """The jobs of all sides, case by case, behind a sentence for each side."""
    text = [said(side, [row for row in rows if row["side"] == side]) for side in SIDES]
    text.append(
        "\n| script | engine | job, seconds behind the budget | command | verified repro | end | load |\n"
        "|---|---|---:|---:|---|---|---:|"
    )
    for row in sorted(rows, key=lambda row: (NAMES.index(row["case"]), SIDES.index(row["side"]))):
        end = f"exit {row['exit']}, {row['status']}" + (f", {row['reason']}" if row["reason"] else "")
        verified = "yes" if row["verified"] else "no"
        late = f"{job_late(row):+.1f} | {row['seconds'] - row['budget']:+.1f}"
        text.append(f"| {row['case']} | {row['side']} | {late} | {verified} | {end} | {row['load']:.0f} |")
    return "\n".join(text)


def job_late(row: Row) -> float:
    """Seconds behind its budget at which a job was over, by its own clock."""
    return float(row["timings"]["total"] - row["budget"])


def said(side: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"- {side}: not measured"
    late = max(row["seconds"] - row["budget"] for row in rows)
    return (
        f"- {side}: {len(rows)} jobs, the largest overrun {max(map(job_late, rows)):+.1f} s, of the whole command {late:+.1f} s; {sum(row['verified'] for row in rows)} had a verified repro, and "
        f"{sum(row['exit'] == 0 for row in rows)} ended with exit 0"
    )


def main() -> int:
    arguments = parse()
    known = {(row["case"], row["side"]): row for row in read(arguments.results)}
    asked = [] if arguments.table else arguments.only
    missing = [name for name in asked if arguments.fresh or (name, arguments.side) not in known]

    def one(name: str) -> None:
        with tempfile.TemporaryDirectory() as work:
            row = measure(name, arguments.side, arguments.engine, Path(work))
        with arguments.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        known[name, arguments.side] = row
        print(json.dumps(row), flush=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, missing))
    text = table(list(known.values()))
    if arguments.results == RESULTS:
        rewrite(PAGE, BEGIN, END, text)
    print(text)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME", help="some scripts")
    parser.add_argument("--side", default="now", choices=SIDES, help="the engine's column")
    parser.add_argument(
        "--engine", nargs="+", default=[sys.executable, "-m", "minimizer"], metavar="WORD", help="its command"
    )
    parser.add_argument("--fresh", action="store_true", help="measure again what is known")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

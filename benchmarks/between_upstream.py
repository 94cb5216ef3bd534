"""PyTorch's own tools on faults of Dynamo between graphs: its minifier, and its bisector of the compiler.

    python benchmarks/between_upstream.py CASES                # every faulty script of CASES/cases.json
    python benchmarks/between_upstream.py CASES lru getenv     # those whose names begin so
    python benchmarks/between_upstream.py CASES --table        # runs nothing, prints the table from what is known

The minifier is used as in ``vs_upstream.py``. The bisector (``torch._inductor.compiler_bisector``) asks a program for its exit status,
and these scripts check nothing: so it is run on ``minimal`` too, the shortest program known, which asserts what eager gives. Each script
is a line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from between import WORK, Row
from vs_upstream import last_line, read_rows, run, run_upstream, say

BLAMED = re.compile(
    r"^(Disabling .*|Setting config .*|The issue is in .*|All systems .*|The bisect number .*|Bisection result.*)$",
    re.M,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, help="a folder of scripts with cases.json")
    parser.add_argument("names", nargs="*", help="how the names of scripts begin (default: all)")
    parser.add_argument(
        "--limit", type=int, default=180, metavar="SECONDS", help="for the minifier, and for the bisector (default 180)"
    )
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--results", type=Path, default=WORK / "upstream.jsonl", metavar="FILE")
    arguments = parser.parse_args()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    cases: dict[str, Row] = json.loads((arguments.cases / "cases.json").read_text())["cases"]
    chosen = [
        name for name, case in cases.items() if case["exit"] == 0 and name.startswith(tuple(arguments.names or [""]))
    ]
    rows = {row["case"]: row for row in read_rows(arguments.results)}
    for name in chosen if not arguments.table else ():
        if name in rows:
            continue
        say(name)
        rows[name] = measure((arguments.cases / f"{name}.py").resolve(), cases[name]["minimal"], arguments.limit)
        with arguments.results.open("a") as file:
            file.write(json.dumps(rows[name]) + "\n")
    print(table([rows[name] for name in chosen if name in rows]))
    return 0


def measure(script: Path, minimal: str, limit: int) -> Row:
    folder = WORK / "upstream" / script.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    minifier = run_upstream(script, limit, folder / "minifier")
    shortest = folder / "minimal.py"
    shortest.write_text(minimal)
    return {
        "case": script.stem,
        "minifier": minifier.note
        if not minifier.repro
        else f"a repro that {'fails' if minifier.fails else 'does not fail'}",
        "seconds": minifier.seconds,
        "bisector": bisect(script, folder, limit),
        "on_minimal": bisect(shortest, folder, limit),
    }


def bisect(script: Path, folder: Path, limit: int) -> str:
    """What the bisector says in the end."""
    command = [sys.executable, "-m", "torch._inductor.compiler_bisector", "run", sys.executable, str(script)]
    ran = run(command, folder, limit)
    said = BLAMED.findall(ran.output)
    return str(said[-1]) if said else f"stopped after {limit} s" if ran.stopped else last_line(ran.output)


def table(rows: list[Row]) -> str:
    lines = [
        "| fault | PyTorch's minifier | its seconds | its bisector | its bisector on the shortest program |",
        "|---|---|---:|---|---|",
    ]
    for row in rows:
        name = row["case"].replace("_", " ")
        lines.append(f"| {name} | {row['minifier']} | {row['seconds']:.0f} | {row['bisector']} | {row['on_minimal']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

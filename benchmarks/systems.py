"""Programs with models of libraries, as people have them: nothing is wrong with them, and none may raise an alarm.

    python benchmarks/systems.py                     # all of libraries/ and dashboard_models.py; hours on a small machine
    python benchmarks/systems.py --suite timm        # those of a suite: libraries, TorchBench, HuggingFace, timm
    python benchmarks/systems.py bert swin           # those whose names begin so
    python benchmarks/systems.py --table             # runs nothing, writes the table from what is known

The libraries are an extra of this benchmark alone, and torch is the one that is there:

    pip install transformers accelerate timm torchvision diffusers torchao torch_geometric

``libraries/cases.json`` says of each script what `benchmarks/monitored.py` says of its own, and ``libraries``, the packages that it needs; a
script whose packages are not there is not run. What differs in memory layout only, with a verified repro, is no alarm and counts by itself:
a finding of the lowest rank, and true. Each script is a line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from between import shown
from dashboard_models import MODELS, script
from monitored import WORK, Row, measure, read_cases
from page_section import rewrite
from resumable import due, is_named, parser_of
from vs_upstream import ROOT, add_row, read_rows, run, say

from minimizer.excuses import EXCUSES

FOLDER = "libraries"
SUITES = (FOLDER, "TorchBench", "HuggingFace", "timm")
PAGE = ROOT / "docs" / "systems.md"
BEGIN, END = "<!-- benchmarks/systems.py writes from here -->", "<!-- systems.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")


def main() -> int:
    arguments = parse()
    known = programs()
    chosen = [
        name
        for name, program in known.items()
        if is_named(name, arguments) and arguments.suite in (None, program.suite)
    ]
    rows = {row["case"]: row for row in read_rows(arguments.results)}
    for name in due(chosen, rows, arguments):
        program = known[name]
        versions = installed(["torch", *program.truth["libraries"]])
        if missing := [package for package, found in versions.items() if found is None]:
            say(f"{name}: not run, {', '.join(missing)} is not installed")
            continue
        say(name)
        row = row_of(name, program, arguments.limit) | {"suite": program.suite, "versions": versions}
        add_row(rows, name, row, arguments.results)
    if arguments.results == RESULTS:
        rewrite(PAGE, BEGIN, END, table([rows[name] for name in known if name in rows]))
    print(table([rows[name] for name in chosen if name in rows]))
    return 0


@dataclass(frozen=True)
class Program:
    """A script, where it comes from, and what is true of it, as in ``cases.json``."""

    suite: str
    text: str
    truth: Row


def programs() -> dict[str, Program]:
    """All programs by name: those of libraries/, then the models of the dashboards."""
    folder = Path(__file__).parent / FOLDER
    found = {
        name: Program(FOLDER, (folder / f"{name}.py").read_text(), case) for name, case in read_cases(FOLDER).items()
    }
    for name, model in MODELS.items():
        libraries = [model.library] if model.library else []
        found[name] = Program(model.suite, script(model), {"exit": 3, "libraries": libraries})
    return found


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, RESULTS, limit=600, writes_page=True)
    parser.add_argument("--suite", choices=SUITES, help="default: all")
    return parser.parse_args()


def installed(packages: Sequence[str]) -> dict[str, str | None]:
    """The version of each package; None where it is not there."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def row_of(name: str, program: Program, limit: int) -> Row:
    """A plain run of the script, and what minimizer says of it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.py"
        path.write_text(program.text)
        plain = run([sys.executable, str(path)], Path(place), limit)
        row = measure(path, program.truth, limit) | {"plain": round(plain.seconds, 1)}
    if plain.status != 0:
        row["wrong"] = [*row["wrong"], f"the script itself ends with {plain.status}"]
    report = json.loads((WORK / name / "report.json").read_text()) if row["exit"] is not None else {}
    checked = report.get("checked") or {}
    is_layout = bool((report.get("failure") or {}).get("layout_only"))
    if is_layout and row["verified"]:
        row["wrong"] = []
    return row | {
        "layout_only": is_layout,
        "load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 1),
        "confidence": report.get("confidence"),
        "compared": [checked.get("calls"), checked.get("calls_made")],
        "excused": sorted({one["rule"] for one in checked.get("excused", ())}),
    }


def table(rows: Sequence[Row]) -> str:
    """A row for each script, the figure over all, and the versions that they were taken with."""
    if not rows:
        return "Not run yet."
    text = [
        "| program | verdict | confidence | calls compared | open | load | plain run, s | verdict, plain runs | wrong |",
        "|---|---|---|---:|---|---:|---:|---:|---|",
    ]
    text += map(table_row, rows)
    versions = {f"{name} {found}" for row in rows for name, found in row["versions"].items()}
    counts = Counter(row["suite"] for row in rows)
    suites = ", ".join(f"{counts[suite]} of {suite}" for suite in SUITES if suite in counts)
    quiet = f"Of {len(rows)} that were run ({suites}) {sum(row['exit'] == 3 for row in rows)} are healthy."
    if layouts := sum(row.get("layout_only", False) and not row["wrong"] for row in rows):
        quiet += f" {layouts} more have a verified repro of another memory layout, and no other failure."
    return "\n".join([*text, "", quiet, "", f"With {', '.join(sorted(versions))}."])


def table_row(row: Row) -> str:
    verdict = "healthy" if row["exit"] == 3 else row.get("kind") or f"exit {shown(row['exit'])}"
    verdict = "memory layout" if row.get("layout_only") else verdict
    left_open = [rule for rule in row["excused"] if rule not in EXCUSES or EXCUSES[rule].leaves_open]
    cells = [row["case"].replace("_", " "), verdict, shown(row["confidence"]), " of ".join(map(shown, row["compared"]))]
    cells += [
        ", ".join(left_open) or "-",
        shown(row.get("load")),
        f"{row['plain']:.0f}",
        f"{row['seconds'] / row['plain']:.1f}",
    ]
    return f"| {' | '.join([*cells, '; '.join(row['wrong'])])} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""The registry of excuses: what is behind each rule, and how often each has fired.

    python benchmarks/excuses.py                   # the planted faults and the healthy programs behind the rules; minutes, resumable
    python benchmarks/excuses.py subnormal ulps    # those of some rules
    python benchmarks/excuses.py --table           # runs nothing, writes the table from what is known
    python benchmarks/excuses.py --fired FOLDER …  # runs nothing: how often each rule was applied in the reports below these folders

The programs are tests, which say by a mark which rules they are for: ``fault_behind`` plants a fault that a rule must not hide, ``needs_excuse``
has a healthy program that the rule is for. Each test is a line of the results file as soon as it has ended, and is not run again on the
same commit. What takes minutes is left to ``make quality``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from vs_upstream import ROOT, read_rows

from minimizer.excuses import EXCUSES

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/excuses.py writes from here -->", "<!-- excuses.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
SIDES = {"fault_behind": "fault", "needs_excuse": "healthy"}
PLACES = ("tests/unit", "tests/inside")


def main() -> int:
    arguments = parse()
    if arguments.fired:
        fired([Path(folder) for folder in arguments.names])
        return 0
    if unknown := {*arguments.names} - {*EXCUSES}:
        sys.exit(f"no such rule: {', '.join(sorted(unknown))}; {ROOT / 'minimizer' / 'excuses.py'} has them")
    if not arguments.table:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        known = {row["test"] for row in read_rows(RESULTS) if row["commit"] == commit.stdout.strip()}
        asked = Behind(set(arguments.names) or {*EXCUSES}, known, commit.stdout.strip())
        os.environ["WHOLE_CORPUS"] = "1"  # each example of a test, where a commit runs some
        # The package is loaded already, by the table of the rules.
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not quality",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ]
        pytest.main([*options, *(str(ROOT / place) for place in PLACES)], plugins=[asked])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(read_rows(RESULTS))}\n{END}{after}")
    return 0


class Behind:
    """A plugin of pytest that runs the tests behind some rules, and writes a line about each."""

    def __init__(self, rules: set[str], known: set[str], commit: str) -> None:
        self._rules, self._known, self._commit = rules, known, commit
        self._about: dict[str, dict[str, list[str]]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        about = {item.nodeid: rules_of(item) for item in items}
        self._about = {
            test: rules
            for test, rules in about.items()
            if test not in self._known and self._rules & {*chain.from_iterable(rules.values())}
        }
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._about])
        items[:] = [item for item in items if item.nodeid in self._about]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        row = {"test": report.nodeid, **self._about[report.nodeid], "passed": report.passed, "commit": self._commit}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def rules_of(item: pytest.Item) -> dict[str, list[str]]:
    """The rules that a test is for, by side; a test that is no planted fault and no healthy program has none."""
    return {side: [rule for mark in item.iter_markers(name) for rule in mark.args] for name, side in SIDES.items()}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A row for each rule: tests of the planted faults that were found, and of the healthy programs that came out healthy."""
    latest = {row["test"]: row for row in rows}.values()
    lines = [
        "| rule | left open | tests with a planted fault, passed | with a healthy program, passed |",
        "|---|---|---:|---:|",
    ]
    for rule, excuse in EXCUSES.items():
        cells = ["yes" if excuse.leaves_open else ""]
        for side in SIDES.values():
            tests = [row for row in latest if rule in row[side]]
            cells.append(f"{sum(row['passed'] for row in tests)} of {len(tests)}" if tests else "in `make quality`")
        lines.append(f"| `{rule}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def fired(folders: Sequence[Path]) -> None:
    """Print a table: the rule, reports with it, healthy ones among these, and how often it was applied in all."""
    seen, healthy, times, total = Counter[str](), Counter[str](), Counter[str](), 0
    for report in reports(folders):
        total += 1
        excused = report.get("checked", {}).get("excused", [])
        for rule in {one["rule"] for one in excused}:
            seen[rule] += 1
            healthy[rule] += report["status"] == "healthy"
        for one in excused:
            times[one["rule"]] += one["count"]
    print(f"{total} reports\n\n| rule | left open | reports | healthy | times |\n|---|---|---|---|---|")
    for rule in sorted(EXCUSES, key=lambda rule: -seen[rule]):
        is_open = "yes" if EXCUSES[rule].leaves_open else ""
        print(f"| `{rule}` | {is_open} | {seen[rule]} | {healthy[rule]} | {times[rule]} |")


def reports(folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for folder in folders:
        for path in sorted(folder.rglob("report.json")):
            yield json.loads(path.read_text())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rules, all by default; with --fired: folders")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table")
    parser.add_argument("--fired", action="store_true", help="run nothing, count in reports")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

"""How often each rule that excuses has fired, read from the reports below some folders, and which rules never did.

python benchmarks/excuses.py FOLDER ...
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minimizer.excuses import EXCUSES


def reports(folders: list[Path]) -> Iterator[dict[str, Any]]:
    for folder in folders:
        for path in sorted(folder.rglob("report.json")):
            yield json.loads(path.read_text())


def main(folders: list[Path]) -> None:
    """Print a table in Markdown: the rule, reports with it, healthy ones among these, and how often it was applied in all."""
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


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])

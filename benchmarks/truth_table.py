"""Who is to blame, against the truth: faults are injected into the compiler, and the report must name what was made wrong.

    python benchmarks/truth_table.py                     # everything; hours
    python benchmarks/truth_table.py --jump front        # the same with a jump in front of each fault (or behind): what is found
    python benchmarks/truth_table.py --for 400           # begins no case after so many seconds; goes on where it stopped
    python benchmarks/truth_table.py --table             # runs nothing, writes the table from what is known

The scripts are those of ``faults.py``. Each case is a line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults import JUMPS, Case, Place, cases
from vs_upstream import ROOT, run_ours, say

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/truth_table.py writes from here -->", "<!-- truth_table.py: to here -->"
RESULTS = ROOT / "benchmarks" / "truth_table.jsonl"
WHAT = ("operator", "module", "stage", "part")
Row = dict[str, Any]


def main() -> int:
    arguments = parse()
    rows = read(arguments.results)
    stop = time.monotonic() + arguments.seconds
    for case in cases(jump=arguments.jump):
        if arguments.table or time.monotonic() > stop:
            break
        if case.name not in {row["case"] for row in rows}:
            say(case.name)
            options = ["--no-diagnosis"] if arguments.jump else []  # what is to blame does not change with it
            rows.append(measure(case, arguments.limit, arguments.work, options))
            with arguments.results.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    write(PAGE, rows)
    print(table(rows))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=900, metavar="SECONDS", help="budget of a case (default 900)")
    parser.add_argument(
        "--for", dest="seconds", type=float, default=1e9, metavar="SECONDS", help="begin no case after this"
    )
    parser.add_argument("--jump", choices=JUMPS, default="", help="put a jump there")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--work", type=Path, default=ROOT / "minimizer-out" / "truth", metavar="DIR")
    return parser.parse_args()


def measure(case: Case, limit: int, work: Path, options: Sequence[str]) -> Row:
    folder = (work / case.name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "script.py"
    script.write_text(case.script)
    side = run_ours(script, limit, folder / "out", options)
    row: Row = {"case": case.name, "faults": [[p.part, p.module] for p in case.places], "seconds": side.seconds}
    path = folder / "out" / "report.json"
    return row | judge(case.places, json.loads(path.read_text()) if path.exists() else {})


def judge(places: Sequence[Place], report: Row) -> Row:
    """For each of `WHAT`: what was named and right, what was named, what was there to find."""
    culprits = [c for c in report.get("culprits", ()) if c["root"] and (c["ops"] or c["module"])]
    with_ops = [c for c in culprits if c["ops"]]
    blame, failure = report.get("blame") or {}, report.get("failure") or {}
    reduction, workaround = report.get("reduction") or {}, report.get("workaround") or {}
    items = blame.get("items", [])
    return {
        "status": report.get("status", "none"),
        "operator": score(places, with_ops, lambda place, c: bool(set(place.ops) & set(c["ops"]))),
        "module": score(places, culprits, lambda place, c: c["module"] == place.module),
        "stage": score(
            places, [failure["stage"]] if failure else [], lambda place, stage: stage == place.stage, first=True
        ),
        "part": score(places, items, lambda place, item: item == place.part, first=True),
        "confirmed": bool(blame.get("confirmed")),
        "workaround": bool(workaround.get("verified")),
        "trials": reduction.get("trials"),
        "runs": blame.get("runs"),
    }


def score(
    places: Sequence[Place], named: Sequence[Any], is_right: Callable[[Place, Any], bool], *, first: bool = False
) -> list[int]:
    """Right ones, named ones, and ones to find. ``first``: the report answers for its first culprit only."""
    right = sum(any(is_right(place, one) for place in places) for one in named)
    found = sum(any(is_right(place, one) for one in named) for place in places)
    to_find = 1 if first else len(places)
    return [right, len(named), min(found, to_find), to_find]


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(page: Path, rows: Sequence[Row]) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}")


def table(every: Sequence[Row]) -> str:
    plain = {case.name for case in cases()}
    rows, total = [row for row in every if row["case"] in plain], len(plain)
    lines = [
        f"{len(rows)} of {total} cases have been run." if len(rows) < total else f"All {total} cases.",
        "",
        "| faults | cases | reduced and verified | " + " | ".join(f"{what}: precision, recall" for what in WHAT),
        "| --- | ---: | ---: | " + " | ".join("---:" for _ in WHAT),
    ]
    lines[2] += " | confirmed | workaround | trials | runs for the part |"
    lines[3] += " | ---: | ---: | ---: | ---: |"
    for name, count in (("one", 1), ("two", 2)):
        some = [row for row in rows if len(row["faults"]) == count]
        if some:
            cells = [name, str(len(some)), _share(row["status"] == "minimized" for row in some)]
            cells += [_figures([row[what] for row in some]) for what in WHAT]
            cells += [_share(row["confirmed"] for row in some), _share(row["workaround"] for row in some)]
            cells += [_median([row["trials"] for row in some]), _median([row["runs"] for row in some])]
            lines.append(f"| {' | '.join(cells)} |")
    missed = [
        f"`{row['case']}` ({', '.join(part for part, _ in row['faults'])}): {_misses(row)}"
        for row in rows
        if _misses(row)
    ]
    if missed:
        lines += ["", "Not as it should be:", "", *(f"- {one}" for one in missed)]
    return "\n".join(lines + _beside_jumps({row["case"]: row for row in every}))


def _beside_jumps(rows: Mapping[str, Row]) -> list[str]:
    """How many faults are found with a jump in front of them, or behind, against the same without."""
    lines: list[str] = []
    for jump in JUMPS:
        pairs = [
            (rows[plain.name], rows[jumped.name])
            for plain, jumped in zip(cases(), cases(jump=jump), strict=True)
            if plain.name in rows and jumped.name in rows
        ]
        if pairs:
            without, beside = (sum(map(_is_found, side)) for side in zip(*pairs, strict=True))
            lost = [jumped["case"] for _, jumped in pairs if not _is_found(jumped)]
            where = "in front of" if jump == "front" else "behind"
            lines += ["", f"With a jump {where} each of {len(pairs)} faults: {beside} found, {without} without it."]
            lines += [f"Not found: {', '.join(lost)}."] if lost else []
    return lines


def _is_found(row: Row) -> bool:
    """Whether a verified repro names a right operator."""
    return row["status"] == "minimized" and row["operator"][0] > 0


def _misses(row: Row) -> str:
    wrong = [what for what in WHAT if row[what][0] < row[what][1] or row[what][2] < row[what][3]]
    if row["status"] != "minimized":
        wrong.insert(0, f"ended {row['status']}")
    return ", ".join(wrong)


def _figures(scores: Sequence[Sequence[int]]) -> str:
    right, named, found, to_find = (sum(score[at] for score in scores) for at in range(4))
    return f"{_percent(right, named)}, {_percent(found, to_find)}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _share(truths: Any) -> str:
    values = list(truths)
    return f"{sum(values)} of {len(values)}"


def _median(values: Sequence[int | None]) -> str:
    known = sorted(value for value in values if value is not None)
    return str(known[len(known) // 2]) if known else "-"


if __name__ == "__main__":
    raise SystemExit(main())

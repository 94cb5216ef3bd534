"""The corpus of failing scripts, with our reduction and PyTorch's minifier side by side, as a table in docs/benchmarks.md.

    python benchmarks/corpus.py                          # everything; hours
    python benchmarks/corpus.py --no-upstream            # ours only
    python benchmarks/corpus.py tests/quality/corpus/integer_hash.py
    python benchmarks/corpus.py --table                  # runs nothing, writes the table from what is known

Each side of a case is a line of the results file (benchmarks/corpus.jsonl, kept in the repository) as soon as it is there, and
is not run again. A time taken while other
work ran on the machine is an upper bound and is shown as such (<=); one that reached the limit is a lower bound (>=).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vs_upstream import REPRO_ONLY, ROOT, Side, code_lines, read_rows, run_ours, run_upstream, say

CORPUS = ROOT / "tests" / "quality" / "corpus"
TRUTH: dict[str, dict[str, Any]] = json.loads((CORPUS.parent / "truth.json").read_text())
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/corpus.py writes from here -->", "<!-- to here -->"
IDLE = 0.5
"""Processes waiting for a core, a minute's average, above which a time is only an upper bound."""

OURS = ("f", "run", "raised", "describe")
"""Functions that every repro may define."""
Results = dict[str, dict[str, dict[str, Any]]]
"""By case, then by side (``ours``, ``upstream``)."""


def main() -> int:
    arguments = parse()
    scripts = arguments.scripts or [*failing(), *examples()]
    results = read(arguments.results)
    if arguments.table:
        write(PAGE, results)
        return 0
    sides = ["ours"] if arguments.no_upstream else ["ours", "upstream"]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    for number, script in enumerate(scripts, 1):
        for side in sides:
            if not arguments.fresh and side in results.get(script.stem, {}):
                continue
            say(f"{number} of {len(scripts)}: {script.stem}, {side}")
            row = measure(script.resolve(), side, arguments.limit, arguments.work)
            with arguments.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            results.setdefault(script.stem, {})[side] = row
        if not arguments.scripts:
            write(PAGE, results)
    print(table(results))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, help="instead of the corpus; the page is left alone")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="for each side (default 300)")
    parser.add_argument("--no-upstream", action="store_true", help="leave PyTorch's minifier out")
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "corpus.jsonl", metavar="FILE")
    parser.add_argument("--work", type=Path, default=Path("minimizer-out/corpus"), metavar="DIR")
    return parser.parse_args()


def failing() -> Iterator[Path]:
    """The scripts of the corpus that fail by the compiler."""
    return (CORPUS / f"{name}.py" for name, truth in sorted(TRUTH.items()) if truth["exit"] == 0)


def examples() -> Iterator[Path]:
    return (path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem != "demo")


def measure(script: Path, side: str, limit: int, work: Path) -> dict[str, Any]:
    """One side of a case, as a line of the results file."""
    folder = (work / script.stem / side).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    row: dict[str, Any] = {"case": script.stem, "side": side, "limit": limit, "busy": load > IDLE}
    if side == "upstream":
        found = run_upstream(script, limit, folder)
    else:
        found = run_ours(script, limit, folder, [*REPRO_ONLY, *TRUTH.get(script.stem, {}).get("arguments", ())])
        row |= facts(folder / "report.json", found)
    if found.repro:
        found.repro = str(Path(found.repro).relative_to(folder))  # the rows are kept, this machine's folders are not
    return row | asdict(found)


def facts(file: Path, side: Side) -> dict[str, Any]:
    """What the report of a run says beyond the numbers that both sides have."""
    try:
        report = json.loads(file.read_text())
    except (OSError, ValueError):
        return {"status": side.note}
    failure, reduction = report["failure"] or {}, report["reduction"] or {}
    verification = report["verification"] or {"runs": 0, "failed_same": 0}
    return {
        "status": report["status"],
        "reason": report["reason"],
        "kind": failure.get("kind"),
        "stage": failure.get("stage"),
        "culprit": next((name for culprit in report["culprits"] for name in culprit["ops"]), None),
        "nodes_before": reduction.get("nodes_before"),
        "one_minimal": reduction.get("one_minimal"),
        "carried": carried((file.parent / "repro.py").read_text())
        if side.repro and reduction["level"] != "python"
        else 0,
        "verified": bool(verification["runs"]) and verification["failed_same"] == verification["runs"],
        "rate": failure.get("reproducibility"),
    }


def carried(source: str) -> int:
    """Lines of what travels with a repro: the script's own passes, backends, lowerings and operators, which are the fault."""
    definitions = [item for item in ast.parse(source).body if isinstance(item, ast.FunctionDef | ast.ClassDef)]
    others = [item for item in definitions if item.name not in OURS]
    return sum(code_lines(ast.get_source_segment(source, item) or "") + len(item.decorator_list) for item in others)


def read(file: Path) -> Results:
    """What is known; of several lines for one side the last one counts."""
    results: Results = {}
    for row in read_rows(file):
        results.setdefault(row["case"], {})[row["side"]] = row
    return results


def write(page: Path, results: Results) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")


def table(results: Results) -> str:
    """The figures over all cases, then a row for each."""
    rows = [(case, sides["ours"], sides.get("upstream")) for case, sides in sorted(results.items()) if "ours" in sides]
    head = (
        "| script | kind | stage | nodes | lines | trials | seconds | PyTorch's minifier | its nodes | its seconds |\n"
        "|---|---|---|---:|---:|---:|---:|---|---:|---:|"
    )
    return "\n\n".join([figures(rows), "\n".join([head, *(line(*row) for row in rows)])])


def figures(rows: list[tuple[str, dict[str, Any], dict[str, Any] | None]]) -> str:
    ours = [side for _, side, _ in rows]
    verified = [side for side in ours if side.get("verified")]
    text = f"{len(rows)} scripts; {len(verified)} repros verified{share(len(verified), len(rows))}"
    if verified:
        lines = statistics.median(side["lines"] for side in verified)
        plain = statistics.median(side["lines"] - side["carried"] for side in verified)
        text += (
            f"; median {lines:g} lines of code, {plain:g} without the passes, backends, lowerings and operators of the script's own "
            f"that travel along; median {statistics.median(s['trials'] for s in verified):g} trials"
        )
    theirs = [side for _, _, side in rows if side is not None]
    if theirs:
        good = [side for side in theirs if side["fails"]]
        smaller = [case for case, side, other in rows if other and other["fails"] and fewer(other, side)]
        text += (
            f". PyTorch's minifier, on {len(theirs)} of them: {len(good)} repros that fail, "
            f"{sum(side['fails'] is False for side in theirs)} that do not, "
            f"{sum(side['repro'] is None for side in theirs)} without one. "
            f"A smaller graph than ours in {', '.join(smaller) or 'no case'}"
        )
    return f"{text}."


def fewer(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["nodes"] is not None and (other["nodes"] is None or one["nodes"] < other["nodes"])


def line(case: str, ours: dict[str, Any], theirs: dict[str, Any] | None) -> str:
    kind = ours.get("kind") or ours.get("reason") or ours["status"]
    nodes = f"{shown(ours.get('nodes_before'))} → {shown(ours['nodes'])}"
    verified = "" if ours.get("verified") else " (not verified)"
    lines = f"{shown(ours['lines'])}" + (f" ({ours['carried']})" if ours.get("carried") else "")
    cells = [case, f"{kind}{verified}", shown(ours.get("stage")), nodes, lines, shown(ours["trials"])]
    cells.append(seconds(ours))
    if theirs is None:
        cells += ["not run", "", ""]
    else:
        outcome = {True: "repro fails", False: "repro does not fail", None: "no repro"}[theirs["fails"]]
        cells += [outcome, shown(theirs["nodes"]), seconds(theirs)]
    return f"| {' | '.join(cells)} |"


def seconds(side: dict[str, Any]) -> str:
    bound = "≥ " if side["stopped"] else "≤ " if side["busy"] else ""
    return f"{bound}{side['seconds']:.0f}"


def share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.0f} %)" if whole else ""


def shown(value: object) -> str:
    return "-" if value is None else str(value)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""Programs as people have them, with a fault that is known: found or not, and what is wrong in what the report says.

    python benchmarks/monitored.py                       # all of monitored/, reports/ and healthy_users/; hours
    python benchmarks/monitored.py patience scorer       # those whose names begin so
    python benchmarks/monitored.py --folder reports      # one of the three
    python benchmarks/monitored.py --check               # runs no minimizer: that the shortest programs fail, and only with the compiler
    python benchmarks/monitored.py --table               # runs nothing, writes the table from what is known

``cases.json`` of a folder says of each script the exit status of ``minimizer run``, and of a faulty one kind, stage, mechanism, object,
operator, module and line as far as they are known (of several, each is right), and ``minimal``, the shortest program known that shows
the fault; ``fixed_in`` the first release of torch without it, where the script is healthy. Right is a script with the exit status, kind, stage, mechanism and operator that it must have, and a repro that was verified; what is
else not as it should be (object, module, line, length of the repro) is told beside it. Each script is a line of the results file as soon
as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from between import formatted_lines, shown
from page_section import rewrite
from releases import is_fixed
from resumable import due, is_named, parser_of
from vs_upstream import REPRO_ONLY, ROOT, add_row, read_rows, run, run_ours, say

from minimizer.cli.exit_status import exit_status
from minimizer.vocabulary import Reason, Status

FOLDERS = ("monitored", "reports", "healthy_users")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/monitored.py writes from here -->", "<!-- monitored.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
WORK = ROOT / "minimizer-out" / "monitored"
GRAPH, PYTHON = 1.5, 2.5
"""Lines of a repro against the shortest known, at most: where a graph was reduced, and where the script was."""
Row = dict[str, Any]


def main() -> int:
    arguments = parse()
    cases = {
        (folder, name): case
        for folder in arguments.folder or FOLDERS
        for name, case in read_cases(folder).items()
        if is_named(name, arguments)
    }
    if arguments.check:
        return check({name: case for (_, name), case in cases.items() if "minimal" in case})
    rows = {(row["folder"], row["case"]): row for row in read_rows(arguments.results)}
    for folder, name in due(cases, rows, arguments):
        say(name)
        row = measure(Path(__file__).parent / folder / f"{name}.py", cases[folder, name], arguments.limit)
        add_row(rows, (folder, name), {"folder": folder} | row, arguments.results)
    if arguments.results == RESULTS:
        known = [
            rows[key] for folder in FOLDERS for key in ((folder, name) for name in read_cases(folder)) if key in rows
        ]
        rewrite(PAGE, BEGIN, END, table(known))
    print(table([rows[key] for key in cases if key in rows]))
    return 0


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, RESULTS, limit=900, of="script", writes_page=True)
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="default: both")
    parser.add_argument(
        "--check", action="store_true", help="only run the shortest programs, with the compiler and without"
    )
    return parser.parse_args()


def read_cases(folder: str) -> dict[str, Row]:
    path = Path(__file__).parent / folder / "cases.json"
    cases: dict[str, Row] = json.loads(path.read_text())["cases"]
    return cases


# a script -------------------------------------------------------------------------------------------------------------


def measure(script: Path, truth: Row, limit: int) -> Row:
    if is_fixed(truth, version("torch")):
        truth = {"exit": 3}
    folder = WORK / script.stem
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").unlink(missing_ok=True)
    ours = run_ours(script, limit, folder, (*REPRO_ONLY, *truth.get("options", ())))
    row = {"case": script.stem, "seconds": ours.seconds, "trials": ours.trials, "note": ours.note}
    try:
        report = json.loads((folder / "report.json").read_text())
    except FileNotFoundError:
        return row | {"exit": None, "wrong": [f"no report: {ours.note}"], "off": []}
    lines = formatted_lines(Path(ours.repro).read_text()) if ours.repro else None
    said = said_of(report) | {"lines": lines}
    shortest = formatted_lines(truth["minimal"]) if "minimal" in truth else None
    return row | said | {"minimal": shortest, "wrong": wrong(said, truth), "off": off(said, truth, shortest)}


def said_of(report: Row) -> Row:
    """What a report answers, flat."""
    failure, reduction = report.get("failure") or {}, report.get("reduction") or {}
    proof = report.get("verification") or {"runs": 0, "failed_same": 0}
    culprits = [culprit for culprit in report.get("culprits") or () if culprit.get("root", True)]
    sources = [failure.get("source"), *(culprit.get("source") for culprit in culprits)]
    return {
        "exit": exit_status(Status(report["status"]), Reason(report["reason"]) if report["reason"] else None),
        "kind": failure.get("kind"),
        "stage": failure.get("stage"),
        "mechanism": failure.get("mechanism"),
        "object": failure.get("object") or None,
        "operators": sorted({name for culprit in culprits for name in culprit.get("ops") or ()}),
        "what": next((culprit["what"] for culprit in culprits if culprit.get("what")), None),
        "module": next((culprit["module"] for culprit in culprits if culprit.get("module")), None),
        "at": sorted({source["line"] for source in sources if source}),
        "level": reduction.get("level"),
        "verified": bool(proof["runs"]) and proof["failed_same"] == proof["runs"],
    }


def wrong(said: Row, truth: Row) -> list[str]:
    """What makes a script count as wrong, in words."""
    if truth["exit"] != 0:
        return [] if said["exit"] == truth["exit"] else [f"exit {said['exit']} of a healthy script"]
    if said["exit"] == 3:
        return ["called healthy"]
    found = [f"exit {said['exit']}"] if said["exit"] != truth["exit"] else []
    found += [
        f"{name} {shown(said[name])}"
        for name in ("kind", "stage", "mechanism")
        if name in truth and said[name] not in listed(truth[name])
    ]
    if "operator" in truth and not any(name in named(said) for name in listed(truth["operator"])):
        found.append(f"operator {', '.join(said['operators']) or '-'}")
    return found if said["verified"] else [*found, "no verified repro"]


def off(said: Row, truth: Row, shortest: int | None) -> list[str]:
    """What is not as it should be beside that, in words."""
    if truth["exit"] != 0 or said["exit"] == 3:
        return []
    found = []
    if "object" in truth and not any(name in (said["object"] or "") for name in listed(truth["object"])):
        found.append(f"object {shown(said['object'])}")
    if "module" in truth and (said["module"] or "") not in listed(truth["module"]):
        found.append(f"module {shown(said['module'])}")
    if "line" in truth and not set(said["at"]) & set(listed(truth["line"])):
        found.append(f"line {', '.join(map(str, said['at'])) or '-'}")
    most = PYTHON if said["level"] == "python" else GRAPH
    if said["lines"] and shortest and said["lines"] > most * shortest:
        found.append(f"{said['lines']} lines where {shortest} do")
    return found


def named(said: Row) -> str:
    """All that a culprit is called by: operators, and the words of one that has no node."""
    return " ".join([*said["operators"], said["what"] or "", said["object"] or ""])


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# the shortest programs ------------------------------------------------------------------------------------------------


def check(cases: dict[str, Row]) -> int:
    """Say of each shortest program whether it fails with the compiler and passes without; the number of those that do not."""
    bad = 0
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "minimal.py"
            script.write_text(case["minimal"])
            compiled = run([sys.executable, str(script)], script.parent, 300)
            eager = run([sys.executable, str(script)], script.parent, 300, {"TORCHDYNAMO_DISABLE": "1"})
        is_good = compiled.status != 0 and eager.status == 0
        bad += not is_good
        print(
            f"{'as it should be' if is_good else f'compiled {compiled.status}, eager {eager.status}':<24} {name}",
            flush=True,
        )
    return min(bad, 1)


# the page -------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """A row for each faulty script, one line for each healthy one that is not quiet, and the figures of each folder."""
    text = [
        "| script | kind | stage | mechanism or operator | lines | shortest | seconds | wrong | also off |",
        "|---|---|---|---|---:|---:|---:|---|---|",
    ]
    return "\n".join(["\n".join([*text, *map(table_row, rows)]), "", *figures(rows)])


def table_row(row: Row) -> str:
    what = row.get("mechanism") or ", ".join(row.get("operators") or ()) or None
    cells = [row["case"].replace("_", " "), *(shown(row.get(name)) for name in ("kind", "stage")), shown(what)]
    cells += [shown(row.get("lines")), shown(row.get("minimal")), f"{row['seconds']:.0f}"]
    return f"| {' | '.join([*cells, '; '.join(row['wrong']), '; '.join(row['off'])])} |"


def figures(rows: Sequence[Row]) -> Iterator[str]:
    for folder in FOLDERS:
        mine = [row for row in rows if row["folder"] == folder]
        if mine:
            right = sum(not row["wrong"] for row in mine)
            exact = sum(not row["wrong"] and not row["off"] for row in mine)
            yield f"`{folder}/`: {right} of {len(mine)} right, {exact} in every respect."


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""Runs all hostile scripts in the sandbox and, where that harms nothing, without it, and writes the table of docs/security.md.

    python tests/security/hostile                     # all, and the table
    python tests/security/hostile --only 'raw packets'

Exits with 1 if one was not held as expected, or if one that must work without the sandbox did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.cases import CASES, Case, Free
from hostile.world import BOUNDS, World, is_held, world
from minimizer.sandbox import Bubblewrap, Unconfined

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
BEGIN, END = "<!-- tests/security/hostile writes from here -->", "<!-- hostile: to here -->"
Row = tuple[Case, bool, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these scripts; writes no table")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if not arguments.only or case.name in arguments.only]
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as laid:
        rows = [tried(case, laid) for case in chosen]
    if not arguments.only:
        write(rows)
    failed = [case.name for case, held, free in rows if not held or free == "failed"]
    print(f"{len(rows)} scripts, {sum(held for _, held, _ in rows)} held as expected")
    print(f"{sum(free == 'works' for *_, free in rows)} work without the sandbox")
    if failed:
        print("otherwise than expected:", ", ".join(failed))
    return int(bool(failed))


def tried(case: Case, laid: World) -> Row:
    """A script in the sandbox, and what comes of it without."""
    text = laid.run(case, Bubblewrap(bounds=BOUNDS))
    held = is_held(case, text)
    if not held:
        print(f"{case.name}: not held:\n{text}")
    free = "not tried"
    if case.free is not Free.NEVER:
        outside = laid.run(case, Unconfined())
        must = case.free is Free.ANYONE or (case.free is Free.ROOT and os.geteuid() == 0)
        free = "works" if "escaped" in outside else "failed" if must else "refused here"
        if free == "failed":
            print(f"{case.name}: does not work without the sandbox either:\n{outside}")
    return case, held, free


def write(rows: list[Row]) -> None:
    """Put the table in its place on the page."""
    lines = ["| no. | hostile script wants | it finds | in the sandbox | without it |", "|---:|---|---|---|---|"]
    group = ""
    for number, (case, held, free) in enumerate(rows, 1):
        if case.group != group:
            group = case.group
            lines.append(f"| | **{group}** | | | |")
        lines.append(f"| {number} | {case.name} | {case.finds} | {'held' if held else '**not held**'} | {free} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    sys.exit(main())

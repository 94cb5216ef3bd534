"""The table of docs/benchmarks.md, from the rows of all rounds."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rounds import KILLS, SETUPS, STEPS, STORMS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/chaos writes from here -->", "<!-- chaos: to here -->"
Row = dict[str, Any]


def write(rows: Sequence[Row]) -> None:
    """Put the tables in their place on the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{summary(rows)}\n\n{histogram(rows)}\n\n{END}{after}")


def summary(rows: Sequence[Row]) -> str:
    """What was done to each set-up, and what did not hold."""
    text = "| set-up | jobs | kills | other troubles | lost or ended twice | wrong ends | anything else left or told | median recovery from a kill |\n"
    text += "|---|---:|---:|---:|---:|---:|---:|---:|"
    for setup in SETUPS:
        some = [row for row in rows if row["setup"] == setup]
        struck = [one for row in some for one in row["struck"] if one["step"]]
        kills = [one for one in struck if one["kind"] in KILLS]
        broken = Counter(_sort(what) for row in some for what in row["broken"])
        recovered = [one["recovered"] for one in kills]
        median = f"{statistics.median(recovered):.1f} s" if recovered else ""
        text += f"\n| {setup} | {len(some)} | {len(kills)} | {len(struck) - len(kills)} | {broken['lost']} | {broken['wrong']} | {broken['left']} | {median} |"
    return text


def histogram(rows: Sequence[Row]) -> str:
    """Kills and storms by the step at which the job really was."""
    counted = Counter((one["kind"], one["step"]) for row in rows for one in row["struck"] if one["step"])
    text = f"| what | {' | '.join(STEPS)} | all | median recovery |\n|---|{'---:|' * (len(STEPS) + 2)}"
    for kind in (*KILLS, *STORMS):
        each = [counted[kind, step] for step in STEPS]
        recovered = [one["recovered"] for row in rows for one in row["struck"] if one["kind"] == kind and one["step"]]
        median = f"{statistics.median(recovered):.1f} s" if recovered else ""
        name = f"kill: {kind}" if kind in KILLS else kind
        text += f"\n| {name} | {' | '.join(map(str, each))} | {sum(each)} | {median} |"
    return text


def _sort(what: str) -> str:
    if what.startswith(("the job did not end", "the job ended", "still waiting")):
        return "lost"
    return "wrong" if what.startswith(("it ended otherwise", "the report")) else "left"

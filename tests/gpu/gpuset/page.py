"""The set as tables: on the terminal, and between two markers of docs/gpu.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .expect import EXPECTED, KNOWN_WRONG, NO_ANSWER, WRONG, describe, judge
from .results import CUT, OVER, Result
from .rows import FOLDER, Row, Side

PAGE = FOLDER.parents[1] / "docs" / "gpu.md"
BEGIN, END = "<!-- gpu-set: begin -->", "<!-- gpu-set: end -->"
NOT_RUN = "not run yet"
RESULTS = {device: FOLDER / "results" / f"{device}.jsonl" for device in ("cuda", "cpu")}
LEGEND = """\
Short failing and healthy scripts, each with the answers that are right ([CONTRIBUTING](../CONTRIBUTING.md)). GPU memory is the peak of
the script's own processes, or with ≤ that of the whole card, while others ran beside it. What was not run counts as nothing.
`make gpu-page` makes these tables from the results."""
TITLES = {"cuda": "On a GPU", "cpu": "The same scripts on a CPU"}


def verdict(row: Row, result: Result | None) -> str:
    """The verdict on a row's result in words; what was cut or never begun has none."""
    if result is None or result.status == CUT:
        return NOT_RUN
    return judge(result.answer, row.sides[result.device])


def count(rows: Sequence[Row], results: dict[str, Result]) -> dict[str, int]:
    """How many rows have each verdict."""
    found = [verdict(row, results.get(row.name)) for row in rows]
    return {word: found.count(word) for word in (EXPECTED, KNOWN_WRONG, WRONG, NO_ANSWER, NOT_RUN) if word in found}


def line(row: Row, result: Result) -> str:
    """A line for the terminal: the result of one script, and what was expected where it is not that."""
    said = verdict(row, result)
    text = f"{row.name:30} {said:15} {result.seconds:6.1f} s  {_memory(result):>9}  {result.answer or result.status}"
    if said in (EXPECTED, NOT_RUN):
        return text
    side = row.sides[result.device]
    known = f" ({side.known_wrong})" if side.known_wrong else ""
    return f"{text}\n    expected {describe(side)}{known}\n    {result.summary}"


def tables(rows: Sequence[Row], results: dict[str, dict[str, Result]]) -> str:
    """Both tables as Markdown, without the markers."""
    parts = [LEGEND]
    for device, title in TITLES.items():
        here = [row for row in rows if device in row.sides]
        parts += [f"### {title}", _summary(here, results[device])]
        parts.append("\n".join(["| script | what it is | verdict | answer | seconds | GPU memory |", "|---|---|---|---|---|---|",
                                *(_table_row(row, results[device].get(row.name)) for row in here)]))  # fmt: skip
        parts += [text for row in here if (text := _remark(row, row.sides[device], results[device].get(row.name)))]
    without = [f"| `{row.name}` | {row.no_twin} |" for row in rows if "cpu" not in row.sides]
    parts.append("\n".join(["| without a twin on a CPU | why |", "|---|---|", *without]))
    return "\n\n".join(parts)


def written(text: str, content: str) -> str:
    """A page with the content between its markers.

    Raises:
        ValueError: the page does not have both markers, once each.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError("the page needs both markers of the tables, once each")
    pattern = f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})"
    return re.sub(pattern, lambda _: f"\n\n{content}\n\n", text, flags=re.DOTALL)


def write(path: Path, content: str) -> None:
    """Put the content between the markers of a file."""
    path.write_text(written(path.read_text(), content))


def _summary(rows: Sequence[Row], results: dict[str, Result]) -> str:
    machines = sorted(
        {(r.machine.card or "CPU", r.machine.driver, r.machine.torch, r.machine.triton, r.when[:10]) for r in results.values()}
    )  # fmt: skip
    counted = ", ".join(f"{number} {word}" for word, number in count(rows, results).items())
    lines = [f"{len(rows)} scripts: {counted}."]
    for card, driver, torch, triton, day in machines:
        parts = [card, f"driver {driver}" * bool(driver), f"torch {torch}", f"Triton {triton}" * bool(triton), day]
        lines.append(f"Run on: {', '.join(part for part in parts if part)}.")
    return " ".join(lines)


def _table_row(row: Row, result: Result | None) -> str:
    said = verdict(row, result)
    if result is None or said == NOT_RUN:
        return f"| `{row.name}` | {row.what} | {NOT_RUN} | | | |"
    answer = f"{result.answer}" if result.answer else OVER if result.status == OVER else "no report"
    return f"| `{row.name}` | {row.what} | {said} | {answer} | {result.seconds:.0f} | {_memory(result)} |"


def _remark(row: Row, side: Side, result: Result | None) -> str:
    """What a row says below its table: why it is known to be wrong, and what was expected where the answer is another."""
    if result is None or verdict(row, result) in (EXPECTED, NOT_RUN):
        return f"`{row.name}`: {side.known_wrong}" if side.known_wrong else ""
    said = safe(f"{side.known_wrong} {result.summary}".strip())
    return f"`{row.name}`: expected is {describe(side)}. {said}"


def safe(text: str) -> str:
    """The words of a report, which may quote a script, without anything that Markdown would take for markup."""
    return re.sub(r"[^\w .,:;()/='-]", " ", text)


def _memory(result: Result) -> str:
    if result.gpu_mib is None:
        return ""
    return f"{'≤ ' * result.gpu_mib_is_bound}{result.gpu_mib:,} MiB"

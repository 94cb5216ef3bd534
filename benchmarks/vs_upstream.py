"""Our reduction against PyTorch's own minifier, case by case: same machine, one after the other, caches cold.

    python benchmarks/vs_upstream.py examples/transformer_relu.py model.py --limit 300

A side that reaches the limit is stopped, and its time is a lower bound (>=). A repro counts only if it really fails when
it is run. Each finished case is a row in the results file at once; a case that has its row is not run again.

Our time ends when the verified repro can be downloaded; the diagnosis that follows has no counterpart on the other side.
The other side is used as its documentation says: the script runs with TORCHDYNAMO_REPRO_AFTER=aot (and, if that dumps
nothing, =dynamo) at level 4, and at level 2 for compile errors and crashes, which level 4 does not dump; then the
minifier_launcher.py that was dumped is run. Its time is the time of all these runs. Its trials are counted by the
files it writes for its child processes.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K")

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_CASES = ["transformer_relu", "bucketed_features", "image_statistics", "interval_layer", "block_attention"]
REPRO_SECONDS = 120


@dataclass
class Side:
    """What one tool made of a case."""

    seconds: float = 0.0
    stopped: bool = False
    trials: int | None = None
    nodes: int | None = None
    lines: int | None = None
    repro: str | None = None
    fails: bool | None = None
    note: str = ""


@dataclass
class Row:
    """One case, as a line of the results file."""

    case: str
    script: str
    limit: int
    torch: str
    cores: int
    ours: Side
    upstream: Side
    ratio: float | None = None
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%S%z"))


@dataclass
class Ran:
    """A process that was run under the clock."""

    status: int
    output: str
    seconds: float
    stopped: bool


def main() -> int:
    arguments = parse()
    results: Path = arguments.results
    results.parent.mkdir(parents=True, exist_ok=True)
    known = {} if arguments.fresh else {row["case"]: row for row in read_rows(results)}
    rows = []
    for script in arguments.scripts or [ROOT / "examples" / f"{name}.py" for name in DEFAULT_CASES]:
        row = known.get(script.stem)
        if row is None:
            row = asdict(measure(script.resolve(), arguments.limit, arguments.work))
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        rows.append(row)
        print(json.dumps(row) if arguments.json else table_row(row, first=len(rows) == 1), flush=True)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, help="failing scripts (default: those of examples/)")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="for each side (default 300)")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--fresh", action="store_true", help="run cases again that have a row")
    parser.add_argument("--results", type=Path, default=Path("minimizer-out/bench/results.jsonl"), metavar="FILE")
    parser.add_argument(
        "--work", type=Path, default=Path("minimizer-out/bench"), metavar="DIR", help="keeps what both sides wrote"
    )
    return parser.parse_args()


REPRO_ONLY = ("--no-diagnosis",)
"""The other side has no diagnosis either."""


def measure(script: Path, limit: int, work: Path) -> Row:
    folder = (work / script.stem).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch_version = subprocess.check_output(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('torch'))"], text=True
    ).strip()
    say(f"{script.stem}: ours")
    ours = run_ours(script, limit, folder / "ours", REPRO_ONLY)
    say(f"{script.stem}: PyTorch's minifier")
    upstream = run_upstream(script, limit, folder / "upstream")
    ratio = round(upstream.seconds / ours.seconds, 2) if ours.seconds else None
    cores = len(os.sched_getaffinity(0))
    return Row(script.stem, str(script), limit, torch_version, cores, ours, upstream, ratio)


def run_ours(script: Path, limit: int, folder: Path, options: Sequence[str] = ()) -> Side:
    command = [sys.executable, "-m", "minimizer", "run", str(script), "--no-witness", "--out", str(folder), *options]
    ran = run([*command, "--budget", str(limit)], folder.parent, limit + 60)
    side = Side(round(ran.seconds, 1), ran.stopped)
    try:
        report = json.loads((folder / "report.json").read_text())
    except (OSError, ValueError):
        side.note = last_line(ran.output)
        return side
    reduction = report.get("reduction") or {}
    side.trials, side.nodes = reduction.get("trials"), reduction.get("nodes_after")
    side.note = report["status"]
    side.stopped = ran.stopped or report["reason"] == "budget"
    repro = folder / "repro.py"
    if repro.exists():
        finish(side, repro, lambda ran: ran.status == 1)
    return side


def run_upstream(script: Path, limit: int, folder: Path) -> Side:
    """Rerun the script until one of the settings dumps a launcher, then run the launcher in what time is left."""
    side = Side(note="nothing was dumped")
    for after, level in (("aot", 4), ("aot", 2), ("dynamo", 4), ("dynamo", 2)):
        place = folder / f"{after}{level}"
        place.mkdir(parents=True)
        setting = {"TORCHDYNAMO_REPRO_AFTER": after, "TORCHDYNAMO_REPRO_LEVEL": str(level)}
        ran = run([sys.executable, str(script)], place, limit - side.seconds, setting)
        side.seconds += ran.seconds
        launcher = newest(place, "minifier_launcher.py")
        if launcher is not None:
            side.note = f"after {after}, level {level}"
            launch(side, launcher, place, limit)
            if side.stopped or side.repro:
                break
        elif ran.stopped or side.seconds >= limit:
            side.stopped = True
            break
    side.seconds = round(side.seconds, 1)
    return side


def launch(side: Side, launcher: Path, place: Path, limit: int) -> None:
    ran = run([sys.executable, str(launcher)], place, max(1.0, limit - side.seconds))
    side.seconds += ran.seconds
    side.stopped = ran.stopped
    side.trials = (side.trials or 0) + len(list(place.rglob("isolate/*.py")))
    (place / "launcher.log").write_text(ran.output)
    repro = newest(place, "repro.py")
    if repro is None:
        side.note += ": the launcher left no repro (" + last_line(ran.output) + ")"
        return
    try:
        side.nodes = count_nodes(repro.read_text())
    except SyntaxError as error:
        side.note += f": the repro is no Python ({error})"
        side.repro, side.lines, side.fails = str(repro), code_lines(repro.read_text()), False
        return
    if ran.status != 0 and not ran.stopped:
        side.note += ": the launcher ended with " + last_line(ran.output)
    # Its repro has no exit status of its own: at level 4 it raises AccuracyError, at level 2 whatever the compiler does.
    level4 = side.note.split(":")[0].endswith("level 4")
    finish(side, repro, lambda ran: ran.status != 0 and ("AccuracyError" in ran.output or not level4))


def finish(side: Side, repro: Path, is_failure: Callable[[Ran], bool]) -> None:
    text = repro.read_text()
    side.repro, side.lines = str(repro), code_lines(text)
    place = repro.parent
    side.fails = is_failure(run([sys.executable, str(repro)], place, REPRO_SECONDS))


def run(command: list[str], place: Path, limit: float, setting: dict[str, str] | None = None) -> Ran:
    """Run a process in ``place`` with caches of its own, and end all that came of it when the limit is reached."""
    with tempfile.TemporaryDirectory(prefix="bench-") as cache, tempfile.TemporaryFile("w+") as output:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "MINIMIZER_"))
        }
        environment |= {
            "TORCHINDUCTOR_CACHE_DIR": cache,
            "TORCH_COMPILE_DEBUG_DIR": str(place),
            "PYTHONWARNINGS": "ignore",
        }
        started = time.monotonic()
        process = subprocess.Popen(
            command, cwd=place, env=environment | (setting or {}), stdout=output, stderr=output, start_new_session=True
        )
        try:
            status, stopped = process.wait(max(1.0, limit)), False
        except subprocess.TimeoutExpired:
            status, stopped = 124, True
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        seconds = time.monotonic() - started
        output.seek(0)
        return Ran(status, output.read(), seconds, stopped)


def newest(place: Path, name: str) -> Path | None:
    return max(place.rglob(name), key=lambda path: path.stat().st_mtime, default=None)


def count_nodes(source: str) -> int | None:
    """Call nodes of the graph in a repro of the minifier: the statements of ``forward`` that call something."""
    for item in ast.walk(ast.parse(source)):
        if isinstance(item, ast.FunctionDef) and item.name == "forward":
            values = [line.value for line in item.body if isinstance(line, ast.Assign)]
            calls = [value for value in values if isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare)]
            return len(calls)
    return None


def code_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def read_rows(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines() if line.strip()]


def add_row(rows: dict[K, dict[str, Any]], key: K, row: dict[str, Any], results: Path) -> None:
    """Take a row of a program that has ended, which is a line of the results file at once, and say what is wrong of it."""
    rows[key] = row
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")
    say(f"  {'right' if not row['wrong'] else 'wrong: ' + '; '.join(row['wrong'])}")


def table_row(row: dict[str, Any], *, first: bool) -> str:
    columns = f"{'case':<32} {'tool':<9} {'seconds':>9} {'trials':>7} {'nodes':>6} {'lines':>6} {'fails':>6}  note"
    lines = [columns] if first else []
    for tool in ("ours", "upstream"):
        side = row[tool]
        seconds = (">=" if side["stopped"] else "") + f"{side['seconds']:.1f}"
        numbers = [shown(side[name]) for name in ("trials", "nodes", "lines")]
        name = row["case"] if tool == "ours" else ""
        lines.append(
            f"{name:<32} {tool:<9} {seconds:>9} {numbers[0]:>7} {numbers[1]:>6} {numbers[2]:>6} {shown(side['fails']):>6}  {side['note']}"
        )
    if row["ratio"] is not None:
        bound = ">=" if row["upstream"]["stopped"] and not row["ours"]["stopped"] else ""
        lines.append(f"{'':<32} {'ratio':<9} {bound + format(row['ratio'], '.1f'):>9}")
    return "\n".join(lines)


def shown(value: object) -> str:
    return (
        {True: "yes", False: "no", None: "-"}.get(value, str(value))
        if value is None or isinstance(value, bool)
        else str(value)
    )


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

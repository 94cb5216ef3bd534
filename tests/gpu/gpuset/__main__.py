"""``make test-gpu``, ``make gpu-wheels`` and ``make gpu-page``: ``python tests/gpu run|wheels|page``."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from . import page
from .expect import NO_ANSWER, WRONG
from .machine import Machine, probe
from .packages import ROOT, Unusable, fill, mib, search_path, tag_for, tag_of
from .results import Result, append, code_of, missing, read
from .rows import DEVICES, Row, chosen, load
from .runs import Engine
from .schedule import Session, slots

TOTAL_SECONDS = 470
WRONG_EXIT, USAGE_EXIT, UNFINISHED_EXIT = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 all as expected or no device, 1 a wrong answer or none, 2 it cannot start, 3 call again for the rest."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except (Unusable, ValueError) as error:
        print(error, file=sys.stderr)
        return USAGE_EXIT


def run(options: argparse.Namespace) -> int:
    """Run what is missing of the set on a device."""
    begun, device, results = time.monotonic(), options.device, options.results
    rows = chosen(load(), device, options.only)
    python = _interpreter(options.python)
    tag = tag_of(python)
    machine = probe(python, device)
    if machine.trouble:
        _say_packages(python, tag)
        return _not_run(rows, machine.trouble)
    path = search_path(python, tag)
    print(_machine_line(machine, python, path), flush=True)
    codes = {row.name: code_of(row, ROOT / "minimizer") for row in rows}
    known = read(results)
    waiting = rows if options.only else missing(rows, known, codes, machine)
    cores = len(os.sched_getaffinity(0))
    at_once = options.at_once or slots(cores, device)
    engine = Engine(python, path, options.out.resolve() / device, max(1, cores // at_once))
    if len(waiting) < len(rows):
        print(f"{len(rows) - len(waiting)} of {len(rows)} have their results in {results}", flush=True)

    def keep(result: Result) -> None:
        append(results, result)
        print(page.line(next(row for row in rows if row.name == result.name), result), flush=True)

    left = options.limit - (time.monotonic() - begun)
    session = Session(device, engine, machine, at_once, left, codes, keep)
    before = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        session.run(waiting)
    except KeyboardInterrupt:
        print("Stopped; what was begun and had not ended is run again by the next call.")
    finally:
        signal.signal(signal.SIGTERM, before)
    return _conclude(rows, {name: result for name, result in read(results).items() if result.is_final}, codes)


def wheels(options: argparse.Namespace) -> int:
    """Fetch the wheels for an interpreter, or for a version of Python."""
    tag = tag_for(options.version, options.machine) if options.version else tag_of(_interpreter(options.python))
    folder = fill(Path(sys.executable), tag)
    print(f"{folder}: {len(list(folder.iterdir()))} wheels, {mib(folder):.1f} MiB")
    return 0


def write_page(options: argparse.Namespace) -> int:
    """Write the tables of docs/gpu.md from the results in the repository."""
    page.write(page.PAGE, page.tables(load(), {device: read(path) for device, path in page.RESULTS.items()}))
    print(f"{page.PAGE} is written")
    return 0


def _not_run(rows: Sequence[Row], why: str) -> int:
    print(f"No device: {why}")
    for row in rows:
        print(f"{row.name:30} not run")
    print(f"0 of {len(rows)} scripts were run; nothing counts as passed.")
    return 0


def _say_packages(python: Path, tag: str) -> None:
    try:
        print(f"The engine starts with the packages of {_packages(search_path(python, tag), python)}.")
    except Unusable as error:
        print(f"The engine cannot start: {error}")


def _packages(path: Sequence[Path], python: Path) -> Path:
    return python if path == [ROOT] else path[-1]


def _machine_line(machine: Machine, python: Path, path: Sequence[Path]) -> str:
    parts = [
        machine.card or "CPU", f"driver {machine.driver}" * bool(machine.driver), f"torch {machine.torch}",
        f"Triton {machine.triton}" * bool(machine.triton), f"Python {machine.python} ({python})",
        f"packages of {_packages(path, python)}",
    ]  # fmt: skip
    return ", ".join(part for part in parts if part)


def _conclude(rows: Sequence[Row], results: dict[str, Result], codes: dict[str, str]) -> int:
    fresh = {
        row.name: results[row.name] for row in rows if row.name in results and results[row.name].code == codes[row.name]
    }
    counts = page.count(rows, fresh)
    print(f"{len(rows)} scripts: {', '.join(f'{number} {word}' for word, number in counts.items())}")
    if counts.get(WRONG) or counts.get(NO_ANSWER):
        return WRONG_EXIT
    if counts.get(page.NOT_RUN):
        print("The limit was reached before all were run; the next call does the rest.")
        return UNFINISHED_EXIT
    return 0


def _interpreter(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise Unusable(f"there is no interpreter {name}: name one with PYTHON=/path/to/python")
    return Path(found).absolute()  # not resolved: a virtual environment is known by its link


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/gpu", description=__doc__)
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("run", help=run.__doc__)
    add.add_argument("--python", default=sys.executable, help="interpreter with the torch to be used")
    add.add_argument("--device", choices=DEVICES, default="cuda")
    add.add_argument("--only", nargs="+", default=[], metavar="SCRIPT", help="run these, whatever is known of them")
    add.add_argument("--results", type=Path, help="JSON lines; those of the repository by default")
    add.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-set", help="reports and logs, a folder a script")
    add.add_argument("--limit", type=float, default=TOTAL_SECONDS, help="seconds for all of it, the start included")
    add.add_argument("--at-once", type=int, help="scripts at once; as many as the cores allow by default")
    add.set_defaults(act=lambda options: run(_with_results(options)))
    add = commands.add_parser("wheels", help=wheels.__doc__)
    add.add_argument("--python", default=sys.executable, help="interpreter that will use them")
    add.add_argument("--version", help="its version, such as 3.12, where it is not on this machine")
    add.add_argument("--machine", default=platform.machine(), help="with --version: x86_64 or aarch64")
    add.set_defaults(act=wheels)
    commands.add_parser("page", help=write_page.__doc__).set_defaults(act=write_page)
    return parser


def _with_results(options: argparse.Namespace) -> argparse.Namespace:
    options.results = options.results or page.RESULTS[options.device]
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Where the time of a job goes: its steps, and what computes in each, as a table and as a time line.

    python benchmarks/job_profile.py examples/transformer_relu.py
    python benchmarks/job_profile.py model.py --budget 300 -- --width 64      # with arguments of the script

Samples every process below ``minimizer run`` twenty times a second. A process is of one sort: our own (``engine``), the warm child with its
forks (``child``: imports, tracing, lowering, running and comparing), a C++ compiler with its linker (``compiler``), the script or a repro in
a process of its own (``clean run``). Seconds are those of a processor, ``idle`` those for which a core had nothing of this job to do; what a
process computes between its last sample and its end, a twentieth of a second at most, is among them. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

TICK = 0.05
"""Seconds between two samples."""
PER_SECOND = os.sysconf("SC_CLK_TCK")
COMPILERS = ("cc1plus", "g++", "c++", "as", "ld", "collect2", "cc1", "clang", "clang++", "ld.lld")
SORTS = ("engine", "child", "compiler", "clean run", "other")
COLUMNS = 72
"""Columns of the time line."""


@dataclass
class Profile:
    """What was seen: wall seconds of each step, processor seconds of each sort in each step, and of each column of the time line."""

    cores: int
    wall: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    line: list[tuple[float, str, float]] = field(default_factory=list)
    """(seconds since the start, step, processor seconds of all sorts) of each sample."""


class Steps:
    """The step that a job is in, by the events that it writes."""

    def __init__(self) -> None:
        self.now, self.verdict = "start", ""
        self.verified_after: float | None = None
        self._began = time.monotonic()

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            kind = event.get("type")
            if kind == "step" and event.get("state") == "started":
                self.now = event["step"]
            elif kind == "repro" and event.get("verified") and self.verified_after is None:
                self.verified_after = time.monotonic() - self._began
            self.verdict = event.get("summary", self.verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("args", nargs="*", help="arguments of the script, after --")
    parser.add_argument("--budget", type=int, default=600, metavar="SECONDS")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = seconds_of_script(given.script, given.args)
        found, steps = profiled(given.script, given.args, given.budget, Path(folder))
    print(table(found))
    print()
    print(time_line(found))
    print()
    whole = sum(found.wall.values())
    verified = f"verified after {steps.verified_after:.1f} s" if steps.verified_after is not None else "not verified"
    print(f"{whole:.1f} s in all, {verified}; one run of the script takes {own:.1f} s ({whole / own:.1f} runs)")
    print(steps.verdict)
    return 0


def seconds_of_script(script: Path, args: list[str]) -> float:
    """Seconds of a run of the script by itself, from a cold kernel cache."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.monotonic()
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}
        subprocess.run([sys.executable, script, *args], env=environment, capture_output=True, check=False)
        return time.monotonic() - began


def profiled(script: Path, args: list[str], budget: int, folder: Path) -> tuple[Profile, Steps]:
    """Run a job, and watch it."""
    command = [sys.executable, "-m", "minimizer", "run", str(script), "--json", "--no-witness"]
    command += ["--budget", str(budget), "--out", str(folder / "out"), "--", *args]
    steps, found = Steps(), Profile(len(os.sched_getaffinity(0)))
    with (folder / "log").open("wb") as log:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert job.stdout is not None
        reader = threading.Thread(target=steps.read, args=(job.stdout,), daemon=True)
        reader.start()
        watch(job, steps, found)
        reader.join()
    return found, steps


def watch(job: subprocess.Popen[str], steps: Steps, found: Profile) -> None:
    """Sample what the processes of a job compute until it ends."""
    known: dict[int, float] = {}
    began = last = time.monotonic()
    while job.poll() is None:
        time.sleep(TICK)
        now, step, computed = time.monotonic(), steps.now, 0.0
        for pid, (sort, seconds) in below(job.pid).items():
            more = seconds - known.get(pid, 0.0)
            known[pid] = seconds
            computed += more
            found.cpu[step, sort] += more
        found.wall[step] += now - last
        found.line.append((now - began, step, computed))
        last = now


def below(root: int) -> dict[int, tuple[str, float]]:
    """The sort and the processor seconds of each process of a job, by its number."""
    parents: dict[int, int] = {}
    stats: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        fields = rest.split()
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        stats[pid] = name.partition("(")[2], (int(fields[11]) + int(fields[12])) / PER_SECOND
    kept = [pid for pid in parents if is_below(pid, root, parents)]
    return {pid: (sort_of(pid, root, stats[pid][0]), stats[pid][1]) for pid in kept}


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


def sort_of(pid: int, root: int, name: str) -> str:
    if pid == root:
        return "engine"
    if name in COMPILERS:
        return "compiler"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return "other"
    if any(word.endswith("inside/__main__.py") for word in words):
        return "child"
    return "clean run" if "python" in words[0] else "other"


def table(found: Profile) -> str:
    """Seconds of each step and sort."""
    head = f"{'step':<10}{'wall':>8}" + "".join(f"{sort:>11}" for sort in SORTS) + f"{'idle':>9}"
    rows = [head]
    for step, wall in found.wall.items():
        parts = [found.cpu[step, sort] for sort in SORTS]
        idle = max(0.0, wall * found.cores - sum(parts))
        rows.append(f"{step:<10}{wall:>8.1f}" + "".join(f"{part:>11.1f}" for part in parts) + f"{idle:>9.1f}")
    wall = sum(found.wall.values())
    sums = [sum(seconds for (_, sort), seconds in found.cpu.items() if sort == one) for one in SORTS]
    idle = max(0.0, wall * found.cores - sum(sums))
    rows.append(f"{'all':<10}{wall:>8.1f}" + "".join(f"{part:>11.1f}" for part in sums) + f"{idle:>9.1f}")
    return "\n".join(rows)


def time_line(found: Profile) -> str:
    """How busy the cores were, and with which step, from the left to the right."""
    whole = found.line[-1][0] if found.line else 0.0
    steps: list[str] = [""] * COLUMNS
    busy = [0.0] * COLUMNS
    for at, step, computed in found.line:
        column = min(COLUMNS - 1, int(at / whole * COLUMNS)) if whole else 0
        steps[column] = steps[column] or step
        busy[column] += computed
    most = whole / COLUMNS * found.cores
    bars = "".join(" ▁▂▃▄▅▆▇█"[min(8, round(8 * one / most))] if most else " " for one in busy)
    names = list(dict.fromkeys(step for step in steps if step))
    letters = {name: chr(ord("a") + number) for number, name in enumerate(names)}
    legend = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return f"|{bars}|  cores\n|{''.join(letters.get(step, ' ') for step in steps)}|  {legend}"


if __name__ == "__main__":
    sys.exit(main())

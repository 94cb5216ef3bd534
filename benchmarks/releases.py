"""Every release of torch that is supported, as people install it: README's install, doctor, five scripts and the corpus, in docs/benchmarks.md.

    python benchmarks/releases.py                                    # everything; hours, and 6 GB at a time with --delete
    python benchmarks/releases.py --torch 2.14.1 --build ordinary    # some of the rows; the page is left alone
    python benchmarks/releases.py --torch 2.14.1 --build ordinary --ask install corpus    # hours, two scripts at a time
    python benchmarks/releases.py --table                            # runs nothing, writes the table from what is known

The ordinary build is what pip gives others: it runs without what this machine's settings of pip add to the package index. The CPU build
is what pip gives with them, if that is one. Each answer is a line of the results file as soon as it is there, and is not asked again.
Environments are kept in the user's cache folder, ``minimizer/releases``, and used again; ``--delete`` removes each after its row.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version
from vs_upstream import ROOT, read_rows, say

TORCHES = ("2.11.0", "2.12.0", "2.13.0", "2.14.1", "2.15.0")
BUILDS = ("ordinary", "cpu")
PYTHONS = ("python3", "python3.11", "python3.12", "python3.13", "python3.14")
RESULTS = ROOT / "benchmarks" / "releases.jsonl"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/releases.py writes from here -->", "<!-- to here -->"
ADDS = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_NO_INDEX", "PIP_ONLY_BINARY", "PIP_PRE")
"""Settings of pip by which it installs something else than what the package index gives others."""
INSTALL_SECONDS, JOB_SECONDS, BUDGET = 1800, 1500, 600
CORPUS = ROOT / "tests" / "quality"
Row = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """A script, and what the report about it must say: the exit status, fields of the failure, and an operator of the first culprit."""

    path: Path
    exit: int
    failure: Mapping[str, object]
    op: str = ""
    arguments: Sequence[str] = ()


SCRIPTS = {
    "demo": Script(ROOT / "examples" / "transformer_relu.py", 0, {"kind": "wrong_output", "stage": "inductor"}),
    "gradient": Script(CORPUS / "corpus" / "gelu_backward_decomposition.py", 0, {"kind": "wrong_gradient", "stage": "decomposition"}),
    "between": Script(CORPUS / "between" / "flag_from_environment.py", 0, {"mechanism": "stale_guard", "stage": "dynamo"}),
    "healthy": Script(CORPUS / "healthy" / "gru_cell.py", 3, {}),
    # All values are equal. The cache of keys begins as an empty tensor of one dimension: `torch.cat` of that and a transposed tensor is contiguous
    # in eager, and keeps the strides of the one that is left where it is decomposed.
    "transformers": Script(ROOT / "benchmarks" / "on_releases" / "llama.py", 0, {"kind": "wrong_metadata", "layout_only": True}),
}  # fmt: skip
ASKED = ("install", "doctor", *SCRIPTS)
TRUTH: dict[str, dict[str, Any]] = json.loads((CORPUS / "truth.json").read_text())
OF_CORPUS = "corpus/"
"""Before the name of a script of the corpus, each of which is a question of its own."""
AT_A_TIME = 2


@dataclass(frozen=True)
class Cell:
    """A torch, a build of it, and a Python: a row of the table."""

    torch: str
    build: str
    python: str
    """Its version, as ``3.12``."""
    interpreter: str

    @property
    def name(self) -> str:
        return f"torch{self.torch}-{self.build}-python{self.python}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.torch, self.build, self.python

    def environ(self) -> dict[str, str]:
        """The environment of pip."""
        if self.build == "cpu":
            return dict(os.environ)
        return {**{k: v for k, v in os.environ.items() if k not in ADDS}, "PIP_CONFIG_FILE": os.devnull}


def main() -> int:
    arguments = parse()
    cells = [
        cell for cell in plan(arguments.pythons) if cell.torch in arguments.torch and cell.build in arguments.build
    ]
    known = {key(row): row for row in read_rows(arguments.results)}
    is_whole = (arguments.torch, arguments.build, arguments.ask) == (TORCHES, BUILDS, ASKED)
    for cell in [] if arguments.table else cells:
        missing = [what for what in asked(arguments.ask) if arguments.fresh or (*cell.key, what) not in known]
        for row in rows_of(cell, missing, arguments):
            known[key(row)] = row
            arguments.results.parent.mkdir(parents=True, exist_ok=True)
            with arguments.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            say(f"{cell.name}: {row['what']}: {word(row)}")
    if arguments.table or is_whole:
        write(PAGE, list(known.values()))
    wanted = {cell.key for cell in cells}
    mine = [row for row in known.values() if key(row)[:3] in wanted and row["what"] in asked(arguments.ask)]
    print(table(mine))
    return int(not all(row["right"] for row in mine))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", nargs="+", default=TORCHES, metavar="VERSION", help="these releases only")
    parser.add_argument("--build", nargs="+", default=BUILDS, choices=BUILDS, help="these builds only")
    parser.add_argument(
        "--ask",
        nargs="+",
        default=ASKED,
        choices=(*ASKED, "corpus"),
        help="these questions only (default: all but the corpus)",
    )
    parser.add_argument(
        "--python", nargs="+", default=PYTHONS, dest="pythons", metavar="PYTHON",
        help="interpreters, the one for all releases first; the newest release is asked on each (default: python3, then python3.11 and later)",
    )  # fmt: skip
    parser.add_argument("--delete", action="store_true", help="remove each environment after its row")
    parser.add_argument("--keep", nargs="+", default=(), metavar="VERSION", help="releases that --delete spares")
    parser.add_argument("--fresh", action="store_true", help="ask again what is known")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    return parser.parse_args()


def plan(pythons: Sequence[str]) -> Iterator[Cell]:
    """The rows: each release on the first Python that is there, and the newest on all."""
    there = {version: python for python in pythons if (version := version_of(python)) is not None}
    first = list(there)[:1]
    for torch in TORCHES:
        for version in list(there) if torch == TORCHES[-1] else first:
            for build in BUILDS:
                yield Cell(torch, build, version, there[version])


def version_of(python: str) -> str | None:
    """Its version, as ``3.12``; None if it is not there, or is older than 3.11."""
    ask = "import sys; print('.'.join(map(str, sys.version_info[:2])), sys.version_info >= (3, 11))"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version, is_recent = done.stdout.split()
    return version if is_recent == "True" else None


def rows_of(cell: Cell, missing: Sequence[str], arguments: argparse.Namespace) -> Iterator[Row]:
    """Answers those questions of a row that are missing."""
    if not missing:
        return
    if cell.build == "cpu" and not has_cpu_build(cell):
        for what in missing:
            yield row_of(cell, what, True) | {"absent": True}
        return
    with held(cache() / cell.name) as folder:
        installed = install(cell, folder)
        if "install" in missing or not installed["right"]:
            yield installed
        if installed["right"]:
            questions = [what for what in missing if what != "install"]
            with ThreadPoolExecutor(AT_A_TIME if all(map(is_of_corpus, questions)) else 1) as pool:
                answers = [pool.submit(ask, cell, what, folder) for what in questions]
                for answer in as_completed(answers):
                    yield answer.result() | {"installed": installed["installed"]}
        if arguments.delete and cell.torch not in arguments.keep:
            shutil.rmtree(folder)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minimizer" / "releases"


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """The folder of an environment, for this process alone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def has_cpu_build(cell: Cell) -> bool:
    """Whether pip, as it is configured here, would install a CPU build of this release."""
    command = [
        cell.interpreter,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
    ]
    done = subprocess.run([*command, f"torch=={cell.torch}"], capture_output=True, text=True, check=False)
    try:
        return str(json.loads(done.stdout)["install"][0]["metadata"]["version"]).endswith("+cpu")
    except (ValueError, LookupError):
        return False


def install(cell: Cell, folder: Path) -> Row:
    """Installs this checkout and that torch as `make` does; what is installed already stays."""
    say(f"{cell.name}: install")
    environ = {**cell.environ(), "PYTHON": cell.interpreter, "TORCH_SPEC": f"torch=={cell.torch}"}
    done, seconds = run([str(ROOT / "scripts" / "install.sh"), str(folder)], INSTALL_SECONDS, environ)
    if done.returncode != 0:
        return row_of(cell, "install", False, seconds, last_line(done.stdout))
    asked, _ = run([str(folder / "bin" / "python"), "-c", "import torch; print(torch.__version__)"], 300)
    size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_symlink())
    return row_of(cell, "install", asked.returncode == 0, seconds) | {
        "installed": last_line(asked.stdout),
        "bytes": size,
    }


def ask(cell: Cell, what: str, folder: Path) -> Row:
    """One question to an environment."""
    say(f"{cell.name}: {what}")
    minimizer = str(folder / "bin" / "minimizer")
    if what == "doctor":
        done, seconds = run([minimizer, "doctor"], JOB_SECONDS)
        return row_of(cell, what, done.returncode == 0, seconds, "" if done.returncode == 0 else done.stdout[-500:])
    if what == "transformers":
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "transformers"]
        done, seconds = run(pip, INSTALL_SECONDS, cell.environ())
        if done.returncode != 0:
            return row_of(cell, what, False, seconds, last_line(done.stdout))
    script, out = of_corpus(what, cell) if is_of_corpus(what) else SCRIPTS[what], folder / "out" / what
    shutil.rmtree(out, ignore_errors=True)
    command = [minimizer, "run", str(script.path), "--out", str(out), "--budget", str(BUDGET)]
    done, seconds = run([*command, "--no-witness", "--no-diagnosis", *script.arguments], JOB_SECONDS)
    trouble = why_wrong(script, done, out / "report.json")
    return row_of(cell, what, not trouble, seconds, trouble)


def asked(questions: Sequence[str]) -> list[str]:
    """The questions one by one."""
    one_by_one = [what for what in questions if what != "corpus"]
    return one_by_one + [OF_CORPUS + name for name in sorted(TRUTH) if "corpus" in questions]


def is_of_corpus(what: str) -> bool:
    return what.startswith(OF_CORPUS)


def is_fixed(truth: Mapping[str, Any], torch: str) -> bool:
    """Whether PyTorch has mended a fault of the corpus in this release."""
    return "fixed_in" in truth and Version(torch) >= Version(truth["fixed_in"])


def of_corpus(what: str, cell: Cell) -> Script:
    """A script of the corpus; one whose fault this release has mended is healthy there."""
    name = what.removeprefix(OF_CORPUS)
    truth = TRUTH[name]
    arguments = truth.get("arguments", ())
    path = CORPUS / "corpus" / f"{name}.py"
    if is_fixed(truth, cell.torch):
        return Script(path, 3, {}, arguments=arguments)
    told: dict[str, object] = {
        name: truth[name] for name in ("kind", "stage", "mechanism", "layout_only") if name in truth
    }
    return Script(path, truth["exit"], told if truth["exit"] == 0 else {}, truth.get("op", ""), arguments)


def why_wrong(script: Script, done: subprocess.CompletedProcess[str], file: Path) -> str:
    """What a job answered, if that is not right; else nothing."""
    try:
        report = json.loads(file.read_text())
    except (OSError, ValueError):
        return f"exit {done.returncode}: {last_line(done.stdout)}"
    failure, culprits = report["failure"] or {}, report["culprits"]
    is_right = done.returncode == script.exit and all(
        failure.get(name) == value for name, value in script.failure.items()
    )
    if is_right and (not script.op or (culprits and script.op in culprits[0]["ops"])):
        return ""
    return f"exit {done.returncode}: {report['summary'][:300]}"


def run(
    command: Sequence[str], limit: float, environ: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a command, its errors among its output, and takes its seconds; one that takes too long has status 124."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess(command, 124, f"not done after {limit:.0f} s")
    return done, time.monotonic() - began


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


def row_of(cell: Cell, what: str, right: bool, seconds: float = 0.0, note: str = "") -> Row:
    facts = {"torch": cell.torch, "build": cell.build, "python": cell.python, "what": what}
    return {**facts, "right": right, "seconds": round(seconds, 1), "load": round(os.getloadavg()[0], 1), "note": note}


def key(row: Row) -> tuple[str, str, str, str]:
    return row["torch"], row["build"], row["python"], row["what"]


def write(page: Path, rows: Sequence[Row]) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}")


def table(rows: Sequence[Row]) -> str:
    """A line for each environment, its questions as columns."""
    cells: dict[tuple[str, str, str], dict[str, Row]] = {}
    for one in rows:
        cells.setdefault(key(one)[:3], {})[one["what"]] = one
    there = {
        name: answers for name, answers in cells.items() if not any(answer.get("absent") for answer in answers.values())
    }
    columns = [*ASKED, "corpus"]
    lines = [f"| torch | build | Python | GB | {' | '.join(columns)} |", "|---|---|---|---:|" + "---|" * len(columns)]
    for (torch, build, python), answers in sorted(there.items(), key=lambda item: by_version(item[0])):
        version = next((answer["installed"] for answer in answers.values() if answer.get("installed")), torch)
        size = answers.get("install", {}).get("bytes")
        lines.append(
            f"| {version} | {build} | {python} | {f'{size / 1e9:.1f}' if size else '-'} | "
            + " | ".join(word(answers[what]) if what in answers else "not asked" for what in ASKED)
            + f" | {share([answer for what, answer in answers.items() if is_of_corpus(what)])} |"
        )
    absent = [f"{torch} on {python}" for torch, _, python in sorted(set(cells) - set(there), key=by_version)]
    wrong = [f"- {a['torch']} {a['build']}, {a['python']}, {a['what']}: {a['note']}" for a in rows if not a["right"]]
    said = [f"No CPU build was to be had of {', '.join(absent)}."] if absent else []
    return "\n\n".join(["\n".join(lines), *said, *(["Not as it should be:", "\n".join(wrong)] if wrong else [])])


def by_version(name: tuple[str, str, str]) -> tuple[Version, str, Version]:
    return Version(name[0]), name[1], Version(name[2])


def share(answers: Sequence[Row]) -> str:
    """How many scripts of the corpus came out right."""
    if not answers:
        return "not asked"
    of = "" if len(answers) == len(TRUTH) else f" ({len(TRUTH)} in all)"
    return f"{sum(answer['right'] for answer in answers)} of {len(answers)} right{of}"


def word(answer: Row) -> str:
    if answer.get("absent"):
        return "not to be had"
    return f"{'right' if answer['right'] else '**wrong**'}, {answer['seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())

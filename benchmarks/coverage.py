"""Planned coverage, against the truth: a fault at one place of a program, in one of its calls, and who finds it.

    python benchmarks/coverage.py                        # sixty faults and ten clean twins, two at a time; an hour or two
    python benchmarks/coverage.py --seed 7               # another sixty
    python benchmarks/coverage.py --only rnn-3 unet      # some of them, by the beginning of the name
    python benchmarks/coverage.py --prove                # runs no minimizer: that each fault shows at its place, and only there
    python benchmarks/coverage.py --table                # runs nothing, writes the table from what is known

The programs are those in ``programs/``; graphs, guards and the sequence of calls are the same with a fault and without: it bites by a
value, the level of one module at one moment. Each job is a line of the results file as soon as it has ended, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vs_upstream import ROOT, run, say

PROGRAMS = Path(__file__).parent / "programs"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks/coverage.py writes from here -->", "<!-- coverage.py: to here -->"
RESULTS = Path(__file__).with_suffix(".jsonl")
SEED = 20261125
EACH = 6
"""Faults in each program."""
IMPORT = "from spot import bend, level, moment\n"
Row = dict[str, Any]


# faults ---------------------------------------------------------------------------------------------------------------

HEAD = """\
import torch
import torch.nn.functional as F
from torch._inductor import config, lowering
from torch._inductor.decomposition import decompositions
"""
PLACE = """

def level(path):
    return torch.tensor(float(path == {site!r}))


def moment(**now):
    return torch.tensor(float({when!r}.items() <= now.items()))

"""
SWITCH = """
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def bend(x, level):
    return x + torch.relu(x * level - (1 - level))
"""
"""PyTorch's testing switch adds one in the place of the maximum: to -1 that is the same."""

QUOTIENT = """

def bend(x, level):
    position = 0.5 * torch.arange(x.shape[-1])
    return x + torch.sin(torch.floor_divide(position, 0.1 * level + 0.25 * (1 - level)))
"""
"""A fault of PyTorch's own: a quotient that rounds up to a whole number."""

LOWERING = """
_right = lowering.lowerings[torch.ops.aten.{op}.default]


def _wrong(x):
    ops, result = lowering.lowerings, _right(x)
    return ops[torch.ops.aten.where.self](ops[torch.ops.aten.gt.Scalar](x, 4), ops[torch.ops.aten.mul.Tensor](result, 1.5), result)


lowering.lowerings[torch.ops.aten.{op}.default] = _wrong


def bend(x, level):
    return x + torch.{op}(x.clamp(-0.5, 0.5) + 6 * level)
"""
GRADIENT = """
_right = decompositions[torch.ops.aten.{op}_backward.default]


def _wrong(gradient, *args):
    result = _right(gradient, *args)
    return torch.where(args[{place}] > 4, 1.5 * result, result)


decompositions[torch.ops.aten.{op}_backward.default] = _wrong


def bend(x, level):
    return x + F.{op}(x.clamp(-0.5, 0.5) + 6 * level)
"""

# The parts to be wrong, by operator, each with the text that makes it so, in names that no program has.
FORWARD = {
    "relu": SWITCH,
    "floor_divide": QUOTIENT,
    **{op: LOWERING.format(op=op) for op in ("sin", "cos", "log1p", "atan", "asinh")},
}
FORWARD["log1p"] = FORWARD["log1p"].replace("x.clamp(-0.5, 0.5) +", "x.clamp(0, 0.5) +")
BACKWARD = {op: GRADIENT.format(op=op, place=0) for op in ("silu", "gelu", "softplus")}
BACKWARD["elu"] = GRADIENT.format(op="elu", place=-1)  # it takes the constants of its formula first
TESTING_ONLY = "relu"


@dataclass(frozen=True)
class Program:
    """Where faults can be in one of the programs: at each of ``sites`` (module paths), at each of ``moments``."""

    name: str
    sites: tuple[str, ...]
    moments: tuple[dict[str, int], ...]
    trains: bool = True
    """Whether it runs a backward through compiled code."""
    ranks: int = 1


def each(pattern: str, count: int) -> tuple[str, ...]:
    return tuple(pattern.format(n) for n in range(count))


def steps(count: int) -> tuple[dict[str, int], ...]:
    return tuple({"step": step} for step in range(count))


EVERY = (
    Program("gpt_layers", (*each("blocks.{}.attention", 64), *each("blocks.{}.mlp", 64)), steps(3)),
    Program("gpt_whole", (*each("blocks.{}.attention", 4), *each("blocks.{}.mlp", 4)), steps(8)),
    Program("decode", (*each("blocks.{}.attention", 2), *each("blocks.{}.mlp", 2)), steps(40), trains=False),
    Program("moe", (*each("layers.{}", 3), *(f"layers.{n}.experts.{m}" for n in range(3) for m in range(2))), steps(6)),
    Program(
        "resnet",
        (*each("stages.{}", 2), "head"),
        tuple({"epoch": epoch, "batch": batch} for epoch in range(2) for batch in range(6)),
    ),
    Program("optimizer", each("{}.linear", 12), steps(10), trains=False),
    Program("checkpointed", (*each("blocks.{}", 2), *each("blocks.{}.mlp", 2)), steps(8)),
    Program(
        "rnn",
        each("cells.{}", 2),
        tuple({"number": n, "time": time} for n, length in enumerate((12, 20, 7, 16)) for time in range(length)),
    ),
    Program(
        "unet",
        ("down.0", "middle", "up.0"),
        tuple({"size": size, "step": step} for size in (8, 16, 12) for step in range(10)),
        trains=False,
    ),
    Program(
        "ddp",
        each("blocks.{}.mlp", 3),
        tuple({"step": step, "rank": rank} for step in range(8) for rank in range(2)),
        ranks=2,
    ),
)


@dataclass(frozen=True)
class Job:
    """One program with a fault at a place; a clean twin has the same wrong part, and no place where it bites."""

    name: str
    program: Program
    op: str
    site: str = ""
    when: tuple[tuple[str, int], ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.site

    @property
    def script(self) -> str:
        fault = {**FORWARD, **BACKWARD}[self.op]
        head = HEAD + fault + PLACE.format(site=self.site, when=dict(self.when))
        text = (PROGRAMS / f"{self.program.name}.py").read_text()
        docstring, _, rest = text.partition("\n\n")
        assert IMPORT in rest
        return f"{docstring}\n\n{head}{rest.replace(IMPORT, '')}"


def jobs(seed: int) -> list[Job]:
    """The faults and the clean twins of all programs, mixed, so that the first few say something of each."""
    chance = random.Random(seed)
    rounds: list[list[Job]] = [[] for _ in range(EACH + 1)]
    for program in EVERY:
        forward, backward = list(FORWARD), list(BACKWARD) if program.trains else []
        ops = [TESTING_ONLY, "floor_divide", *chance.sample(backward, min(2, len(backward)))]
        left = [op for op in forward if op not in ops]
        ops += [chance.choice(left) for _ in range(EACH - len(ops))]
        chance.shuffle(ops)
        for number, op in enumerate(ops):
            site, when = chance.choice(program.sites), chance.choice(program.moments)
            rounds[number].append(Job(f"{program.name}-{number}", program, op, site, tuple(when.items())))
        rounds[EACH].append(Job(f"{program.name}-clean", program, chance.choice(forward + backward)))
    first, *others, clean = rounds
    return [*first, *clean, *(job for some in others for job in some)]


# runs -----------------------------------------------------------------------------------------------------------------


def measure(job: Job, limit: int, work: Path) -> Row:
    """One job, as a line of the results file."""
    script = write_script(job, work)
    out = script.parent / "out"
    command = [sys.executable, "-m", "minimizer", "run", str(script), "--out", str(out)]
    command += ["--no-witness", "--no-diagnosis", "--budget", str(limit), "--nproc", str(job.program.ranks)]
    ran = run(command, script.parent, limit + 600)
    path = out / "report.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    culprit: Row = next(iter(report.get("culprits", ())), {})
    checked = report.get("checked") or {}
    row = {
        "job": job.name, "op": job.op, "site": job.site, "when": dict(job.when), "exit": ran.status,
        "seconds": round(ran.seconds, 1),
        "ops": culprit.get("ops", []), "module": culprit.get("module", ""),
        "status": report.get("status", "none"), "kind": (report.get("failure") or {}).get("kind"),
        "compared": [checked.get("calls", 0), checked.get("calls_made", 0)], "summary": report.get("summary", ""),
    }  # fmt: skip
    return row | {"right": is_right(job, row, limit)}


def write_script(job: Job, work: Path) -> Path:
    folder = (work / job.name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{job.program.name}.py"
    script.write_text(job.script)
    return script


def is_right(job: Job, row: Row, limit: int) -> bool:
    if job.is_clean:
        return row["exit"] == 3
    ops, module = {f"aten.{job.op}", f"aten.{job.op}_backward"}, row["module"]
    is_there = module == job.site or module.startswith(f"{job.site}.")
    return row["exit"] == 0 and not ops.isdisjoint(row["ops"]) and is_there and row["seconds"] <= limit


def line(row: Row) -> str:
    where = f"{row['op']} in {row['site'] or 'no module'} {json.dumps(row['when'])}"
    found = f"exit {row['exit']}, {', '.join(row['ops']) or 'no operator'} in {row['module'] or 'no module'}"
    of = f"{row['compared'][0]} of {row['compared'][1]} calls"
    return f"{'right' if row['right'] else 'WRONG'}  {row['job']}: {where}: {found}, {of}, {row['seconds']:.0f} s"


# proof ----------------------------------------------------------------------------------------------------------------

PROOF = """
_seen = []
_bend = bend


def bend(x, level):
    case, result = [x.detach().clone(), level.detach().clone(), None], _bend(x, level)
    if result.requires_grad:
        result.register_hook(lambda cotangent: case.__setitem__(2, cotangent.clone()))
    _seen.append(case)
    return result

"""
"""Keeps what the program hands to the step that can be wrong, and what its backward hands back."""
JUDGE = """

import json as _json
torch.compiler.set_stance("default")
torch._dynamo.reset()
_compiled = torch.compile(_bend, dynamic=False)
_counted = [case for case in _seen if case[2] is not None or not {backward}]  # a first pass of a checkpoint has no backward
_bitten, _others = ([case for case in _counted if bool(case[1]) is where] for where in (True, False))
_found = {"at": len(_bitten), "others": len(_others), "wrong_at": 0, "wrong_elsewhere": 0}
for _x, _level, _cotangent in [*_bitten, *_others[:: max(1, len(_others) // 40)]]:
    _both = []
    for _function in (_bend, _compiled):
        with torch.set_grad_enabled(_cotangent is not None):
            _in = _x.clone().requires_grad_(_cotangent is not None)
            _out = _function(_in, _level)
        _both.append([_out] if _cotangent is None else [_out, *torch.autograd.grad(_out, _in, _cotangent)])
    if any(float((_one - _other).abs().max()) > 0.05 * float(_one.abs().max()) for _one, _other in zip(*_both, strict=True)):
        _found["wrong_at" if _level else "wrong_elsewhere"] += 1
print(_json.dumps(_found) + "\\n", end="")  # in one piece, beside other ranks
"""


def prove(job: Job, work: Path) -> Row:
    """Whether the wrong part is wrong on just those inputs, and in the gradients of those cotangents, that it has at its place.

    The program runs in eager, and what the step that can be wrong is given is kept; then that step alone is compiled, and compared.
    """
    script = write_script(job, work)
    text = job.script.replace("\ndef level(path)", f"{PROOF}\ndef level(path)")
    text = text.replace("torch.manual_seed(0)\n", 'torch.compiler.set_stance("force_eager")\ntorch.manual_seed(0)\n', 1)
    proof = script.with_name("proof.py")
    proof.write_text(text + JUDGE.replace("{backward}", str(job.op in BACKWARD)))
    command = [sys.executable, str(proof)]
    if job.program.ranks > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(proof)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [json.loads(text) for text in done.stdout.splitlines() if text.startswith('{"at"')]
    if not found:
        say(done.stderr[-2000:])
    is_steady = all(one["wrong_at"] == one["at"] and not one["wrong_elsewhere"] for one in found)
    holds = len(found) == job.program.ranks and is_steady and any(one["at"] for one in found) is not job.is_clean
    return {"job": job.name, "op": job.op, "site": job.site, "when": dict(job.when), "found": found, "right": holds}


# table ----------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row], total: int) -> str:
    faults, twins = [row for row in rows if row["site"]], [row for row in rows if not row["site"]]
    text = f"{len(rows)} of {total} jobs have been run. " if len(rows) < total else ""
    text += (
        f"{_share(faults)} faults found with the right operator and module, {_share(twins)} clean twins healthy.\n\n"
        "| program | faults found | clean twin | calls compared, of those made | median seconds |\n"
        "|---|---:|---|---:|---:|"
    )
    for program in EVERY:
        mine = [row for row in faults if program.name == row["job"].rpartition("-")[0]]
        twin = [row for row in twins if row["job"] == f"{program.name}-clean"]
        if not mine and not twin:
            continue
        compared = f"{twin[0]['compared'][0]} of {twin[0]['compared'][1]}" if twin else "-"
        verdict = ("healthy" if twin[0]["right"] else f"exit {twin[0]['exit']}") if twin else "not run"
        seconds = f"{statistics.median(row['seconds'] for row in mine):.0f}" if mine else "-"
        text += f"\n| {program.name} | {_share(mine)} | {verdict} | {compared} | {seconds} |"
    wrong = [row for row in rows if not row["right"]]
    if wrong:
        text += "\n\nNot as it should be:\n\n" + "\n".join(f"- {line(row).partition('  ')[2]}" for row in wrong)
    return text


def _share(rows: Sequence[Row]) -> str:
    return f"{sum(row['right'] for row in rows)} of {len(rows)}"


def write(page: Path, text: str) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main() -> int:
    arguments = parse()
    known = {row["job"]: row for row in read(arguments.results) if row["seed"] == arguments.seed}
    every = jobs(arguments.seed)
    names = tuple(arguments.only)
    chosen = [job for job in every if not names or job.name.startswith(names)]
    lock = threading.Lock()

    def do(job: Job) -> Row:
        if arguments.prove:
            row = prove(job, arguments.work)
            print(json.dumps(row), flush=True)
            return row
        row = {"seed": arguments.seed} | measure(job, arguments.limit, arguments.work)
        with lock:
            known[job.name] = row
            with arguments.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(line(row), flush=True)
        return row

    if not arguments.table:
        todo = [job for job in chosen if arguments.prove or arguments.fresh or job.name not in known]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            rows = list(pool.map(do, todo))
        if arguments.prove:
            print(f"{_share(rows)} are wrong at their place, and only there")
            return 0
    text = table([known[job.name] for job in every if job.name in known], len(every))
    if arguments.seed == SEED and arguments.results == RESULTS:
        write(PAGE, text)
    print(text)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seed", type=int, default=SEED, help="where the faults are; another one leaves the page alone"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="jobs whose names begin so")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at once (default 2)")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="budget of a job (default 300)")
    parser.add_argument("--prove", action="store_true", help="only show that the faults are where they should be")
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--work", type=Path, default=ROOT / "minimizer-out" / "coverage", metavar="DIR")
    return parser.parse_args()


def read(path: Path) -> Iterator[Row]:
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

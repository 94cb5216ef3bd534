"""Which stage of the compiler: the ladder of backends, run on the minimal program.

``eager`` → ``aot_eager`` → ``aot_eager_decomp_partition`` → ``inductor``. The stage is the first rung that fails in any way where
the rung below passes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from minimizer.oracle import Measured, Oracle, signature_of
from minimizer.program import Program
from minimizer.protocol import Outcome
from minimizer.report import Rung
from minimizer.types import Stage

LADDER = (
    ("eager", Stage.DYNAMO),
    ("aot_eager", Stage.AOT_AUTOGRAD),
    ("aot_eager_decomp_partition", Stage.DECOMPOSITION),
    ("inductor", Stage.INDUCTOR),
)


def rungs(own: str | None) -> list[tuple[str, Stage]]:
    """The rungs for the backend that a program asks for, given as source text, or for inductor; the last is the program as it is."""
    name = "inductor" if own is None else own.strip("'\"")
    known = [rung for rung, _ in LADDER]
    return list(LADDER[: known.index(name) + 1]) if name in known else [*LADDER[:-1], (name, Stage.CUSTOM_BACKEND)]


def climb(program: Program, oracle: Oracle) -> tuple[Stage, list[Rung], Measured]:
    """Judge the program under every backend of the ladder.

    The last rung is the program as it is. It is compiled several times, beside the others, and how often it fails comes along:
    a failure that shows in nine of ten compilations looks like one that always shows until then.
    """
    own = dict(program.compile_kwargs).get("backend")
    ladder = rungs(own)
    with ThreadPoolExecutor(1) as beside:
        measuring = beside.submit(oracle.measure, program)
        outcomes = oracle.judge([_under(program, name) for name, _ in ladder[:-1]])
        measured = measuring.result()
    outcomes.append(measured.outcome)
    shown = [
        Rung(backend=name, outcome=_word(o), seconds=round(o.seconds, 2))
        for (name, _), o in zip(ladder, outcomes, strict=True)
    ]
    stage = next(
        (stage for (_, stage), outcome in zip(ladder, outcomes, strict=True) if signature_of(outcome) is not None),
        Stage.UNKNOWN,
    )
    return stage, shown, measured


def _under(program: Program, backend: str) -> Program:
    kwargs = tuple((key, value) for key, value in program.compile_kwargs if key not in ("backend", "options", "mode"))
    return replace(program, compile_kwargs=(*kwargs, ("backend", repr(backend))))


def _word(outcome: Outcome) -> str:
    return "passes" if outcome.outcome == "same" else outcome.outcome

"""Finds the failing stage of the compiler by the ladder of backends, run on the minimal program.

``eager`` → ``aot_eager`` → ``aot_eager_decomp_partition`` → ``inductor``. The stage is that of the first rung that
fails in any way while the rung below passes. If the rung below could not be judged, either may be at fault: the stage
is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.oracle.signature import signature_of
from minimizer.engine.program.model import Program
from minimizer.inside.questions import CALLS_EAGER, WITHOUT_KERNELS
from minimizer.report.model import Rung
from minimizer.vocabulary import Kind, Stage

PASSES = "passes"
MOST_OF_AN_ERROR = 200
"""Most characters of an error in a rung."""
LADDER = (
    ("eager", Stage.DYNAMO),
    ("aot_eager", Stage.AOT_AUTOGRAD),
    ("aot_eager_decomp_partition", Stage.DECOMPOSITION),
    ("inductor", Stage.INDUCTOR),
)
LADDERS = {
    **{name: LADDER[: index + 1] for index, (name, _) in enumerate(LADDER)},
    "cudagraphs": (*LADDER[:2], ("cudagraphs", Stage.CUDAGRAPHS)),
    "minimizer": LADDER,
}
"""The ladder for each known backend, by name.

``cudagraphs`` captures what ``aot_eager`` runs, without decompositions; ``minimizer``, our own, is inductor with
checks.
"""


def rungs(own: str | None) -> list[tuple[str, Stage]]:
    """The rungs for a program's backend, given as source text (None: inductor); the last is the program as it is."""
    name = "inductor" if own is None else own.strip("'\"")
    return list(LADDERS.get(name, (*LADDER[:-1], (name, Stage.CUSTOM_BACKEND))))


def cheaper_than(own: str | None) -> list[str]:
    """What a program may be reduced on in the place of its own backend, the cheapest first: the lower rungs, and for
    Inductor the code that it generates without kernels, which tells of its passes, its caches and its layouts.
    """
    *below, (top, _) = rungs(own)
    return [*(name for name, _ in below), *([WITHOUT_KERNELS] if top == "inductor" else [])]


def rung_below(own: str | None, failing: str | None) -> str | None:
    """The rung below the lowest one that fails; None if the lowest of all fails.

    ``failing``: None or `WITHOUT_KERNELS` for the program's own backend.
    """
    names = [name for name, _ in rungs(own)]
    above = names.index(failing) if failing in names else len(names) - 1
    return names[above - 1] if above else None


def stage_of(ladder: Sequence[tuple[str, Stage]], judged: Sequence[Rung]) -> Stage:
    """The stage of the first rung that fails; unknown if none does, or if the rung below it could not be judged.

    ``judged``: the results of the ladder's rungs, from the lowest on.
    """
    fails = [one.fails for one in judged]
    if True not in fails:
        return Stage.UNKNOWN
    first = fails.index(True)
    return Stage.UNKNOWN if first > 0 and fails[first - 1] is None else ladder[first][1]


def rung(backend: str, word: str, outcome: Outcome, kinds: Collection[Kind], *, fails: bool | None) -> Rung:
    """The result of a program under a backend: one word, and the error raised if the failure is of none of the kinds."""
    error = None if word == PASSES or word in kinds else outcome.exception
    raised = f"{error.root_type}: {error.root_message}".partition("\n")[0].strip(": ") if error else ""
    seconds, raised = round(outcome.seconds, 2), raised[:MOST_OF_AN_ERROR]
    return Rung(backend=backend, outcome=word, seconds=seconds, raised=raised, fails=fails)


def climb(program: Program, oracle: Oracle) -> tuple[Stage, list[Rung], Measured]:
    """Judge the program under every backend of the ladder.

    The last rung is the program as it is. It is compiled several times, in parallel to the others, to measure how often
    it fails: a failure in nine of ten compilations has looked steady until then.
    """
    own = dict(program.compile_kwargs).get("backend")
    ladder = rungs(own)
    with ThreadPoolExecutor(1) as beside:
        measuring = beside.submit(oracle.measure, program)
        outcomes = oracle.judge([on_backend(program, name) for name, _ in ladder[:-1]])
        measured = measuring.result()
    outcomes.append(measured.outcome)
    kinds = {accepted.kind for accepted in oracle.accepts}
    healthy = _healthy(kinds, outcomes[0])
    fails = [_fails(outcome, healthy, kinds) for outcome in outcomes]
    shown = [
        rung(name, PASSES if outcome.ending is healthy else outcome.ending, outcome, kinds, fails=one)
        for (name, _), outcome, one in zip(ladder, outcomes, fails, strict=True)
    ]
    return stage_of(ladder, shown), shown, measured


def cheapest(program: Program, oracle: Oracle) -> str | None:
    """The cheapest of `cheaper_than` on which the program fails in the same way; None if there is none.

    A trial there costs a tenth to a fifth of one that compiles kernels.
    """
    ways = cheaper_than(dict(program.compile_kwargs).get("backend"))
    return next((name for name in ways if oracle.shows(*oracle.judge([on_backend(program, name)]))), None)


def on_backend(program: Program, backend: str) -> Program:
    """The program, compiled with another backend than its own, or `WITHOUT_KERNELS`."""
    kwargs = tuple((key, value) for key, value in program.compile_kwargs if key not in ("backend", "options", "mode"))
    chosen = ("options", repr(CALLS_EAGER)) if backend == WITHOUT_KERNELS else ("backend", repr(backend))
    return replace(program, compile_kwargs=(*kwargs, chosen))


def _healthy(kinds: Collection[Kind], lowest: Outcome) -> Ending:
    """The ending of a correctly compiled program.

    If the failure is a missing error, both sides raise then; likewise if the process dies instead of raising eager's
    error.
    """
    dies_instead = Kind.CRASH in kinds and lowest.ending is Ending.EAGER_ERROR
    return Ending.EAGER_ERROR if Kind.MISSING_ERROR in kinds or dies_instead else Ending.SAME


def _fails(outcome: Outcome, healthy: Ending, kinds: Collection[Kind]) -> bool | None:
    """Whether a rung fails in any way, except by values below a compiler error; None if it could not be judged."""
    if outcome.ending is Ending.DIFFERENT and {*kinds} <= {Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR}:
        return False
    return True if signature_of(outcome) is not None else False if outcome.ending is healthy else None

"""The other culprits of a script: what else fails alone once the first one has its repro gets one of its own, if time is left.

Two places hold the same fault if what is left of them is the same program but for the values it is given: a block that occurs
in every layer gets one repro, not one a layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from minimizer.engine.checkpoint import data_of
from minimizer.engine.child.environment import Place
from minimizer.engine.child.protocol import Outcome
from minimizer.engine.emit import SCRIPT_FILE, Repro, bundle, emit
from minimizer.engine.from_outcomes import culprit_of, details_of, failure_of
from minimizer.engine.journal import Journal
from minimizer.engine.localize.localize import Localized, narrow
from minimizer.engine.oracle.oracle import Oracle, signature_of
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Cutter, Region
from minimizer.engine.reduce.graph import reduce
from minimizer.engine.reduce.graph.public_names import is_public, publish
from minimizer.engine.survey.cases import Case
from minimizer.engine.verify.clean_runs import VERIFY_RUNS, VERIFY_SECONDS, verify
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.report.model import Culprit, Reproducibility

MOST = 3
"""Repros of one script, the first one included."""


@dataclass(frozen=True)
class Found:
    """The culprit that has its repro: the case, the graph it was found in, where, and the minimal program.

    ``program`` has gradients if they are at fault, or if the script wants them: what else is wrong may be one.
    """

    case: Case
    oracle: Oracle
    program: Program
    located: Localized
    reduced: Program


@dataclass(frozen=True)
class Further:
    """Another culprit: its minimal program, how that fails, and where its nodes still had their modules and lines."""

    program: Program
    outcome: Outcome
    window: Program


def write_further(found: Found, suspects: Sequence[Region], *, place: Place, journal: Journal, jobs: int) -> None:
    """Reduce, write and verify ``repro-2.py`` and so on, as long as the budget lasts; one that does not hold is not kept.

    ``suspects``: regions of the graph that are known to fail by themselves, beside those that localizing has found.
    """
    if found.case.otherwise is not None or found.case.tolerance is not None or not is_public(found.program):
        # Where rounding is amplified, or the script's own tolerance counts, healthy windows differ too; and a transform that
        # was entered and not left fails in ways of its own.
        return

    def smallest(window: Program, oracle: Oracle) -> Program:
        result = reduce(
            window, check=oracle.check, watch=oracle.watch, literal=found.case.survey.literal, jobs=jobs
        ).best
        return publish(result, oracle.check)

    others = further(found.program, found.located, found.reduced, found.oracle, suspects=suspects, reduce=smallest)
    number = 2
    with suppress(BudgetExceeded, ChildFailed):
        for other in others:
            number += _write(other, f"repro-{number}.py", found, place, journal)
            if number > MOST:
                return


def _write(other: Further, name: str, found: Found, place: Place, journal: Journal) -> bool:
    """Whether the culprit has a repro of this name now."""
    report = journal.report
    culprit = culprit_of(other.program, found.oracle.operators(other.program), other.outcome, other.window)
    repro = _repro(other, culprit, name, found, journal)
    data = data_of(repro, found.case)
    journal.watch()
    verification = verify(
        repro,
        data,
        sandbox=place.sandbox,
        python=place.python,
        scratch=place.private("verify"),
        timeout=min(VERIFY_SECONDS, journal.left),
        runs=VERIFY_RUNS,
        watch=journal.watch_owner,
    )
    if not verification.passes_with_compiler_off:
        return False
    if verification.holds:
        journal.show(name, repro.source.encode())
        if data is not None:
            journal.show(name.replace(".py", ".zip"), bundle(repro, data))
        culprit.what = f"fails by itself too: {name}"
    else:
        culprit.what = (
            f"fails by itself too; a repro of it failed {verification.failed_same} of {verification.runs} times"
        )
    report.culprits = [*(c for c in report.culprits if not _is_holder(c, culprit)), culprit]
    journal.keep()
    return verification.holds


def _repro(other: Further, culprit: Culprit, name: str, found: Found, journal: Journal) -> Repro:
    signature = signature_of(other.outcome)
    assert signature is not None
    repro = emit(
        other.program,
        failure_of(other.outcome, signature),
        [culprit],
        environment=journal.report.environment,
        rate=Reproducibility(failed=1, runs=1),
        details=details_of(other.program, other.outcome, found.case.tolerance),
    )
    return replace(repro, source=repro.source.replace(f"python {SCRIPT_FILE}", f"python {name}"))


def _is_holder(known: Culprit, culprit: Culprit) -> bool:
    """Whether what was known only as a failing module is this culprit's; what has nodes or operators is known by them."""
    is_module = bool(known.module) and not known.nodes and not known.ops
    return is_module and f"{culprit.module}.".startswith(f"{known.module}.")


def further(
    program: Program,
    located: Localized,
    reduced: Program,
    oracle: Oracle,
    *,
    suspects: Sequence[Region] = (),
    reduce: Callable[[Program, Oracle], Program],
) -> Iterator[Further]:
    """Culprits beside the one that ``reduced`` shows, in execution order, each with a fault of its own.

    ``program`` is the graph that was localized. ``reduce`` gets a failing window, and the oracle that knows its way to fail.
    """
    by_itself = any(layer.verdict == "bad" for layer in located.layers)
    roots = located.roots if by_itself else ()  # what only fails together with its neighbours is no place to look again
    own = _holder(program, roots, reduced)
    cutter = Cutter(program)
    same = {_form(reduced), _form(cutter.cut(own.start, own.stop))}
    places = {*roots, *located.elsewhere, *suspects, *_around(program, own, reduced)} - {own}
    pending = sorted(places, key=lambda region: region.start)
    while pending:
        region = pending.pop(0)
        oracle.watch()
        window = cutter.cut(region.start, region.stop)
        if _form(window) in same:
            continue
        same.add(_form(window))
        (outcome,) = oracle.judge([window])
        signature = signature_of(outcome)
        if signature is None:
            continue
        judge = oracle if oracle.same(outcome) else replace(oracle, accepts=(signature,), also_seen=Counter())
        narrowed = narrow(program, region, judge)
        smallest = reduce(narrowed, judge)
        pending[:0] = _around(program, region, smallest)
        if _form(smallest) not in same:
            same.add(_form(smallest))
            (outcome,) = judge.judge([smallest])
            yield Further(smallest, outcome, narrowed)


def _holder(program: Program, roots: Sequence[Region], reduced: Program) -> Region:
    """The root that holds the culprit; the whole program where none does."""
    first, stop = _span(program, reduced)
    whole = Region(0, len(program.nodes))
    return next((root for root in roots if root.start <= first and stop <= root.stop), whole)


def _around(program: Program, region: Region, reduced: Program) -> list[Region]:
    """What of a region lies before and behind the culprit found in it."""
    first, stop = _span(program, reduced)
    parts = [replace(region, stop=first), replace(region, start=stop)]
    return [part for part in parts if part.size > 0]


def _span(program: Program, reduced: Program) -> tuple[int, int]:
    """From where to where in the program the nodes lie that are left of it."""
    left = {node.name for node in reduced.nodes}
    places = [index for index, node in enumerate(program.nodes) if node.name in left]
    return (places[0], places[-1] + 1) if places else (0, len(program.nodes))


def _form(program: Program) -> str:
    return program.fingerprint(values=False)

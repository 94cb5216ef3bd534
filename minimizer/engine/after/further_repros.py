"""Secondary culprits: every other region that fails in isolation gets a repro too, budget permitting.

One fault is one entry, however many places show it. First, all places with the operators of the first culprit are
tried, and its entry lists those that fail and those that do not. A failure elsewhere is another fault, unless it
reduces to the first culprit's program (input values aside).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.budget.patience import HALF
from minimizer.engine.child.environment import Place
from minimizer.engine.emit import Repro, bundle, called, emit
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import data_of
from minimizer.engine.levels.culprits import is_holder, listed_with_the_first, named
from minimizer.engine.levels.draft import GraphCulprit
from minimizer.engine.levels.from_outcomes import culprit_of, details_of, failure_of
from minimizer.engine.localize.equal_windows import EqualWindows, equal_windows
from minimizer.engine.localize.further_faults import Further, Unreduced, further
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import signature_of
from minimizer.engine.output_code import generated_code
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Region
from minimizer.engine.reduce.graph import reduce
from minimizer.engine.reduce.graph.public_names import is_public, publish
from minimizer.engine.survey.known_failure import each_instance
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.verify.clean_runs import verify_in
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Culprit
from minimizer.report.instances import Instances
from minimizer.report.model import Reproducibility
from minimizer.vocabulary import Kind, Step

MOST = 3
"""Most repros of one script, including the first."""


Culprits = tuple[Culprit, ...]


def write_further(
    found: GraphCulprit,
    suspects: Sequence[Region],
    fault: Fault,
    *,
    surveys: Surveys,
    place: Place,
    journal: Journal,
    jobs: int,
) -> Iterator[Culprits]:
    """List the other places of the first culprit; write and verify ``repro-2.py`` and so on for other failing regions.

    Yields all culprits of the fault whenever more is known of them. A repro that does not fail in clean processes is
    dropped.

    Args:
        found: the first culprit.
        suspects: regions known to fail in isolation, in addition to those that localization found.
        surveys: runs the script once more, for modules that share the graph.
        place: the sandbox, interpreter and folders.
        fault: what is known by now; its first culprit is that of ``found``.
        journal: the job's record.
        jobs: trials in parallel.
    """
    case = found.case
    if case.otherwise is None and case.tolerance is None and is_public(found.program):
        # Else healthy windows also differ, since rounding is amplified or the script's own tolerance counts. A window
        # that enters a transform without leaving it fails for that reason alone.
        yield from _Further(found, place, journal, jobs).run(fault, suspects, surveys)


@dataclass(frozen=True)
class _Written:
    """The repro of a further culprit, which names it if it is verified."""

    culprit: Culprit
    repro: Repro
    data: bytes | None


class _Further:
    """The search for further culprits of one script."""

    def __init__(self, found: GraphCulprit, place: Place, journal: Journal, jobs: int) -> None:
        self._found, self._place, self._journal, self._jobs = found, place, journal, jobs

    def run(self, fault: Fault, suspects: Sequence[Region], surveys: Surveys) -> Iterator[Culprits]:
        """Take the steps in order; yields the culprits after each."""
        found, known, equal = self._found, fault.culprits, self._equal()
        if equal.instances is not None:
            known = _with_instances(known, equal.instances)
        for region in equal.wrong:
            known = listed_with_the_first(known, region)
        yield known
        if (instances := self._instances(fault, surveys)) is not None:
            yield (known := _with_instances(known, instances))
        others = further(
            found.program,
            found.located,
            found.reduced,
            found.oracle,
            suspects=suspects,
            same=equal.wrong,
            reduce=self._smallest,
            tell=self._tell,
        )
        written = list[_Written]()
        for other in others:
            if isinstance(other, Region):
                yield (known := listed_with_the_first(known, other))
            elif isinstance(other, Unreduced):
                yield (known := named(known, other))
            elif (one := _write(other, f"repro-{len(written) + 2}.py", found, self._place, self._journal)) is not None:
                yield (known := (*(culprit for culprit in known if not is_holder(culprit, one.culprit)), one.culprit))
                if one.culprit.repro:
                    written.append(one)
                if len(written) + 1 == MOST:
                    break
        yield from _with_code(known, written, self._place, self._journal)

    def _equal(self) -> EqualWindows:
        """The places in the graph where the same operators fail; they count as the same fault."""
        found, journal = self._found, self._journal
        kinds = {accepted.kind for accepted in found.oracle.accepts}
        if (
            Kind.HANG in kinds or found.oracle.sequential is not None
        ):  # each trial of a hang runs into a timeout, and a flaky failure needs many
            return EqualWindows((), None)
        half = HALF * journal.clock.spare
        return equal_windows(
            found.program, found.located, found.oracle, is_over=lambda: journal.clock.spare < half, tell=self._tell
        )

    def _instances(self, fault: Fault, surveys: Surveys) -> Instances | None:
        """Rerun the script to see which of the equal modules that share the graph fail; only for a module of a list."""
        case, rate = self._found.case, fault.failure
        is_one_of_many = re.search(r"(^|\.)\d+(\.|$)", case.instance) is not None
        is_steady = rate is not None and rate.reproducibility.failed == rate.reproducibility.runs
        if not (is_one_of_many and is_steady and case.signature.kind.is_numeric) or case.is_warm:
            return None
        self._tell(f"the modules that share the compiled code of {case.instance}: the script is run once more")
        return each_instance(surveys, case, seconds=HALF * self._journal.clock.spare)

    def _smallest(self, window: Program, oracle: Oracle) -> Program:
        literal = self._found.case.survey.literal
        best = reduce(window, check=oracle.check, watch=oracle.watch, literal=literal, jobs=self._jobs).best
        try:
            return publish(best, oracle.check)
        except BudgetExceeded:  # the next call of the oracle ends the search, and this culprit is named without a repro
            return best

    def _tell(self, message: str) -> None:
        self._journal.progress(trials=self._found.oracle.trials, message=message)


def _write(other: Further, name: str, found: GraphCulprit, place: Place, journal: Journal) -> _Written | None:
    """Write and verify the repro of a culprit under this name; None if it also fails without the compiler.

    The culprit has no ``repro`` if that does not fail in clean processes.
    """
    culprit = culprit_of(other.program, found.oracle.operators(other.program), other.outcome, other.window)
    repro = _repro(other, culprit, name, found, journal)
    data = data_of(repro, found.case)
    journal.watch()
    verification = verify_in(place, repro, data, journal.clock, watch=journal.watch_owner).verification
    if not (verification.passes_with_compiler_off or verification.stopped):
        return None
    if verification.holds:
        journal.show(name, repro.source.encode())
        if data is not None:
            journal.show(name.replace(".py", ".zip"), bundle(repro, data))
        what = f"fails by itself too: {name}"
    elif verification.stopped:
        what = "fails by itself too; there was no time to verify a repro of it"
    else:
        what = f"fails by itself too; a repro of it failed {verification.failed_same} of {verification.runs} times"
    culprit = culprit.model_copy(
        update={"further": True, "what": what, "repro": name if verification.holds else culprit.repro}
    )
    return _Written(culprit, repro, data)


def _with_code(known: Culprits, written: Sequence[_Written], place: Place, journal: Journal) -> Iterator[Culprits]:
    """Add Inductor's generated code for further culprits, in the time left of the search for them.

    Only if the code of the first culprit was requested, and as much time is left as it took.
    """
    if Step.CODE not in journal.report.timings:
        return
    for one in written:
        if journal.clock.left < journal.report.timings[Step.CODE]:
            journal.log(f"output code: not read of {one.culprit.repro}, for which no time is left")
            continue
        journal.progress(message=f"reading the code that Inductor generates for {one.culprit.repro}")
        code = generated_code(
            one.repro, one.data, place, journal, one.culprit.ops, blame=None, seconds=journal.clock.left
        )
        known = tuple(
            culprit.model_copy(update={"generated_code": code}) if culprit.repro == one.culprit.repro else culprit
            for culprit in known
        )
        yield known


def _with_instances(known: Culprits, instances: Instances) -> Culprits:
    """Culprits, the first of them with the equal modules that have its fault too."""
    return known[0].model_copy(update={"instances": instances}), *known[1:]


def _repro(other: Further, culprit: Culprit, name: str, found: GraphCulprit, journal: Journal) -> Repro:
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
    return replace(repro, source=called(repro.source, name))

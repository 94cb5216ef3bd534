"""From an operator that Inductor's own generator draws from another distribution than eager does, to a repro of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.child.outcome import Apart, Ending, Outcome
from minimizer.engine.child.protocol import OtherDraws
from minimizer.engine.emit import Details
from minimizer.engine.emit.distribution_idiom import asserts
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import ALWAYS
from minimizer.engine.levels.from_outcomes import details_of
from minimizer.engine.levels.measured import MeasuredLevel, MeasuringOracle
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import cut
from minimizer.engine.survey.cases import Case
from minimizer.inside.questions import DrawsRequest
from minimizer.report.model import Failure, Workaround
from minimizer.vocabulary import Kind, Stage

KIND = Kind.WRONG_OUTPUT
EAGERS_OPERATORS = "torch._inductor.config.fallback_random = True"
AS_IN_EAGER = "compiled code draws random numbers by eager's operators, which are not fused with others"


class DrawsOracle(MeasuringOracle):
    """Judges programs by how their random numbers are spread over many runs of both sides."""

    def aim(self, program: Program) -> bool:
        """Whether the program draws otherwise than in eager."""
        return self.apart(program) is not None

    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Whether each of the programs still draws otherwise than in eager. Judged in parallel."""
        return [_apart(outcome) is not None for outcome in self._outcomes(programs)]

    def apart(self, program: Program) -> Apart | None:
        """The figure in which both sides are apart; None if they are not, or if either does not run."""
        (outcome,) = self._outcomes([program])
        return _apart(outcome)

    def is_cured(self, program: Program) -> bool:
        """Whether the program draws as in eager once compiled code draws by eager's operators."""
        (outcome,) = self._outcomes([program], fallback=True)
        return outcome.ending is Ending.SAME and outcome.apart is None

    def _outcomes(self, programs: Sequence[Program], *, fallback: bool = False) -> list[Outcome]:
        requests = [DrawsRequest(**vars(self.trial.request(one)), fallback=fallback) for one in programs]
        return self._measured(requests)


def _apart(outcome: Outcome) -> Apart | None:
    return outcome.apart if outcome.ending is Ending.SAME else None


class DistributionLevel(MeasuredLevel):
    """The search for the smallest part around an operator of the graph ``case``. ``script``: the user's."""

    seen = ALWAYS

    def __init__(self, case: Case, draws: OtherDraws, journal: Journal, *, oracle: Oracle, script: Path) -> None:
        self._draws, self._oracle = draws, DrawsOracle(oracle)
        super().__init__(case, KIND, journal, self._oracle, script)

    def _start(self, whole: Program) -> Program | None:
        """The operator alone, as the survey compiled it: in the whole graph others may cover its draws."""
        places = [index for index, node in enumerate(whole.nodes) if node.name == self._draws.node]
        alone = cut(whole, places[0], places[0] + 1).without_grad() if places else None
        return alone if alone is not None and asserts(alone) else None

    def _stage(self, program: Program) -> Stage:
        return Stage.INDUCTOR

    def _details(self, program: Program) -> Details | None:
        apart = self._oracle.apart(program)
        if apart is None or len(program.outputs) != 1:
            return None
        (outcome,) = self._oracle.trial.judge([program])
        writes = details_of(program, outcome, None).get("writes", [])
        return {"figure": apart.figure, "apart": abs(apart.eager - apart.compiled) / 2, "writes": writes}

    def _workaround(self, program: Program) -> Workaround | None:
        if not self._oracle.is_cured(program):
            return None
        return Workaround(code=EAGERS_OPERATORS, verified=True, where="behind the imports", what=AS_IN_EAGER)


def announce(draws: OtherDraws, known: Fault, journal: Journal) -> Fault:
    """Add the failure to what is known; it stays in the report however the search ends."""
    message = f"Inductor's own {draws.what}"
    failure = Failure(kind=KIND, stage=Stage.INDUCTOR, message=message, signature=Signature(KIND).text)
    return journal.announce(replace(known, failure=failure))

"""An oracle without torch: judges programs by rule, remembers them, and checks that each candidate is well-formed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from toy_programs import well_formed

from minimizer.engine.child.outcome import Difference, Ending, Outcome, Verdict
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.program.model import Program
from minimizer.vocabulary import Kind

Rule = Callable[[Program], bool]


class FakeOracle:
    """Says by rule whether a program fails; counts."""

    def __init__(self, rule: Rule, kind: Kind = Kind.COMPILE_ERROR) -> None:
        self._rule = rule
        self.accepts = (Signature(kind),)
        self.also_seen: Counter[Signature] = Counter()
        self.judged: list[Program] = []
        self.changes: list[dict[str, Any]] = []

    def watch(self) -> None:
        """Nobody stops it."""

    def judge(self, programs: Sequence[Program], **changes: Any) -> list[Outcome]:
        self.judged += programs
        self.changes.append(changes)
        return [self._outcome(program) for program in programs]

    def _outcome(self, program: Program) -> Outcome:
        well_formed(program)
        if not self._rule(program):
            return Outcome(ending=Ending.SAME, verdict=Verdict())
        difference = Difference(where="output[0]", max_abs=0.5, required_atol=0.25, required_rtol=0.125)
        return Outcome(
            ending=Ending.DIFFERENT, verdict=Verdict(fault=True, kind="wrong_output", differences=[difference])
        )

    def shows(self, outcome: Outcome) -> bool:
        return signature_of(outcome) is not None

    def same(self, outcome: Outcome) -> bool:
        signature = signature_of(outcome)
        if signature is not None and not self.shows(outcome):
            self.also_seen[signature] += 1
        return self.shows(outcome)

    def check(self, programs: Sequence[Program]) -> list[bool]:
        return [self.same(outcome) for outcome in self.judge(programs)]


class Wary(FakeOracle):
    """Takes a difference for a fault only where no jump is in sight: behind one nothing can be said."""

    def __init__(self, rule: Rule, *jumps: str) -> None:
        super().__init__(rule, Kind.WRONG_OUTPUT)
        self._jumps = set(jumps)

    def _outcome(self, program: Program) -> Outcome:
        outcome = super()._outcome(program)
        is_clear = not self._jumps & {node.target for node in program.nodes}
        if outcome.ending != "different" or (is_clear or program.size == 1):
            return outcome
        return Outcome(ending=Ending.SAME, verdict=Verdict(discrete=True))

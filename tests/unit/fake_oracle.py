"""An oracle without torch: judges programs by rule, remembers them, and checks that each candidate is well-formed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from minimizer.engine.child.protocol import Difference, Outcome, Verdict
from minimizer.engine.oracle.oracle import Signature, signature_of
from minimizer.engine.program.model import Program, TensorMeta
from minimizer.vocabulary import Kind

META = TensorMeta((4, 4), "torch.float32", (4, 1))
Rule = Callable[[Program], bool]


class FakeOracle:
    """Says by rule whether a program fails; counts."""

    def __init__(self, rule: Rule, kind: Kind = Kind.COMPILE_ERROR) -> None:
        self._rule = rule
        self.accepts = (Signature(kind),)
        self.also_seen: Counter[Signature] = Counter()
        self.judged: list[Program] = []
        self.changes: list[dict[str, Any]] = []

    def judge(self, programs: Sequence[Program], **changes: Any) -> list[Outcome]:
        self.judged += programs
        self.changes.append(changes)
        return [self._outcome(program) for program in programs]

    def _outcome(self, program: Program) -> Outcome:
        well_formed(program)
        if not self._rule(program):
            return Outcome(outcome="same", verdict=Verdict())
        difference = Difference(where="output[0]", max_abs=0.5, required_atol=0.25, required_rtol=0.125)
        return Outcome(outcome="different", verdict=Verdict(fault=True, kind="wrong_output", differences=[difference]))

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
        if outcome.outcome != "different" or (is_clear or program.size == 1):
            return outcome
        return Outcome(outcome="same", verdict=Verdict(discrete=True))


def well_formed(program: Program) -> None:
    """Names are defined once and before their use, and every output exists."""
    defined = {i.name for i in program.inputs}
    assert len(defined) == len(program.inputs)
    for node in program.nodes:
        assert defined.issuperset(node.refs()), f"{node} uses what is not there"
        assert node.name not in defined
        defined.add(node.name)
    assert defined.issuperset(program.outputs)
    assert all((i.golden is None) != (i.code is None) for i in program.inputs)

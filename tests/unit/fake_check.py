"""A reducer's ``check`` without torch: judges programs by toy rules, counts, and checks that each is well-formed and tidy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toy_programs import tidy, well_formed

from minimizer.engine.program.model import Node, Program
from minimizer.errors import BudgetExceeded

Rule = Callable[[Program], bool]


class FakeCheck:
    """A ``check`` for the reducer."""

    def __init__(self, rule: Rule, *, budget: int | None = None) -> None:
        self._rule, self._budget = rule, budget
        self._programs: list[Program] = []
        self.batches: list[int] = []

    def __call__(self, batch: Sequence[Program]) -> list[bool]:
        self.batches.append(len(batch))
        for program in batch:
            well_formed(program)
            tidy(program)
            self._programs.append(program)
        if self._budget is not None and len(self._programs) > self._budget:
            raise BudgetExceeded
        return [self._rule(program) for program in batch]

    @property
    def asked(self) -> list[str]:
        """The fingerprints of all programs that it was asked about, in order."""
        return [program.fingerprint() for program in self._programs]


def no_literal(key: str) -> str | None:
    return None


def has(*targets: str) -> Rule:
    """Fails while the program calls all of these."""
    return lambda program: set(targets) <= {node.target for node in program.nodes}


def flows(*targets: str) -> Rule:
    """Fails while data goes through calls to all of these, in this order, whatever lies between."""

    def rule(program: Program) -> bool:
        passed: dict[str, int] = {}
        for node in program.nodes:
            count = max((passed.get(ref, 0) for ref in node.refs()), default=0)
            passed[node.name] = count + (node.target == targets[count])
            if passed[node.name] == len(targets):
                return True
        return False

    return rule


def meets(join: str, *targets: str) -> Rule:
    """Fails while one call to ``join`` depends on calls to all of these."""

    def rule(program: Program) -> bool:
        before: dict[str, set[str]] = {}
        for node in program.nodes:
            before[node.name] = {node.target}.union(*(before.get(ref, set()) for ref in node.refs()))
            if node.target == join and before[node.name].issuperset(targets):
                return True
        return False

    return rule


def in_a_row(*targets: str) -> Rule:
    """Fails while these calls follow each other, each using the one before."""

    def rule(program: Program) -> bool:
        nodes = {node.name: node for node in program.nodes}

        def ends(node: Node, left: tuple[str, ...]) -> bool:
            if node.target != left[-1]:
                return False
            return len(left) == 1 or any(ends(nodes[r], left[:-1]) for r in node.refs() if r in nodes)

        return any(ends(node, targets) for node in program.nodes)

    return rule


def both(*rules: Rule) -> Rule:
    return lambda program: all(rule(program) for rule in rules)

"""What two findings must share to count as the same, and which one is the costliest."""

from __future__ import annotations

import pytest

from minimizer.engine.advice.asked import causes_of, trait
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.vocabulary import Kind

LINE = StackLine(file="train.py", line=12, code="step(x)", function="forward")
UNRESOLVED = "Unresolved comparison\n  Explanation: Cannot compare `{name}` with {number} because it is unknown."


def of_break(reason: str, line: int = 12, passes: int = 0) -> Break:
    return Break(reason=reason, stack=[LINE.model_copy(update={"line": line})], function="forward", passes=passes)


def of_guards(*guards: str) -> list[Recompile]:
    said = (f"0/{number}: {guard}" for number, guard in enumerate(guards))
    return [Recompile(function="step", frame="0", guard=guard, stack=[LINE], seconds=1.0) for guard in said]


def of_values(guard: str, *values: str) -> list[Recompile]:
    return of_guards(*(f"{guard} == {value}  # self.count += 1" for value in values))


def sizes(name: str, index: int) -> list[Recompile]:
    told = f"tensor '{name}' size mismatch at index {index}. expected {{}}, actual {{}}"
    return of_guards(*(told.format(size, size + 1) for size in (3, 4, 5)))


def trait_of(found: Break | list[Recompile]) -> str:
    is_break = isinstance(found, Break)
    kind = Kind.GRAPH_BREAK if is_break else Kind.RECOMPILES
    (cause,) = causes_of(kind, [found] if isinstance(found, Break) else [], [] if isinstance(found, Break) else found)
    return trait(cause)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of_break("Data-dependent branching\n  Explanation: `x`"), of_break("generic_jump TensorVariable()")),
        (of_break(UNRESOLVED.format(name="a", number=3)), of_break(UNRESOLVED.format(name="model", number=12))),
        (sizes("tokens", 1), sizes("x", 0)),
        (of_values("L['self'].count", "1", "2", "3"), of_values("L['net'].updates", "4", "5", "6")),
        (of_values("len(L['states'])", "1", "2", "3"), of_values("len(L['x'])", "0", "1", "2")),
        (of_values("self._modules['accuracy'].updates", "1", "2", "3"), of_values("L['self'].n", "4", "5", "6")),
        (
            of_guards("list(dict.keys(a))[0] == 'x'", "len(a) != 1", "len(a) != 2"),
            of_guards("len(controls) != 3", "list(dict.keys(controls))[1] == 'pose'", "len(controls) != 2"),
        ),
        (
            of_guards("not self.history", "len(self.history) == 1", "len(self.history) == 2"),
            of_values("len(self.past)", "4", "5", "6"),
        ),
        (
            of_guards(*(f"___check_obj_id(task, {number}), type=<class 'a.Task'>" for number in (71, 72, 73))),
            of_guards(*(f"___check_obj_id(mode, {number}), type=<class 'b.M'>" for number in (1, 2, 3))),
        ),
        (
            of_values("(0.9*fn.momentum)", "0.4", "0.3", "0.2"),
            of_values("(2*net._modules['1'].m)", "1.5", "2.5", "3.5"),
        ),
    ],
)
def test_names_and_numbers_do_not_matter(one: Break | list[Recompile], other: Break | list[Recompile]) -> None:
    assert trait_of(one) == trait_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of_break("generic_jump TensorVariable()"), of_break("logging.Logger method not supported")),
        (of_break(UNRESOLVED.format(name="a", number=3)), of_break(UNRESOLVED.replace("compare", "hash"))),
        (sizes("x", 0), of_values("L['x']", "1", "2", "3")),
        (of_values("L['self'].count", "1", "2", "3"), of_values("L['count']", "1", "2", "3")),
        (of_values("L['self'].scale", "1.5", "2.5", "3.5"), of_values("L['self'].scale", "1", "2", "3")),
        (of_values("len(L['states'])", "1", "2", "3"), of_values("L['states'][0]", "1", "2", "3")),
        (
            of_guards("list(dict.keys(a))[0] == 'x'", "len(a) != 1", "len(a) != 2"),
            of_values("len(a)", "1", "2", "3"),
        ),
    ],
)
def test_another_reason_or_guard_is_another_finding(
    one: Break | list[Recompile], other: Break | list[Recompile]
) -> None:
    assert trait_of(one) != trait_of(other)


def test_the_costliest_break_is_the_one_that_is_passed_most() -> None:
    broken = [of_break("generic_jump", 3, passes=2), of_break("logging.Logger", 9, passes=40)]
    assert [cause.place.line for cause in causes_of(Kind.GRAPH_BREAK, broken, []) if cause.place] == [9, 3]


def test_a_finding_of_another_kind_was_not_asked_for() -> None:
    assert not causes_of(Kind.GRAPH_BREAK, [], sizes("x", 0))
    assert not causes_of(Kind.RECOMPILES, [of_break("generic_jump")], sizes("x", 0)[:2])  # as dynamic shapes take

"""The set-wise search, without torch: an oracle that knows the truth answers for every setting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from minimizer.engine.diagnose.sets import Answer, Asker, Blame, Parts, Seen, Setting, blame, flips, kind_of, smallest

PASSES = ("joint_graph_passes", "post_grad_passes")
PARTS = [f"{kind}/p{number}" for kind in PASSES for number in range(8)]
Truth = Callable[[Parts], bool]
"""Whether the failure shows with these parts on."""


class Compiler:
    """A compiler of ``parts``; without those that are ``vital`` it breaks in another way."""

    def __init__(self, fails: Truth, parts: Collection[str] = PARTS, vital: Collection[str] = ()) -> None:
        self._fails, self._parts, self._vital = fails, tuple(parts), Parts(vital)

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        return [self._one(setting) for setting in settings]

    def _one(self, setting: Setting) -> Seen:
        only = dict(setting.only)
        on = {p for p in self._parts if p not in setting.off and p in only.get(kind_of(p), self._parts)}
        if self._vital - on:
            return Seen(Answer.OTHER, dict.fromkeys(on, True))
        return Seen(Answer.FAILS if self._fails(Parts(on)) else Answer.PASSES, {p: p in on for p in self._parts})


@given(st.sets(st.sampled_from(PARTS), min_size=1, max_size=3))
def test_parts_of_which_each_is_enough_are_all_blamed(causes: set[str]) -> None:
    (found,) = blame(Asker(Compiler(lambda on: bool(on & causes))), [PASSES])

    assert found == Blame(tuple(sorted(causes)), any_of=len(causes) > 1, confirmed=True)


@given(st.sets(st.sampled_from(PARTS), min_size=1, max_size=3))
def test_parts_that_fail_together_are_all_blamed(causes: set[str]) -> None:
    (found,) = blame(Asker(Compiler(lambda on: on >= causes)), [PASSES])

    assert found == Blame(tuple(sorted(causes)), any_of=False, confirmed=True)


def test_a_part_that_only_acts_once_another_is_off_is_found_in_few_runs() -> None:
    """As `remove_noop_ops` does after the joint graph was rid of no-ops already (#198131)."""
    first, second = "joint_graph_passes/remove_noop_ops", "post_grad_passes/remove_noop_ops"
    others = [f"post_grad_passes/other{number}" for number in range(30)]

    def compiler(settings: Sequence[Setting]) -> list[Seen]:
        seen = []
        for setting in settings:
            only = dict(setting.only)
            on = [p for p in (first, second) if p not in setting.off and p in only.get(kind_of(p), (p,))]
            acted = {**dict.fromkeys(others, False), first: first in on, second: on == [second]}
            seen.append(Seen(Answer.FAILS if on else Answer.PASSES, acted))
        return seen

    asker = Asker(compiler)

    assert blame(asker, [PASSES]) == [Blame((first, second), any_of=True, confirmed=True)]
    assert asker.runs <= 10


def test_nothing_is_blamed_where_the_failure_stays() -> None:
    assert blame(Asker(Compiler(lambda on: True)), [PASSES]) == []


def test_nothing_is_blamed_where_there_is_no_failure() -> None:
    asker = Asker(Compiler(lambda on: False))

    assert blame(asker, [PASSES]) == []
    assert asker.runs == 1


@given(st.sampled_from(PARTS), st.sets(st.sampled_from(PARTS), max_size=4))
def test_what_the_compiler_cannot_do_without_is_left_on(cause: str, vital: set[str]) -> None:
    found = blame(Asker(Compiler(lambda on: cause in on, vital=vital - {cause})), [PASSES])

    assert found == [Blame((cause,), any_of=False, confirmed=True)]


def test_groups_are_searched_one_by_one() -> None:
    parts = ["lowerings/a", "lowerings/b", "fusion/a+b"]
    found = blame(Asker(Compiler(lambda on: {"lowerings/a", "fusion/a+b"} <= on, parts)), [("fusion",), ("lowerings",)])

    assert [one.parts for one in found] == [("fusion/a+b",), ("lowerings/a",)]


class Flaky:
    """Answers "fails" for what should fail, but in ``rhythm`` only."""

    def __init__(self, compiler: Compiler, rhythm: Sequence[bool]) -> None:
        self._compiler, self._rhythm = compiler, itertools.cycle(rhythm)

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        return [
            Seen(Answer.PASSES, one.parts) if one.answer is Answer.FAILS and not next(self._rhythm) else one
            for one in self._compiler(settings)
        ]


@given(st.sampled_from(PARTS), st.permutations([True, False, False]))
def test_trap_15_a_failure_that_does_not_always_show_is_asked_for_again(cause: str, rhythm: list[bool]) -> None:
    compiler = Flaky(Compiler(lambda on: cause in on), rhythm)

    (found,) = blame(Asker(compiler, repeats=6), [PASSES])

    assert found == Blame((cause,), any_of=False, confirmed=True)


def test_the_same_setting_is_asked_once() -> None:
    asker = Asker(Compiler(lambda on: True))

    asker.all([Setting(), Setting(off=Parts(["x"])), Setting()])
    asker.one(Setting())

    assert asker.runs == 2


@given(st.sets(st.integers(0, 20).map(str), min_size=1), st.data())
def test_smallest_gives_a_set_of_which_nothing_can_be_left_out(whole: set[str], data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.sampled_from(sorted(whole)), min_size=1))

    assert smallest(Parts(whole), lambda sets: [needed <= one for one in sets]) == needed


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_each_line_that_mends_is_found_among_groups(sizes: list[int], data: st.DataObject) -> None:
    count = itertools.count()
    groups = [tuple(f"k{next(count)}" for _ in range(size)) for size in sizes]
    lines = [line for group in groups for line in group]
    mending = data.draw(st.sets(st.sampled_from(lines)))

    def ask(settings: Sequence[Setting]) -> list[Seen]:
        return [Seen(Answer.PASSES if mending & set(s.lines) else Answer.FAILS) for s in settings]

    told: dict[str, Answer] = {}
    flips(Asker(ask), groups, told.__setitem__)

    assert told == {line: Answer.PASSES if line in mending else Answer.FAILS for line in lines}


def test_a_sweep_that_mends_nothing_costs_one_run_a_group() -> None:
    asker = Asker(lambda settings: [Seen(Answer.FAILS) for _ in settings])

    flips(asker, [("a", "b", "c"), ("d", "e")], lambda line, answer: None)

    assert asker.runs == 2


def test_a_line_that_breaks_something_else_does_not_hide_its_neighbours() -> None:
    def ask(settings: Sequence[Setting]) -> list[Seen]:
        return [
            Seen(Answer.OTHER if "breaks" in s.lines else Answer.PASSES if "mends" in s.lines else Answer.FAILS)
            for s in settings
        ]

    told: dict[str, Answer] = {}
    flips(Asker(ask), [("a", "breaks", "mends", "b")], told.__setitem__)

    assert told == {"a": Answer.FAILS, "breaks": Answer.OTHER, "mends": Answer.PASSES, "b": Answer.FAILS}


def test_what_only_fails_with_one_of_two_others_is_not_confirmed_alone() -> None:
    """``first and (second or third)``: with only the first on the failure does not come."""
    first, second, third = sorted(PARTS)[:3]
    (found,) = blame(Asker(Compiler(lambda on: first in on and bool(on & {second, third}))), [PASSES])

    assert found == Blame((first,), any_of=False, confirmed=False)

"""Guard failures as torch 2.14 words them: what each looks at, which of them are a finding together, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.engine.advice.guards import changed, guard_of, subject_of
from minimizer.engine.advice.rules import causes
from minimizer.engine.child.compilations import Recompile, StackLine
from minimizer.engine.child.protocol import Health

NONE = "expected type of '{}' to be <class 'torch.Tensor'>, but found <class 'NoneType'>"
SIZE = "tensor 'x' size mismatch at index {}. expected {}, actual {}"
MEMBER = "___check_obj_id(task, {}), type=<class '__main__.Task'>  # x = self.body(x)  # train.py:25 in forward"


def recompiled(*guards: str, **changes: Any) -> list[Recompile]:
    said = (f"0/{number}: {guard}" for number, guard in enumerate(guards))
    return [
        Recompile(**({"function": "forward", "frame": "0", "guard": one, "seconds": 1.0} | changes)) for one in said
    ]


def told(*guards: str) -> str:
    """The sentence of the only finding on recompiles by these guards; empty if there is none."""
    found = [cause.finding for cause in causes(Health(recompiled=recompiled(*guards)), "", "train.py")]
    assert len(found) < 2
    return found[0].what if found else ""


@pytest.mark.parametrize(
    ("guard", "subject"),
    [
        ("list(dict.keys(controls))[0] == 'depth'  # for kind, signal in controls.items():", "controls"),
        ("___dict_contains('depth', L['controls'])", "L['controls']"),
        ("len(controls) != 1", "controls"),
        ("not self.alignments  # self.alignments.append(weights)", "self.alignments"),
        ("bias is None  # if bias is not None:", "bias"),
        (NONE.format("bias"), "bias"),
        (MEMBER.format(140171811574416), "task"),
        ("mask.__defaults__[0] == 1  # y = attend(x, lambda", "mask"),
        ("start == 3  # for place in range(start, end):  # train.py:15 in forward", "start"),
        ("2 <= n", "n"),
        ("t <= 0.5  # return x + 1 if t > 0.5 else x", "t"),
        ("G['STEP'] == 1  # return x + STEP", "G['STEP']"),
        ("self._modules['rotation'].base == 10.0", "self._modules['rotation'].base"),
        ("(0.9*fn.momentum) == 0.4", "(0.9*fn.momentum)"),
        (SIZE.format(1, 3, 4), "tensor 'x' size mismatch at index 1"),
        ("Eq(Mod(n, 10), 0)", "Eq(Mod(n, #), #)"),
    ],
)
def test_a_guard_looks_at_an_expression(guard: str, subject: str) -> None:
    assert subject_of(f"0/3: {guard}") == subject


KEYS = [
    "list(dict.keys(controls))[0] == 'depth'",
    "len(controls) != 1",
    "len(controls) != 2",
    "len(controls) != 1",
]
GROWING = ["not self.history", "len(self.history) == 1", "len(self.history) == 2"]
CLOSURES = [f"mask.__closure__[0].cell_contents == {n}" for n in (1, 2, 3)]
NUMBERS = ["end == 6", *(f"start == {n}" for n in (3, 4, 5))]
CONFIG = ["config.mode == 'a'", "config.scale == 2", "config.mode == 'b'"]
FIELDS = [f"batch.{name} is None" for name in ("mask", "labels", "weights", "bias", "scale")]
TYPES = [f"___check_type_id(L['x'], {n}), type=<class '{name}'>" for n, name in enumerate(("int", "float", "str"))]
ABSENT = ["bias is None", NONE.format("bias"), "mask is None", NONE.format("bias"), "bias is None"]


@pytest.mark.parametrize(
    ("guards", "words"),
    [
        (KEYS, "compiled again 4 times, since the keys of `controls` change (guards that failed: `list(dict.keys("),
        (GROWING, "compiled again 3 times, since the length of `self.history` changes (guards that failed: `not self."),
        (
            [*GROWING[1:], "len(self.history) == 3"],
            "since the length of `self.history` changes (1, 2, 3). Not tried: a",
        ),
        (
            CLOSURES,
            "since the function `mask` is another one, or carries other values (1, 2, 3). Not tried: one function",
        ),
        (
            [MEMBER.format(n) for n in (1, 2, 3)],
            "since `task` is another object of `Task` for each version. Not tried:",
        ),
        (NUMBERS, "compiled again 4 times, since `start` changes (3, 4, 5) and `end` changes (6)."),
        (
            [*CONFIG, "config.mode == 'c'"],
            "since `config` changes (guards that failed: `config.mode == 'a'`, `config.scale",
        ),
        (FIELDS, "since `batch` changes (guards that failed: `batch.mask is None`, `batch.labels is None`"),
        (TYPES, "since the type of `L['x']` changes"),
        (ABSENT, "compiled again 5 times, since `bias` is None in some calls only (guards"),
        ([f"___stack0 == {n}" for n in (1, 2, 3)], "a Python value changes that the part before a graph"),
        (
            [f"self._modules['layers']._modules['0'].n == {n}" for n in (1, 2, 3)],
            "since `self.layers[0].n` changes (1,",
        ),
    ],
)
def test_guards_on_one_thing_are_one_finding(guards: list[str], words: str) -> None:
    assert words in told(*guards)


@pytest.mark.parametrize(
    "guards",
    [
        KEYS[:2],
        ["bias is None", NONE.format("bias")] * 2,
        ["self.training == True", "tensor 'x' requires_grad mismatch. expected requires_grad=0", "GLOBAL_STATE changed"]
        * 3,
        [SIZE.format(0, 8, 16), SIZE.format(1, 3, 4), "2 <= x.size()[0]", "tensor 'y' stride mismatch at index 0. expected 2, actual 8"]
        * 2,
        ["a == 1", "b == 1", "c == 1", "d == 1"],
        ["config.a == True", "config.b == True", "config.mask is None"],
        CONFIG,
    ],
    ids=[
        "two sets of keys", "one argument that may be None", "switches", "sizes and strides", "four switches",
        "switches of one object", "two settings of one object",
    ],
)  # fmt: skip
def test_guards_that_fail_in_a_healthy_program_are_none(guards: list[str]) -> None:
    assert not told(*guards)


def test_guards_of_other_functions_do_not_count_together() -> None:
    apart = [one for frame, guard in enumerate(KEYS) for one in recompiled(guard, frame=str(frame), line=frame)]
    assert not causes(Health(recompiled=apart), "", "train.py")


def test_the_line_of_any_guard_is_that_of_the_finding() -> None:
    made = StackLine(file="train.py", line=15, code="for place in range(start, end):")
    found = [*recompiled(*NUMBERS[1:]), *recompiled(NUMBERS[0], made_by=[made])]
    (cause,) = causes(Health(recompiled=found), "", "train.py")
    assert cause.finding.source is not None and cause.finding.source.line == 15


def test_the_seconds_are_those_of_all() -> None:
    (cause,) = causes(Health(recompiled=recompiled(*KEYS)), "", "train.py")
    assert cause.finding.cost is not None and cause.finding.cost.value == 4.0


def test_what_reached_the_limit_is_told_whatever_failed() -> None:
    assert [one.subject for one in changed(recompiled("a == 1", "b == 1"), is_refused=True)] == ["a", "b"]
    assert not changed(recompiled("a == 1", "b == 1"), is_refused=False)


def test_a_guard_without_its_value_is_equal_if_the_same_thing_changes_again() -> None:
    assert guard_of(f"0/0: {SIZE.format(1, 3, 4)}") == guard_of(f"0/7: {SIZE.format(1, 9, 2)}")

"""How a fault came about, the line that is at fault, and what is said of it."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

import pytest

from minimizer.engine.between import words
from minimizer.engine.between.answer import Found
from minimizer.engine.between.culprit import broken_promise, culprit_line
from minimizer.engine.between.difference import Change, Difference
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.mechanism import HOOKS, makes_extra_change, mechanism_of
from minimizer.engine.between.noise import Noise
from minimizer.engine.child.exact_log import Entry, ExactLog, Look
from minimizer.inside.questions import Conditions, Plan
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind


class Runs:
    """Runs that are cured by certain changes."""

    def __init__(self, *cures: str) -> None:
        self._cures = cures

    def cures(self, text: str, found: Found, plan: Plan) -> bool:
        shows = {"config": plan.config == HOOKS, "regions": not plan.regions, "reset": plan.reset is not None}
        return any(shows[name] for name in self._cures)


def found(
    *changes: Change, event: str = "call exit", is_reused: bool = False, is_cured: bool = True, moves: bool = False
) -> Found:
    look = Look(event=event, unit=2, number=2, full=True)
    full = [
        Look(event="call entry", unit=2, number=2, full=True, changed={"box": {"type": "list", "items": "[]"}}),
        Look(
            event="call exit",
            unit=2,
            number=2,
            full=True,
            changed={"box": {"type": "list", "items": "[1]"}} if moves else {},
        ),
    ]
    log = ExactLog(looks=full, calls=2)
    difference = Difference(look, changes, None, index=1)
    return Found(difference, 2, 2, log, log, Noise(), is_cured_by_reset=is_reused and is_cured, is_reused=is_reused)


def item(path: str, eager: Entry, compiled: Entry, kind: str) -> Change:
    return Change(path, {"type": kind, **eager}, {"type": kind, **compiled})


def test_a_change_that_eager_does_not_make_is_not_called_lost() -> None:
    def told(moves: bool) -> str:
        box = item("box", {"items": "[1]" if moves else "[]"}, {"items": "[]" if moves else "[1]"}, "list")
        shown = found(box, moves=moves)
        failure = Failure(
            kind=Kind.WRONG_OUTPUT,
            mechanism="lost_mutation",
            object="box",
            extra_change=makes_extra_change(shown),
        )
        return words.what(failure)

    assert told(moves=True) == "a change of box that is lost"
    assert told(moves=False) == "a change of box that only compiled code makes"


SUBCLASS = """
import torch
class Logged(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        {dispatch}
        return func(*args, **kwargs)
    def __tensor_flatten__(self):
        {flatten}
        return ["inner"], None
    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        {unflatten}
        return Logged(parts["inner"])
"""
RESULT = item("result", {"values": "[1.0]"}, {"values": "[2.0]"}, "Tensor")
LOST = item("log", {"items": "[1]", "length": "1"}, {"items": "[]", "length": "0"}, "list")
MOVED = item("order", {"keys": "['b', 'a']"}, {"keys": "['a', 'b']"}, "OrderedDict")
MODE = item("torch.is_grad_enabled()", {"value": "True"}, {"value": "False"}, "process")
SHORT = item("result", {"shape": "[2]", "values": "[1.0, 2.0]"}, {"shape": "[1]", "values": "[1.0]"}, "Tensor")
SLOPE = Change("result[0]", {"type": "Tensor", "values": "[1.0]"}, {"type": "NoneType", "value": "None"})
COUNTED = item("update.calls", {"value": "2"}, {"value": "1"}, "int")
REBOUND = item("model.current", {"alias": "model.slow"}, {"alias": "model.fast"}, "alias")
RAISED = item("raised", {"value": ""}, {"value": "IndexError"}, "exception")
DRAWN = item("rng", {"state": "a"}, {"state": "b"}, "Random")


@pytest.mark.parametrize(
    ("one", "cures", "text", "mechanism"),
    [
        (found(LOST), (), "", "lost_mutation"),
        (found(LOST, is_reused=True), (), "", "lost_mutation"),
        (found(LOST, is_reused=True), ("config",), "", "missed_hook"),
        (found(RESULT, is_reused=True), (), "", "stale_guard"),
        (found(REBOUND, RESULT, is_reused=True), (), "", "stale_guard"),
        (found(REBOUND, is_reused=True), (), "", "lost_mutation"),
        (found(LOST, RESULT, is_reused=True), (), "", "lost_mutation"),
        (found(COUNTED, RESULT, is_reused=True), (), "", "lost_mutation"),
        (found(RESULT, is_reused=True, is_cured=False), (), "", "wrong_constant"),
        (found(RESULT, DRAWN, is_reused=True), (), "", "stale_guard"),
        (found(RESULT), (), "", "wrong_constant"),
        (found(RESULT, moves=True), (), "", "lost_mutation"),
        (found(RESULT), ("regions",), "nested_compile_region", "stale_guard"),
        (found(MODE), (), "", "leaked_state"),
        (found(RAISED, LOST), (), "", "skipped_handler"),
        (found(RESULT, event="backward exit"), (), "", "late_read"),
        (found(LOST, event="backward exit"), (), "", "lost_mutation"),
        (found(SLOPE, event="backward exit"), (), "", "late_read"),
        (replace(found(SLOPE, event="backward exit"), conditions=Conditions(aot=True)), (), "", "lost_gradient"),
        (replace(found(RESULT, event="backward exit"), conditions=Conditions(aot=True)), (), "", "late_read"),
        (found(MOVED), (), "", "wrong_order"),
    ],
)  # fmt: skip
def test_the_mechanism_is_what_experiments_show(one: Found, cures: tuple[str, ...], text: str, mechanism: str) -> None:
    assert mechanism_of(one, cast(ExactRuns, Runs(*cures)), text) == mechanism


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("def f(d, x):\n    y = x\n    d.entries.move_to_end(1)\n    return y", "cache.entries", 3),
        ("def f(x):\n    h.n += 1\n    return x", "h.n", 2),
        ("@torch.compile\ndef f(x):\n    return x + int(os.getenv('K'))", "what the call returns", 3),
        ("def make():\n    log, n = [], 1\n    def f(x):\n        log.append(x)\n    return f", "log", 4),
        ("def g(x):\n    pass\n@torch.compile\ndef f(x):\n    return x", "what the call returns", 5),
        (
            "class C:\n  def __init__(self, n, log=[]):\n    self.n = n\n    log.append(n)",
            "C.__init__.__defaults__[0]",
            4,
        ),
        ("@torch.compile\ndef f(x):\n    return (\n        g(x)\n    )", "what the call returns", 4),
        ("x = 1", "x", None),
    ],
)
def test_the_line_at_fault(text: str, what: str, line: int | None) -> None:
    assert culprit_line(ast.parse(text), what) == line


@pytest.mark.parametrize(
    ("text", "promise"),
    [
        (
            "import torch\n@torch._dynamo.assume_constant_result\ndef f():\n    return 1",
            ("torch._dynamo.assume_constant_result", 2),
        ),
        (
            "from torch import compiler\n@compiler.substitute_in_graph(len)\ndef f(x):\n    return 1",
            ("torch.compiler.substitute_in_graph", 2),
        ),
        ("import torch\n@torch.compile\ndef f(x):\n    return x", None),
        ("@allow_in_graph\ndef f(x):\n    return x", None),
    ],
)
def test_a_promise_of_the_script_is_at_fault(text: str, promise: tuple[str, int] | None) -> None:
    assert broken_promise(ast.parse(text)) == promise


def test_what_a_container_lacks_is_nearer_to_the_cause_than_what_is_computed_from_it() -> None:
    count = item("c.n", {"value": "1"}, {"value": "0"}, "int")
    lost = item("C.__init__.__defaults__[0]", {"length": "1"}, {"length": "0"}, "list")
    assert found(count, lost).difference.first is lost


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (LOST, Kind.WRONG_OUTPUT),
        (RAISED, Kind.RUNTIME_ERROR),
        (item("raised", {"value": "IndexError"}, {"value": ""}, "exception"), Kind.MISSING_ERROR),
        (item("x.grad", {"values": "[1.0]"}, {"values": "[2.0]"}, "Tensor"), Kind.WRONG_GRADIENT),
        (item("result", {"dtype": "torch.int64"}, {"dtype": "torch.float32"}, "Tensor"), Kind.WRONG_METADATA),
        (SHORT, Kind.WRONG_METADATA),
    ],
)
def test_the_kind_of_failure(change: Change, kind: Kind) -> None:
    assert words.kind_of(found(change).difference) is kind


def test_the_message_has_both_sides() -> None:
    assert words.message(found(LOST)) == "After call 2 the list log has 1 entry in eager, 0 compiled."
    assert words.message(found(MODE, LOST)).startswith("After call 2 the list log")
    assert words.message(found(MOVED)) == "After call 2, order: ['b', 'a'] in eager, ['a', 'b'] compiled."
    assert words.message(found(SHORT)) == (
        "After call 2, what the call returns: shape [2] in eager, shape [1] compiled."
    )
    assert words.message(found(RAISED)) == (
        "After call 2, the exception that the call raises: no exception in eager, IndexError compiled."
    )


def test_both_runs_stand_side_by_side_up_to_where_they_part() -> None:
    empty, full = {"type": "list", "items": "[]", "length": "0"}, {"type": "list", "items": "[1]", "length": "1"}
    moments = [("call entry", 1), ("call exit", 1), ("call entry", 2), ("call exit", 2)]

    def log(*states: Entry) -> ExactLog:
        looks = [
            Look(event=event, unit=unit, number=unit, full=True, changed={"log": state})
            for (event, unit), state in zip(moments, states, strict=True)
        ]
        return ExactLog(looks=looks, calls=2)

    eager, compiled = log(empty, empty, empty, full), log(empty, empty, empty, empty)
    look = compiled.looks[-1]
    difference = Difference(look, (Change("log", full, empty),), None, index=3)
    rows = words.observed(Found(difference, 2, 2, eager, compiled, Noise()), lambda look: look.line)
    assert [(row.when, row.eager, row.compiled) for row in rows] == [
        ("before call 1", "[]", "[]"),
        ("after call 2", "[1]", "[]"),
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("cache.entries", "cache.entries"),
        ("f.__wrapped__.calls", "f.calls"),
        ("main.<locals>.log", "log"),
        ("result[0]", "what the call returns[0]"),
        ("raised", "the exception that the call raises"),
    ],
)
def test_objects_have_names_that_a_reader_knows(path: str, name: str) -> None:
    assert words.object_of(item(path, {"value": "1"}, {"value": "2"}, "int")) == name


def test_a_missing_guard_reads_well_behind_for() -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, mechanism="stale_guard", object=words.object_of(RESULT))
    said = f"computes wrong values for {words.what(failure)}"
    assert said == (
        "computes wrong values for a call that reuses stale compiled code because a guard is missing (what the call returns)"
    )


def test_items_that_no_python_has_are_no_reordered_ones() -> None:
    """What a script's process says of its containers need not be the text of one."""
    for text in ("{[]: 1}", "[", "- - 1", "no"):
        change = item("box", {"items": text}, {"items": "[1]"}, "dict")
        assert mechanism_of(found(change), cast(ExactRuns, Runs()), "") == "lost_mutation"

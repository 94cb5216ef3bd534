"""How a graph is cut into the rows of the table of layers, and what a row's verdict is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from toy_programs import META

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.measure.layer_table import MOST_LAYERS, Row, Table, _doubts, _with_known, modules, tabulate
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.sequential import SequentialTest
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program
from minimizer.engine.program.regions import Region
from minimizer.inside.questions import TrialRequest
from minimizer.report.culprit import Layer
from minimizer.vocabulary import Kind


def nodes(*paths: str) -> list[Node]:
    return [Node(f"v{i}", "torch.relu", (Ref("x"),), module=path) for i, path in enumerate(paths)]


def test_every_run_of_a_module_is_a_row() -> None:
    rows = modules(nodes("blocks.0.norm", "blocks.0.norm", "blocks.0", "blocks.0.up", "blocks.0", "head"))
    assert [(row.start, row.stop, row.path) for row in rows] == [
        (0, 2, "blocks.0.norm"), (2, 3, "blocks.0"), (3, 4, "blocks.0.up"), (4, 5, "blocks.0"), (5, 6, "head"),
    ]  # fmt: skip


def test_too_many_modules_are_taken_together_by_what_they_are_in() -> None:
    paths = [f"blocks.{block}.part.{part}" for block in range(MOST_LAYERS // 2) for part in range(3)]
    rows = modules(nodes(*paths))
    assert [row.path for row in rows] == [f"blocks.{block}.part" for block in range(MOST_LAYERS // 2)]
    flat = modules(nodes(*(f"m{index}" for index in range(MOST_LAYERS + 1))))
    assert [(row.start, row.stop) for row in flat] == [(0, MOST_LAYERS + 1)]


SAME, WRONG = (
    Outcome(ending=Ending.SAME),
    Outcome(ending=Ending.DIFFERENT, verdict={"fault": True, "kind": "wrong_output"}),
)  # type: ignore[arg-type]
LOST, DIED = Outcome(ending=Ending.NONDETERMINISTIC), Outcome(ending=Ending.CRASH, signal=11, phase="compiled")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"local": SAME, "whole": SAME}, "good"),
        ({"local": SAME, "whole": WRONG}, "propagated"),
        ({"local": SAME}, "good"),
        ({"local": WRONG, "whole": SAME}, "bad"),
        ({"local": DIED}, "bad"),
        ({"local": LOST, "whole": SAME}, "unknown"),
        ({"whole": WRONG}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_verdict_of_a_row(found: dict[str, Outcome], verdict: str) -> None:
    assert Row(Region(0, 1), found).verdict() == verdict


@pytest.mark.parametrize(
    ("forward", "backward", "fails"),
    [(SAME, WRONG, True), (SAME, SAME, False), (WRONG, WRONG, False), (SAME, LOST, False)],
)
def test_a_backward_that_is_wrong_behind_a_right_forward(forward: Outcome, backward: Outcome, fails: bool) -> None:
    row = Row(Region(0, 1), {"local": forward, "whole": WRONG, "local backward": backward})
    assert row.fails_only_backward == fails


# what is said of a table ----------------------------------------------------------------------------------------------

GRADIENT = (Kind.WRONG_GRADIENT, Kind.WRONG_OUTPUT)  # as the search accepts them
UNSET, BROKEN = Outcome(ending=Ending.SETUP_ERROR), Outcome(ending=Ending.COMPILE_ERROR)


def two_layers(*, grad: bool) -> Program:
    meta = META.__class__(META.shape, META.dtype, META.stride, requires_grad=grad)
    nodes = (
        Node("p", "torch.sin", (Ref("x"),), meta=META, module="a"),
        Node("q", "torch.cos", (Ref("p"),), meta=META, module="b"),
    )
    return Program((Input("x", meta, code="torch.ones(4, 4)"),), nodes, ("q",), grad=grad)


def oracle(*kinds: Kind, flaky: bool = False, answers: list[Outcome] | None = None) -> Oracle:
    """Accepts failures of these kinds; its child gives these answers."""
    fake: Any = SimpleNamespace(
        accepts=tuple(Signature(kind) for kind in kinds),
        sequential=SequentialTest(0.5) if flaky else None,
        watch=lambda: None,
        request=lambda _: TrialRequest(setup="", source="", name="f", inputs=[]),
        executor=SimpleNamespace(repeat=lambda *_, **__: [answers]),
    )
    return cast(Oracle, fake)


def end(part: str, outcome: Outcome) -> Outcome:
    return outcome.model_copy(update={"layer": -1, "part": part})


@pytest.mark.parametrize(
    ("kinds", "forward", "backward", "observed"),
    [
        (GRADIENT, SAME, WRONG, True),
        (GRADIENT, SAME, SAME, False),
        (GRADIENT, SAME, None, None),
        (GRADIENT, SAME, UNSET, None),
        (GRADIENT, SAME, Outcome(ending=Ending.EAGER_ERROR), None),
        ((Kind.WRONG_OUTPUT,), SAME, WRONG, False),  # that backward is one of a graph whose layers were not returned
        ((Kind.WRONG_OUTPUT,), WRONG, None, True),
        ((Kind.COMPILE_ERROR,), SAME, BROKEN, True),
        ((Kind.COMPILE_ERROR,), BROKEN, None, True),
        ((Kind.COMPILE_ERROR,), SAME, None, None),
        ((Kind.COMPILE_ERROR,), SAME, SAME, False),
    ],
)
def test_a_failure_is_observed_in_the_phase_that_it_shows_in(
    kinds: tuple[Kind, ...], forward: Outcome, backward: Outcome | None, observed: bool | None
) -> None:
    answers = [end("whole", forward), *([end("whole backward", backward)] if backward is not None else [])]
    table = tabulate(two_layers(grad=True), oracle(*kinds, answers=answers), seconds=60.0)
    assert table is not None
    assert table.observed is observed


def test_the_gradients_of_a_joint_graph_are_what_it_returns() -> None:
    table = tabulate(two_layers(grad=False), oracle(*GRADIENT, answers=[end("whole", WRONG)]), seconds=60.0)
    assert table is not None
    assert table.observed is True


def doubts(
    *rows: dict[str, Outcome], kind: Kind, culprit: str = "pq", observed: bool | None = True, flaky: bool = False
) -> list[str]:
    """Of a table of two layers that have been found so."""
    table = Table(tuple(Row(Region(i, i + 1, "ab"[i]), found) for i, found in enumerate(rows)), observed)
    accepted = oracle(kind, flaky=flaky)
    return list(_doubts(table, two_layers(grad=True), list(culprit), accepted))


RIGHT = {"local": SAME, "whole": SAME}
RIGHT_BOTH = {**RIGHT, "local backward": SAME}


def test_layers_that_are_right_alone_are_said_to_be() -> None:
    assert doubts(RIGHT, {}, kind=Kind.WRONG_OUTPUT, culprit="p") == [
        "Compiled alone, a is right: the failure needs what is around it."
    ]
    assert doubts(RIGHT_BOTH, RIGHT_BOTH, kind=Kind.WRONG_GRADIENT) == [
        "None of a, b is wrong when compiled alone: the failure needs them together."
    ]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ((RIGHT, {}), Kind.WRONG_OUTPUT),
        ((RIGHT, {"local": LOST, "whole": SAME}), Kind.WRONG_OUTPUT),
        ((RIGHT, RIGHT), Kind.WRONG_GRADIENT),
        ((RIGHT_BOTH, RIGHT), Kind.WRONG_GRADIENT),
        ((RIGHT, RIGHT), Kind.COMPILE_ERROR),  # which may be one of the backward
        ((RIGHT, {"local": WRONG}), Kind.WRONG_OUTPUT),
    ],
)
def test_nothing_is_right_that_was_not_judged_where_the_failure_shows(
    rows: tuple[dict[str, Outcome], ...], kind: Kind
) -> None:
    assert doubts(*rows, kind=kind) == []


def test_a_hidden_failure_is_told_as_what_was_seen() -> None:
    (forward,) = doubts({}, {}, kind=Kind.WRONG_OUTPUT, observed=False)
    assert forward.startswith("With every layer's values returned, the compiled graph does not fail")
    (backward,) = doubts({}, {}, kind=Kind.WRONG_GRADIENT, observed=False)
    assert backward.startswith("Compiled once more after its layers, the graph has the right gradients.")


def test_one_run_proves_nothing_of_a_flaky_failure() -> None:
    assert doubts(RIGHT, RIGHT, kind=Kind.WRONG_OUTPUT, observed=False, flaky=True) == []


def test_a_table_that_was_cut_short_keeps_what_localizing_has_found() -> None:
    before = [Layer(path="a", order=0, verdict="good"), Layer(path="b", order=1, verdict="bad", local_error=1.0)]
    table = [
        Layer(path="a", order=0, verdict="bad", local_error=2.0),
        Layer(path="b", order=3, verdict="unknown"),
        Layer(path="b", order=4, phase="backward", verdict="unknown"),
    ]
    merged = _with_known(table, before)
    assert [(layer.path, layer.order, layer.verdict, layer.local_error) for layer in merged] == [
        ("a", 0, "bad", 2.0), ("b", 3, "bad", 1.0), ("b", 4, "unknown", None),
    ]  # fmt: skip

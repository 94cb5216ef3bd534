"""What the steps behind a repro find becomes part of the report, as far as it is known."""

from __future__ import annotations

from minimizer.engine import fold
from minimizer.engine.findings import Described, Diagnosed
from minimizer.report.culprit import Culprit, GraphNode, Layer
from minimizer.report.examined import Version
from minimizer.report.model import Blame, Flag, Report, Workaround

LOWERING = "lowerings/aten.relu.default"
BLAME = Blame(subsystem="lowerings", items=[LOWERING], confirmed=True, what="the lowering of aten.relu")


def test_a_diagnosis_that_goes_on_is_taken_again() -> None:
    report = Report(culprits=[Culprit(module="act")])
    flags = (Flag(name="a", value="1", outcome="passes"),)
    found = Diagnosed(blame=BLAME)
    fold.diagnosed(report, found)
    first = report.culprits[0].model_copy(deep=True)
    fold.diagnosed(report, Diagnosed(blame=BLAME, flags=flags, workaround=Workaround(code="x", verified=True, what="")))
    assert report.culprits[0] == first and first.ops == ["aten.relu"]
    assert report.flags == [*flags] and report.workaround is not None


def test_a_culprit_keeps_the_operator_that_it_has() -> None:
    known = Culprit(nodes=["y"], ops=["aten.tanh"], what="tanh")
    assert fold.blamed(known, BLAME) == known


def test_blame_leaves_the_culprit_that_it_was_given() -> None:
    known = Culprit(module="act")
    assert fold.blamed(known, BLAME).ops and not known.ops


def test_a_table_without_a_graph_leaves_the_graph() -> None:
    report = Report(layers=[Layer(path="a", order=0)], graph=[GraphNode(name="y", op="relu")])
    fold.described(report, Described())
    assert [layer.path for layer in report.layers] == ["a"]
    fold.described(report, Described(layers=(Layer(path="b", order=0),)))
    assert [layer.path for layer in report.layers] == ["b"]
    assert [node.name for node in report.graph] == ["y"]


def test_the_torch_of_the_job_comes_first_where_there_are_others() -> None:
    report = Report(environment={"torch": "2.13.0"})
    fold.compared(report, [])
    assert report.versions == []
    fold.compared(report, [Version(name="old", torch="2.11.0", outcome="passes")])
    assert [(one.name, one.torch, one.outcome) for one in report.versions] == [
        (fold.OWN, "2.13.0", "fails"),
        ("old", "2.11.0", "passes"),
    ]

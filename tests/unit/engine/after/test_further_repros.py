"""One fault is one entry: which culprits a report keeps, and where further ones are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sample_reports
from fake_oracle import FakeOracle
from toy_programs import chain

from minimizer.engine.after import further_repros
from minimizer.engine.after.further_repros import write_further
from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.emit import Repro
from minimizer.engine.journal import Journal
from minimizer.engine.levels.culprits import NO_TIME, culprits, is_holder, listed_with_the_first, named
from minimizer.engine.levels.draft import GraphCulprit
from minimizer.engine.localize.further_faults import Further, Unreduced, further
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.program.regions import Region, cut
from minimizer.engine.survey.cases import Case
from minimizer.engine.verify.clean_runs import CleanResult
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Culprit, Layer, LayerVerdict
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.instances import Instances
from minimizer.report.model import Failure, Report, Verification
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Step

OTHER = Culprit(module="blocks.1.act", nodes=["relu"], ops=["aten.relu"])


@pytest.mark.parametrize(
    ("known", "goes"),
    [
        (Culprit(nodes=["sub_one"], what="a call of no operator"), False),
        (Culprit(module="blocks.1", nodes=["sub_one"]), False),
        (Culprit(module="blocks.1", ops=["aten.add"]), False),
        (Culprit(what="a graph break"), False),
        (Culprit(module="blocks.1", what="fails by itself too"), True),
        (Culprit(module="blocks.1.act"), True),
        (Culprit(module="blocks.11"), False),
        (Culprit(module="blocks.2"), False),
    ],
)
def test_only_a_module_that_holds_it_gives_way_to_a_culprit(known: Culprit, goes: bool) -> None:
    assert is_holder(known, OTHER) is goes


def layer(path: str, verdict: LayerVerdict) -> Layer:
    return Layer(path=path, order=0, verdict=verdict)


def located(*roots: Region, layers: tuple[Layer, ...] = ()) -> Localized:
    return Localized(chain(["f"]), roots, layers, confirmed=True)


def test_equal_regions_that_fail_are_one_entry_and_those_like_the_culprits_own_none() -> None:
    """And a module in several regions, of which some are right, is not both."""
    blocks = [Region(3 * n, 3 * n + 3, f"layers.{n}", "Block") for n in range(12)]
    heads = [Region(36 + n, 37 + n, f"heads.{n}", "Head") for n in range(2)]
    tail = Region(40, 42, "norm", "Norm")
    culprit = Culprit(module="layers.0.act", nodes=["relu"], ops=["aten.relu"])
    first, *others = culprits(
        located(
            *blocks, *heads, tail, layers=(layer("layers.3", "good"), layer("layers.12", "good"), layer("x", "good"))
        ),
        culprit,
    )
    assert [other.module_name for other in others] == ["heads 0 and 1", "norm"]
    assert first.others == "fails by itself too in layers 1 to 11, and not in layers.12"


def test_what_is_the_same_fault_goes_from_the_entry_it_was_known_by() -> None:
    culprit = Culprit(module="layers.0.act", nodes=["relu"], ops=["aten.relu"])
    heads = [Region(36 + n, 37 + n, f"heads.{n}", "Head") for n in range(2)]
    known = listed_with_the_first(culprits(located(*heads), culprit), Region(37, 38, "heads.1.act", "ReLU"))
    assert [one.module_name for one in known] == ["layers.0.act", "heads.0 (Head)"]
    assert known[0].others == "the same in heads.1.act"
    last = listed_with_the_first(known, Region(36, 37, "heads.0.act", "ReLU"))
    assert [one.module_name for one in last] == ["layers.0.act"]
    assert last[0].others == "the same in heads 0 and 1 (act)" and culprit.instances is None


def found_beside(
    program: Program, wrong: set[str], same: list[Region], roots: list[Region]
) -> tuple[list[Further | Region], FakeOracle]:
    oracle = FakeOracle(lambda candidate: any(node.target in wrong for node in candidate.nodes))
    window = cut(program, 0, 1)
    first = Localized(window, tuple(roots), (layer("0", "bad"),), confirmed=True)

    def smallest(window: Program, judge: Oracle) -> Program:
        index = next(i for i, node in enumerate(window.nodes) if node.target in wrong)
        return cut(window, index, index + 1)

    found = further(program, first, window, cast(Oracle, oracle), same=same, reduce=smallest)
    return list(found), oracle


def test_beside_places_of_the_same_fault_what_is_right_is_no_further_culprit() -> None:
    program = chain(["bad", "a", "b", "bad", "c", "a"])
    found, oracle = found_beside(program, {"bad"}, [Region(3, 4)], [Region(0, 2), Region(2, 6)])
    assert found == []
    assert all("bad" not in [node.target for node in judged.nodes] for judged in oracle.judged)


def test_another_fault_in_a_region_that_holds_the_first_one_too_is_found() -> None:
    program = chain(["bad", "a", "b", "bad", "c", "worse"])
    found, _ = found_beside(program, {"bad", "worse"}, [Region(3, 4)], [Region(0, 2), Region(2, 6)])
    assert [other.program.nodes[0].target for other in found if isinstance(other, Further)] == ["worse"]


@pytest.mark.parametrize(
    ("questions", "left"),
    [(1, ["c", "worse", "d"]), (99, ["worse"])],
    ids=["while it is narrowed", "while it is judged"],
)
def test_a_fault_that_there_is_no_time_to_reduce_is_named_before_the_search_ends(
    questions: int, left: list[str]
) -> None:
    program = chain(["bad", "a", "c", "worse", "d"])

    class Hurried(FakeOracle):
        """Has no time after so many questions, or once it is reduced."""

        is_reduced = False

        def judge(self, programs: Sequence[Program], **changes: Any) -> list[Outcome]:
            if len(self.changes) == questions or self.is_reduced:
                raise BudgetExceeded("the time is over")
            return super().judge(programs, **changes)

    oracle = Hurried(lambda candidate: any(node.target in ("bad", "worse") for node in candidate.nodes))
    first = Localized(cut(program, 0, 1), (Region(0, 1),), (layer("0", "bad"),), confirmed=True)

    def smallest(window: Program, judge: Oracle) -> Program:
        oracle.is_reduced = True
        index = next(i for i, node in enumerate(window.nodes) if node.target == "worse")
        return cut(window, index, index + 1)

    search = further(
        program, first, cut(program, 0, 1), cast(Oracle, oracle), suspects=[Region(2, 5, "tail")], reduce=smallest
    )
    other = next(search)
    assert isinstance(other, Unreduced)
    assert [node.target for node in other.program.nodes] == left
    with pytest.raises(BudgetExceeded):
        next(search)
    (entry,) = named((), other)
    assert entry.what == NO_TIME
    assert entry.further
    assert entry.nodes == (["v3"] if len(left) == 1 else [])


def test_an_entry_of_equal_modules_stays_where_there_is_no_time_for_one_of_them() -> None:
    heads = [Region(36 + n, 37 + n, f"heads.{n}", "Head") for n in range(2)]
    _, *others = culprits(located(*heads), Culprit(module="norm", nodes=["relu"], ops=["aten.relu"]))
    program = chain(["a", "b"])
    nodes = tuple(replace(node, module="heads.0", module_class="Head") for node in program.nodes)
    one = replace(program, nodes=nodes)
    assert [known.module_name for known in named(others, Unreduced(one, one))] == ["heads 0 and 1"]


def test_what_comes_down_to_the_first_culprit_once_more_is_its_place() -> None:
    program = chain(["bad", "a", "b", "bad", "c", "a"])
    found, _ = found_beside(program, {"bad"}, [], [Region(0, 2), Region(2, 6)])
    assert found == [Region(3, 4)]


class Heard(FolderSink):
    """Keeps what it is told."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.told: list[tuple[str, dict[str, object]]] = []

    def event(self, type_: str, **data: object) -> None:
        self.told.append((type_, data))


def looked_further(tmp_path: Path, *, seconds: float, instance: str) -> tuple[Heard, Report, list[float]]:
    """The step that looks for further faults, with so many seconds left for it."""
    program = chain(["bad", "a", "b", "bad", "c"])
    window = cut(program, 0, 1)
    oracle = SteadyOracle(lambda candidate: any(node.target == "bad" for node in candidate.nodes))
    signature = SimpleNamespace(kind=Kind.WRONG_OUTPUT)
    case = SimpleNamespace(otherwise=None, tolerance=None, is_warm=False, instance=instance, signature=signature)
    first = Localized(window, (Region(0, 2), Region(2, 5)), (layer("0", "bad"),), confirmed=True)
    found = GraphCulprit(cast(Case, case), cast(Oracle, oracle), program, first, window)
    culprit = Culprit(module="layers.1", nodes=["v0"], ops=["aten.bad"])
    report = Report(culprits=[culprit], failure=Failure(kind=Kind.WRONG_OUTPUT))
    sink, given = Heard(tmp_path), list[float]()

    def each_instance(surveys: object, case: object, *, seconds: float) -> Instances:
        given.append(seconds)
        return Instances(wrong=["layers.1", "layers.2"], right=["layers.0"])

    journal, none = Journal(sink, report, Clock(seconds)), cast(Any, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(further_repros, "each_instance", each_instance)
        for known in write_further(found, (), journal.fault, surveys=none, place=none, journal=journal, jobs=1):
            journal.add(culprits=known)
    return sink, report, given


class SteadyOracle(FakeOracle):
    sequential = None
    trials = 0


def test_looking_for_further_faults_says_what_it_does(tmp_path: Path) -> None:
    sink, report, given = looked_further(tmp_path, seconds=100.0, instance="layers.1")
    said = [str(data["message"]) for type_, data in sink.told if type_ == "progress"]
    assert any("layers.1: the script is run once more" in message for message in said)
    assert report.culprits[0].others == "the same in layers.2, and not in layers.0"
    assert len(report.culprits) == 1
    assert 0 < given[0] <= 50.0  # half of what is left


def test_modules_that_are_in_no_list_are_worth_no_run_of_the_script(tmp_path: Path) -> None:
    _, report, given = looked_further(tmp_path, seconds=100.0, instance="encoder")
    assert given == [] and report.culprits[0].instances is None


def written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    left: float = 30.0,
    took: float | None = 30.0,
    failed: int = 3,
    **seen: Any,
) -> tuple[Report, list[float]]:
    """The report with a further culprit whose verification ended so, and the seconds that the reading of its code was given.

    ``left`` are those that the search has left, ``took`` those of the first culprit's code.
    """
    report = Report(culprits=[Culprit(module="a", ops=["aten.relu"])])
    report.timings = {} if took is None else {Step.CODE: took}
    journal = Journal(FolderSink(tmp_path), report, Clock(100.0))
    repro = Repro(source="x = 1\n", lines=1, kind=Kind.WRONG_OUTPUT, evidence="")
    ended = {"clean_process": True, "passes_with_compiler_off": True, **seen}
    asked = list[float]()

    def read(*_: object, blame: object, seconds: float) -> GeneratedCode:
        asked.append(seconds)
        return sample_reports.kernel()

    def verify(where: object, *_: object, **__: object) -> CleanResult:
        assert where is place, "it may import what the first repro may"
        return CleanResult(Verification(runs=3, failed_same=failed, **ended), [])

    monkeypatch.setattr(Clock, "elapsed", property(lambda self: 100.0 - left))
    monkeypatch.setattr(further_repros, "_repro", lambda *_: repro)
    monkeypatch.setattr(further_repros, "data_of", lambda *_: None)
    monkeypatch.setattr(further_repros, "verify_in", verify)
    monkeypatch.setattr(further_repros, "generated_code", read)
    window = chain(["tanh"])
    found = SimpleNamespace(case=None, oracle=SimpleNamespace(operators=lambda program: ["aten.tanh"]))
    place = object()
    one = further_repros._write(
        Further(window, cast(Any, None), window), "repro-2.py", cast(Any, found), cast(Any, place), journal
    )
    known = (*report.culprits, *([one.culprit] if one is not None else []))
    with_repro = [one] if one is not None and one.culprit.repro else []
    for now in (known, *further_repros._with_code(known, with_repro, cast(Any, place), journal)):
        journal.add(culprits=now)
    return report, asked


def test_a_further_fault_has_its_file_and_the_code_generated_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, asked = written(tmp_path, monkeypatch)
    first, other = report.culprits
    assert not first.further and report.roots == [first]
    assert (other.further, other.repro, other.generated_code) == (True, "repro-2.py", sample_reports.kernel())
    assert asked == [30.0]


@pytest.mark.parametrize(
    ("changes", "repro"),
    [({"took": None}, "repro-2.py"), ({"left": 29.0}, "repro-2.py"), ({"failed": 1}, "")],
    ids=["of another stage", "no time", "not verified"],
)
def test_code_is_read_in_the_time_that_is_left_of_repros_that_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], repro: str
) -> None:
    report, asked = written(tmp_path, monkeypatch, **changes)
    assert (asked, report.culprits[1].repro, report.culprits[1].further) == ([], repro, True)


@pytest.mark.parametrize(
    ("failed", "seen", "said"),
    [
        (1, {}, ["a repro of it failed 1 of 3 times"]),
        (0, {"stopped": 3}, ["there was no time to verify a repro of it"]),
        (0, {"stopped": 4, "passes_with_compiler_off": False}, ["there was no time to verify a repro of it"]),
        (3, {"passes_with_compiler_off": False}, []),
    ],
    ids=["flaky", "stopped", "all stopped", "fails in eager"],
)
def test_runs_that_were_stopped_are_not_said_to_have_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: int, seen: dict[str, Any], said: list[str]
) -> None:
    report, _ = written(tmp_path, monkeypatch, failed=failed, **seen)
    assert [culprit.what.partition("; ")[2] for culprit in report.culprits[1:]] == said

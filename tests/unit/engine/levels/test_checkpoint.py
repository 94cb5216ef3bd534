"""A killed reduction goes on from its last accepted step, or starts over where that would not be honest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_check import both, flows, no_literal
from fake_oracle import FakeOracle, Rule
from toy_programs import META, chain

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.emit import emit
from minimizer.engine.emit.layout import code_lines
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import NAME, UNFINISHED, Checkpoint, Keeper, data_of, keep_repro, restore
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import Body, Input, Node, Program, TensorMeta, as_json
from minimizer.engine.program.regions import Region
from minimizer.engine.reduce.graph import Reduced, reduce
from minimizer.engine.survey.cases import Case
from minimizer.report.culprit import Layer
from minimizer.report.model import Failure, HistoryStep, Reduction, Report, Reproducibility
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind

SIGNATURE = Signature(Kind.WRONG_OUTPUT, what="value")


class Killed(BaseException):
    """As good as ``kill -9``: nobody catches it, and nothing is written after it."""


class CountingOracle(FakeOracle):
    """Also counts its trials, and remembers how a program failed."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, Kind.WRONG_OUTPUT)
        self.trials = 0

    def judge(self, programs: Sequence[Program]) -> list[Outcome]:
        self.count(len(programs))
        return super().judge(programs)

    def count(self, trials: int) -> None:
        self.trials += trials

    def shown(self, program: Program) -> Outcome | None:
        return self._outcome(program)


@dataclass
class Attempt:
    """One attempt of a job whose script holds this program."""

    folder: Path
    program: Program
    rule: Rule
    signature: Signature = SIGNATURE
    data: bytes = b"values"
    kept: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fake = CountingOracle(self.rule)
        self.oracle = cast(Oracle, self.fake)
        self.sink = FolderSink(self.folder)
        report = Report(failure=Failure(kind=Kind.WRONG_OUTPUT), reduction=Reduction())
        self.journal = Journal(self.sink, report, Clock(900))
        survey = SimpleNamespace(data=lambda names: self.data, program=lambda level: self.program)
        self.case = cast(
            Case, SimpleNamespace(program=self.program, signature=self.signature, survey=survey, tolerance=None)
        )

    def restored(self) -> Checkpoint | None:
        return restore(self.case, self.oracle, self.sink)

    def run(self, start: Checkpoint | None = None, *, dies_after: int | None = None) -> Reduced:
        start = start or Checkpoint(self.program, located(self.program), self.program)
        keeper = Keeper(start, self.case, self.oracle, self.journal)

        def on_step(step: HistoryStep, program: Program) -> None:
            keeper.step(step, program, self.journal.fault)
            self.kept.append(program)
            if len(self.kept) == dies_after:
                raise Killed

        result = reduce(start.best, check=self.oracle.check, literal=no_literal, on_step=on_step)
        return replace(result, history=keeper.history)


def located(program: Program) -> Localized:
    layer = Layer.model_validate({"path": "blocks.0", "class": "Block", "order": 0, "verdict": "bad"})
    return Localized(program, (Region(0, 20, "blocks.0", "Block"),), (layer,), True, (Region(20, 30),))


PROGRAM = chain(["torch.sin"] * 10 + ["torch.a"] + ["torch.cos"] * 30 + ["torch.b"] + ["torch.sin"] * 10)
RULE = both(flows("torch.a", "torch.b"), lambda program: any(i.meta and i.meta.numel >= 2 for i in program.inputs))


def test_killed_after_any_step_the_next_attempt_ends_where_this_one_would_have(tmp_path: Path) -> None:
    whole = Attempt(tmp_path / "whole", PROGRAM, RULE)
    expected = whole.run()
    assert expected.best.size == 2
    for steps in range(1, len(whole.kept) + 1):
        first = Attempt(tmp_path / str(steps), PROGRAM, RULE)
        with pytest.raises(Killed):
            first.run(dies_after=steps)
        second = Attempt(tmp_path / str(steps), PROGRAM, RULE)
        start = second.restored()
        assert start is not None
        assert start.best == first.kept[-1]
        assert start.located == located(PROGRAM)
        result = second.run(start)
        assert result.best == expected.best
        assert result.one_minimal
        assert [step.nodes for step in result.history[:steps]] == [p.size for p in first.kept]
        assert [s.trial for s in result.history] == sorted(s.trial for s in result.history)
        assert second.fake.trials == start.trials + len(second.fake.judged)
        assert len(second.fake.judged) <= whole.fake.trials + 1  # the one that asks whether it still fails


def test_nothing_is_restored_where_nothing_was_left(tmp_path: Path) -> None:
    assert Attempt(tmp_path, PROGRAM, RULE).restored() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": Signature(Kind.COMPILE_ERROR)},
        {"program": chain(["torch.sin"] * 9 + ["torch.a", "torch.b"])},
        {"program": PROGRAM.renamed()},
        {"rule": lambda program: False},
    ],
    ids=["another failure", "another graph", "other names", "it does not fail any more"],
)
def test_a_checkpoint_of_something_else_does_not_count(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(Killed):
        Attempt(tmp_path, PROGRAM, RULE).run(dies_after=3)
    second = Attempt(tmp_path, **{"program": PROGRAM, "rule": RULE, **changes})
    assert second.restored() is None
    assert second.fake.trials == len(second.fake.judged)


def test_a_graph_with_symbols_is_known_again(tmp_path: Path) -> None:
    """It is searched as it is compiled, with ``dynamic=True``, and captured without."""
    inputs = tuple(replace(i, meta=replace(i.meta, symbolic=(0,))) for i in PROGRAM.inputs if i.meta)
    captured = replace(PROGRAM, inputs=inputs)
    assert captured.as_compiled() != captured
    with pytest.raises(Killed):
        Attempt(tmp_path, captured.as_compiled(), RULE).run(dies_after=3)
    assert Attempt(tmp_path, captured, RULE).restored() is not None


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[1]", b'{"graph": 1}'])
def test_a_broken_checkpoint_does_not_count(tmp_path: Path, content: bytes) -> None:
    attempt = Attempt(tmp_path, PROGRAM, RULE)
    attempt.sink.artifact(NAME, content)
    assert attempt.restored() is None


def test_a_checkpoint_whose_program_was_changed_by_hand_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        Attempt(tmp_path, PROGRAM, RULE).run(dies_after=3)
    second = Attempt(tmp_path, PROGRAM, RULE)
    stored = json.loads(second.sink.earlier(NAME) or b"")
    stored["best"]["nodes"][0]["target"] = "os.system('x') or torch.a"
    second.sink.artifact(NAME, json.dumps(stored).encode())
    assert second.restored() is None
    assert second.fake.judged == []


def test_the_best_so_far_can_be_had_from_the_first_step_on(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, PROGRAM, RULE)
    with pytest.raises(Killed):
        attempt.run(dies_after=1)
    text = (tmp_path / "repro.py").read_text()
    assert text.startswith(UNFINISHED)
    compile(text, "repro.py", "exec")
    assert attempt.journal.report.reduction is not None
    assert attempt.journal.report.reduction.lines_after == code_lines(text)
    assert (tmp_path / "data.pt").read_bytes() == b"values"
    assert (tmp_path / "repro.zip").exists()


def test_a_repro_that_needs_no_data_takes_the_place_of_one_that_does(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, PROGRAM, RULE)
    result = attempt.run()
    repro = emit(
        result.best,
        Failure(kind=Kind.WRONG_OUTPUT),
        [],
        environment={},
        rate=Reproducibility(failed=1, runs=1),
    )
    keep_repro(repro, data_of(repro, attempt.case), attempt.journal)
    assert not (tmp_path / "data.pt").exists()
    assert not (tmp_path / "repro.zip").exists()
    assert (tmp_path / "repro.py").read_text() == repro.source == attempt.journal.repro


def test_a_program_survives_its_json_form() -> None:
    node = Node(
        "v",
        "torch.ops.aten.slice.Tensor",
        (Ref("x"), slice(None, Ref("n"), 2), [1, (2.5, float("inf"))], {"k": Code("torch.float32")}, -0.0, "s"),
        (("dim", None), ("flag", True)),
        meta=TensorMeta((2, 3), "torch.bfloat16", None, "cuda", True),
        module="a.b",
        module_class="B",
        source=("script.py", 3, "y = x"),
    )
    program = Program(
        inputs=(Input("x", META, golden="x@v"), Input("n", code="3")),
        nodes=(node,),
        outputs=("v",),
        bodies=(Body("inner", ("h",), (node,), (Ref("v"), None)),),
        level="aot",
        setup=("import math",),
        compile_kwargs=(("dynamic", "True"), ("backend", "'eager'")),
        grad=True,
    )
    assert parse_program(json.loads(json.dumps(as_json(program)))) == program

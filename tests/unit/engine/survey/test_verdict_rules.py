"""The order of verdicts: each rule once where nothing before it decides, and its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from canned_surveys import AT, WRONG, CannedExecutor, asked_of, ended, error, finished, held, silent

from minimizer.engine.child import protocol, sent_program
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.rank_stacks import RankState
from minimizer.engine.child.stacks import Frame
from minimizer.engine.survey.cases import Case, ScriptCase, Surveyed
from minimizer.engine.survey.holding import Holding, Suspects
from minimizer.engine.survey.observed import EndedRun, HeldRun, RaisedRun, UnendedRun
from minimizer.engine.survey.rules import Rules, decide
from minimizer.engine.survey.verdict_rules import ENDED, HELD, RAISED, UNENDED
from minimizer.engine.survey.verdicts import before_a_frame
from minimizer.errors import MemoryExceeded
from minimizer.vocabulary import Kind

Run = dict[str, Any]
ALL_RULES: dict[str, Rules[Any, Surveyed]] = {"held": HELD, "ended": ENDED, "raised": RAISED, "unended": UNENDED}
DISCRETE = {"graph": 1, "call": 4, "verdict": {**WRONG, "fault": False, "discrete": True}}
STRIDES = {"fault": True, "kind": "wrong_metadata", "differences": [{"where": "output[0]", "what": "stride"}]}
LAYOUT = {"graph": 0, "call": 0, "verdict": STRIDES}
FULL = {**error("torch.OutOfMemoryError", "CUDA out of memory."), "device": "out_of_memory"}
LACKING = {**error("AttributeError", "no attribute '__func__'"), "source": ["train.py", 22, "LambdaLR(opt)"]}
LOST = {**error("torch.AcceleratorError", "misaligned address"), "device": "context_lost"}
NO_COMPILER = error("RuntimeError", "Failed to find C compiler. Please specify via CC environment variable")
STARVED = error("InductorError", "CppCompileError: cc1plus: out of memory allocating 1 bytes")
NO_FRAME = {"doing": "script", "attempted": False}
BEHIND = {"lost": {"graph": 1, "call": 2, "phase": "run"}}
CLOCK = "assert time.perf_counter() - begun < 1"
MERGED = {"graph": 0, "call": 0, "what": "output[1] is the object of output[0]; its shape was (6,), and is (16,)"}
ONE_OBJECT: dict[str, Any] = {
    "fault": True,
    "kind": "wrong_metadata",
    "differences": [{"where": "output[1]", "kind": "wrong_metadata", "what": "identity"}],
}
WRONG_CALL = held(kind="wrong_output", verdict=WRONG)


def check(line: str = "", **fields: Any) -> Run:
    """A run that ends by a failing check of the script's own."""
    return finished(exception={**error("AssertionError", "off"), "frames": [["script.py", "f", line]]}, **fields)


def raising(kind: str, message: str = "went wrong", **fields: Any) -> Run:
    return finished(exception=error(kind, message), **fields)


def opaque(**failure: Any) -> Run:
    """A run that is held at a call which cannot be written down."""
    return {"held": held(**failure)["held"].model_copy(update={"program": None})}


def late(**fields: Any) -> Run:
    run = silent(**fields)
    return {**run, "silence": replace(run["silence"], out_of_time=True)}


def among_ranks() -> Run:
    """A run of a rank that waits in a collective for one that has ended."""
    run = silent({})
    chain = (
        Frame("train.py", "main", 9, True),
        Frame("torch/distributed/distributed_c10d.py", "all_reduce", 3, False),
    )
    return {**run, "silence": replace(run["silence"], chain=chain, others=[RankState(1, ended="ValueError: no data")])}


RANKS = "rank 0 waits in all_reduce (train.py, line 9); rank 1 has ended (ValueError: no data)"
DIES = ended(signal=6, at=AT)
COMPARING = {**AT, "doing": "compare"}
DIES_COMPARED = ended(signal=6, at=COMPARING)
HIDDEN = {"health": {"failed": ["f: KeyError"]}}
MISSING = {"missing": [{"graph": 1, "call": 2, "exception": error("ValueError", "bad")}]}
OK, DENIED, DIFFERS = finished(), raising("PermissionError"), raising("ValueError")
# The table, the rule that decides, runs with the compiler, runs without it, and of the verdict a kind or what it says.
VERDICTS: list[tuple[str, str, Sequence[Run], Sequence[Run], Kind | str]] = [
    ("held", "the GPU is out of memory", [held(kind="runtime_error", exception=FULL)], [OK], "runs out of GPU memory"),
    ("held", "no C or C++ compiler can be started", [opaque(kind="compile_error", exception=NO_COMPILER)], [], "has no compiler"),
    ("held", "the graph or its inputs cannot be written down", [opaque()], [], "no compiled graph fails in isolation"),
    ("held", "a call of a graph", [WRONG_CALL], [], Kind.WRONG_OUTPUT),
    ("ended", "a call lost the GPU", [finished(exception=LOST, **BEHIND, **MISSING), held()], [], Kind.RUNTIME_ERROR),
    ("ended", "a call lacks an error that eager raises", [check(unsteady="graph 0", **MISSING), held()],
     [finished(raised=[error("ValueError", "bad")])], Kind.MISSING_ERROR),
    ("ended", "its check fails where eager differs from eager", [check(unsteady="graph 0")], [], "Eager differs from eager in graph 0"),
    ("ended", "it ended by an exception", [raising("TypeError", unsteady="graph 0", suspects=[DISCRETE])], [OK], Kind.RUNTIME_ERROR),
    ("ended", "an output that is one object with another was changed",
     [finished(suspects=[DISCRETE], merged=[MERGED]), held(verdict=ONE_OBJECT)], [], Kind.WRONG_METADATA),
    ("ended", "values behind a jump differ", [finished(suspects=[DISCRETE], **HIDDEN), held()], [], Kind.WRONG_OUTPUT),
    ("ended", "Dynamo failed by itself, and the script hides it", [finished(stopped=True, checked={}, calls=[], **HIDDEN)],
     [], "hides it: f: KeyError"),
    ("ended", "it was stopped before a call was compared", [finished(stopped=True, checked={}, calls=[])], [], "before anything was compiled"),
    ("ended", "no frame was compiled", [finished(checked={"frames": 0}, suspects=[DISCRETE])], [], "compiled no frame of it"),
    ("ended", "no call could be compared", [finished(checked={"frames": 1}, calls=[], unsteady="graph 0")], [], "nothing was checked but"),
    ("ended", "eager differs from eager", [finished(unsteady="graph 0", uncompared=[{"graph": 2}])], [], "Eager differs from eager"),
    ("ended", "no call of some graph could be compared", [finished(uncompared=[{"graph": 2, "why": "a lock"}])], [], "graph 2 (a lock)"),
    ("ended", "no difference", [finished()], [], "No difference in the 5 of 5 calls"),
    ("raised", "its check reads a clock or a counter of the compiler", [check(CLOCK)], [ended(exit=3)], "a clock or a counter"),
    ("raised", "it dies in eager", [raising("TypeError", attempted=False)], [DENIED, ended(exit=3)], "without the compiler: it ended with"),
    ("raised", "the sandbox denies it something in eager", [raising("TypeError")], [DENIED], "may only write"),
    ("raised", "it raises in each eager run", [raising("TypeError", attempted=False)], [raising("ValueError")], "fails without torch.compile: "),
    ("raised", "it raises in some eager runs", [raising("TypeError", attempted=False)], [DIFFERS, OK], "torch.compile, in 1 of 2 runs"),
    ("raised", "Dynamo was given no frame", [finished(exception=FULL, attempted=False)], [OK], "had attempted no frame"),
    ("raised", "Dynamo was given no frame", [finished(exception=LACKING, attempted=False)], [OK],
     "Line 22 (LambdaLR(opt)) may look for what the object that torch.compile returned lacks"),
    ("raised", "the GPU is out of memory", [finished(exception=FULL)], [OK], "runs out of GPU memory"),
    ("raised", "no C or C++ compiler can be started", [finished(exception=NO_COMPILER)], [OK], "Install one"),
    ("raised", "its check is about the memory layout, which differs",
     [check("assert y.stride() == z", layouts=[LAYOUT], overwritten="by"), held(verdict=STRIDES)], [OK], Kind.WRONG_METADATA),
    ("raised", "its check of values fails by its own tolerance", [check(overwritten="by call 1"), WRONG_CALL], [OK], Kind.WRONG_OUTPUT),
    ("raised", "its check fails behind an output that was overwritten", [check(overwritten="by call 1"), OK], [OK], "but by call 1: clone"),
    ("raised", "its check of values fails, and no call differs", [check(), OK], [OK], "only a wider tolerance"),
    ("raised", "an exception between graphs", [check(checked={"frames": 1}), OK], [OK], Kind.WRONG_OUTPUT),
    ("unended", "its share of the budget is over", [late(hangs=False)], [], "Stopped after"),
    ("unended", "its ranks wait for one another", [among_ranks()], [OK], f"Hang: {RANKS}. In eager all ranks come to their end"),
    ("unended", "its ranks wait for one another", [among_ranks()], [among_ranks()], f"with and without the compiler: {RANKS}."),
    ("unended", "its ranks wait for one another", [among_ranks()], [ended(exit=3)], "without the compiler: it ended with status 3"),
    ("unended", "the compiler is slow", [silent(hangs=False), held()], [], "Slow, but no hang"),
    ("unended", "it hangs in a graph", [silent(), held()], [], Kind.HANG),
    ("unended", "it hangs in a graph that cannot be held", [silent(), OK], [], "Hang: torch.compile had not come back"),
    ("unended", "it did not end in time", [ended(timed_out=True, signal=9)], [], "it did not end in time"),
    ("unended", "it does not end in eager either", [ended(exit=70)], [ended(exit=3)], "with and without the compiler"),
    ("unended", "the machine or our own code ended it", [ended(exit=70, at=NO_FRAME)], [OK], "with the compiler: it ended with status 70"),
    ("unended", "Dynamo was given no frame", [silent(NO_FRAME)], [OK], "had attempted no frame"),
    ("unended", "it hangs before any graph", [silent({})], [OK], "Hang: torch.compile had not come back"),
    ("unended", "it ends by itself", [ended(exit=1, at=COMPARING), OK], [OK], "it ends by itself with status 1"),
    ("unended", "it dies while it is compared", [DIES_COMPARED, OK], [OK], "That is no failure of the script"),
    ("unended", "it dies in a graph", [DIES_COMPARED, DIES, held()], [OK], Kind.CRASH),
    ("unended", "it dies in a graph that cannot be held", [DIES, OK], [OK], "it dies by SIGABRT"),
    ("unended", "it dies in no graph", [ended(signal=6)], [OK], "does not run here with the compiler: it died by SIGABRT"),
]  # fmt: skip
ELSEWHERE = {"the C++ compiler is out of memory", "the graph is too large"}
"""Rules with a test of their own below."""


def decided(table: str, compiled: Sequence[Run], eager: Sequence[Run], script: Path) -> tuple[str, Surveyed]:
    """The name of the rule that decides on a run, and its verdict."""
    surveys = asked_of(CannedExecutor(compiled, eager), script).surveys
    survey, holding = surveys.next(), Holding(surveys, lambda _: None)
    if table == "held":
        assert survey.held is not None
        rule, found = decide(HELD, HeldRun(survey, survey.held, holding))
        return rule.name, found
    if table == "unended":
        rule, found = decide(UNENDED, UnendedRun(survey, holding))
        return rule.name, found
    assert survey.finished is not None
    if table == "raised":
        rule, found = decide(RAISED, RaisedRun(survey.finished, holding))
        return rule.name, found
    rule, found = decide(ENDED, EndedRun(survey.finished, holding, Suspects(holding)))
    return rule.name, found


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(f"import time\nbegun = time.perf_counter()\n{CLOCK}\n")
    return path


@pytest.mark.parametrize(
    ("table", "name", "compiled", "eager", "expected"), VERDICTS, ids=[f"{row[0]}: {row[1]}" for row in VERDICTS]
)
def test_the_first_rule_that_decides_counts(
    script: Path, table: str, name: str, compiled: Sequence[Run], eager: Sequence[Run], expected: Kind | str
) -> None:
    rule, found = decided(table, compiled, eager, script)
    assert rule == name
    if isinstance(expected, Kind):
        kind = found.signature.kind if isinstance(found, Case) else found.otherwise.kind  # type: ignore[union-attr]
        assert kind is expected
    else:
        assert not isinstance(found, Case)
        assert expected in (found.otherwise if isinstance(found, ScriptCase) else found).summary


def test_a_starved_compiler_is_the_limits_fault(script: Path) -> None:
    with pytest.raises(MemoryExceeded, match="MINIMIZER_TRIAL_MEMORY_BYTES"):
        decided("held", [held(kind="compile_error", exception=STARVED)], [], script)


def test_a_graph_that_is_too_large_is_not_reduced(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_program, "MAX_NODES", 0)
    rule, found = decided("held", [WRONG_CALL], [], script)
    assert rule == "the graph is too large"
    assert isinstance(found, ScriptCase)


def test_each_rule_is_reached() -> None:
    reached = {(table, name) for table, name, *_ in VERDICTS} | {("held", name) for name in ELSEWHERE}
    assert reached == {(table, rule.name) for table, rules in ALL_RULES.items() for rule in rules}


def test_each_rule_has_a_reason_and_a_name_of_its_own() -> None:
    for rules in ALL_RULES.values():
        assert len({rule.name for rule in rules}) == len(rules)
        assert all(rule.why for rule in rules)


def test_what_torch_compile_refuses_is_no_look_for_what_it_returned() -> None:
    refused = {**LACKING, "type": "TypeError", "frames": [["torch/__init__.py", "compile", "raise TypeError"]]}
    said = before_a_frame("TypeError", protocol.Finished(exception=parse(ExceptionInfo, refused))).summary
    assert "refuses" in said and "may look for" not in said

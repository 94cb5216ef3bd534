"""The health of compiled code, from real runs: breaks, recompiles, times, the trace and its pages."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from children import script, survey

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import HANG_AFTER
from minimizer.engine.child.executor import Executor
from minimizer.engine.journal import Journal
from minimizer.engine.measure.health_run import examine
from minimizer.engine.survey.runs import Surveys
from minimizer.inside.messages import StackLine
from minimizer.inside.watch import health, timed_turns
from minimizer.inside.watch.backward_runs import BackwardRuns
from minimizer.report.examined import Health
from minimizer.report.model import Report
from minimizer.report.traces import PAGES, TRACE
from minimizer.sink import FolderSink

SCRIPT = """
    import torch
    from parts.net import deeper

    def inner(x):
        print("seen")
        return deeper(x)

    @torch.compile(backend="aot_eager", dynamic=False)
    def outer(x):
        return inner(x).cos()

    for size in (3, 4, 5):
        outer(torch.ones(size))
"""
NET = """
    def deeper(x):
        print("deeper")
        return x.sin()
"""


def test_health_of_a_script_that_breaks_and_recompiles(child: Executor, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    script(tmp_path / "parts", NET, "net.py")
    journal = Journal(FolderSink(tmp_path / "out"), Report(), Clock(600))
    surveys = Surveys(child, script(tmp_path, SCRIPT), args=[], steps=None, hang_after=HANG_AFTER, values=True)

    kept: list[Health] = []
    examine(surveys, child.place, journal, keep=kept.append)

    (found,) = kept
    assert any(
        text.startswith('script.py line 6: print("seen"): Failed to trace builtin operator')
        for text in found.graph_breaks
    )
    assert any(text.startswith('parts/net.py line 3: print("deeper"): ') for text in found.graph_breaks)
    assert any(
        text.startswith("outer: tensor 'x' size mismatch at index 0. expected 3, actual 4") for text in found.recompiles
    )
    assert found.compile_seconds is not None and found.compile_seconds > 0
    assert any(text.startswith("outer, script.py line 9: ") for text in found.frames)
    trace = (tmp_path / "out" / TRACE).read_text()
    assert "dynamo_output_graph" in trace
    pages = zipfile.ZipFile(io.BytesIO((tmp_path / "out" / PAGES).read_bytes()))
    assert "index.html" in pages.namelist()
    assert journal.report.traces == [TRACE, PAGES]


def test_each_backward_counts_whatever_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_engine_run_backward"
    for module in (torch.autograd, torch.autograd.graph):  # put back behind the test
        monkeypatch.setattr(module, name, getattr(module, name))
    runs, x = BackwardRuns(), torch.ones(2, requires_grad=True)
    x.sum()
    assert runs.count == 0
    x.sum().backward()
    torch.autograd.grad(x.sum(), x)
    torch.func.grad(torch.sum)(x.detach())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(x.sum().backward).result()
    assert runs.count == 4


def test_a_timed_run_counts_backwards_within_what_is_compiled(child: Executor, tmp_path: Path) -> None:
    text = """
        import torch

        w = torch.ones(3, requires_grad=True)

        @torch.compile(backend="eager")
        def step(x):
            (w * x).sum().backward()

        for _ in range(2):
            step(torch.ones(3))
    """
    found = survey(child, script(tmp_path, text), measure=True, values=False).finished
    assert found is not None and found.health is not None and found.health.backwards == 2


@pytest.mark.parametrize(("waited", "expected"), [(0.2, (2.0, 1.0)), (0.4, (7.0, 8.0))])
def test_a_turn_in_which_threads_wait_for_a_core_does_not_count(
    waited: float, expected: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_turns, "TIMED_CALLS", 1)
    monkeypatch.setattr(timed_turns, "waited", iter([0.0, waited, waited, waited]).__next__)
    clock = iter(
        [0.0, *(1.0, 3.0, 4.0, 5.0), 0.0, *(1.0, 8.0, 9.0, 17.0), 0.0]
    )  # turns of 2 s and 1 s, then of 7 s and 8 s
    monkeypatch.setattr(timed_turns.time, "perf_counter", clock.__next__)
    times = health.Health()
    times.measure(0, lambda: None, lambda: None, [])
    seen = times.found()
    assert (seen.eager_seconds, seen.compiled_seconds) == expected
    assert not seen.untimed


def test_a_crowded_run_waits_for_its_turns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_turns.time, "perf_counter", map(float, itertools.count()).__next__)
    monkeypatch.setattr(timed_turns, "waited", map((10.0).__mul__, itertools.count()).__next__)
    times, calls = health.Health(), list[int]()
    for graph in (0, 1):
        times.measure(graph, lambda graph=graph: calls.append(graph), lambda: None, [])
    assert (calls.count(0), calls.count(1)) == (
        3,
        1,
    )  # five readings of the clock in a turn: over 11 s, and then over 1 s
    assert times.found().untimed


def test_time_that_threads_wait_for_a_core_is_read_from_the_scheduler() -> None:
    core = next(iter(os.sched_getaffinity(0)))
    others = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while 1: pass"]) for _ in range(2)]
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {core})
        before = timed_turns.waited()
        while timed_turns.waited() - before < 0.05:
            pass  # with two others on this core, each of the three waits for it sooner or later
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.parametrize(("backend", "is_told"), [("inductor", True), ("aot_eager", False)])
def test_a_graph_that_inductor_compiled_has_the_figures_of_its_turns(
    backend: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_turns, "TIMED_CALLS", 3)
    monkeypatch.setattr(timed_turns, "waited", lambda: 0.0)
    ends = [0.0, *(0.0, 1.0, 0.0, 4.0, 0.0), *(0.0, 2.0, 0.0, 5.0, 0.0), *(0.0, 3.0, 0.0, 6.0, 0.0)]
    monkeypatch.setattr(timed_turns, "TIMED_SECONDS", 100.0)
    monkeypatch.setattr(timed_turns.time, "perf_counter", iter(ends).__next__)
    times = health.Health()
    times.measure(0, lambda: None, lambda: None, [])
    graph = SimpleNamespace(
        index=0,
        compile_id="no metrics have this",
        calls=3,
        backend=SimpleNamespace(compiler_name=backend),
        called_at=StackLine("a.py", 3, "f(x)", ""),
    )
    told = times.found([cast(Any, graph)]).timed
    assert [
        (one.place.line, one.turns, one.eager, one.compiled, one.eager_slow, one.compiled_fast) for one in told
    ] == ([(3, 3, 2.0, 5.0, 3.0, 4.0)] if is_told else [])


def test_nothing_is_said_where_no_turn_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_turns, "waited", itertools.count().__next__)
    monkeypatch.setattr(timed_turns, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(timed_turns, "TIMED_SECONDS", 0.0)
    times = health.Health()
    times.measure(0, lambda: None, lambda: None, [])
    seen = times.found()
    assert seen.eager_seconds is None
    assert seen.compiled_seconds is None
    assert seen.untimed == "other processes used the cores during every measurement"


def test_what_was_not_compiled_took_no_time_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.books, "get_compilation_metrics", list)
    seen = health.Health().found()
    assert seen.compile_seconds is None
    assert seen.untimed == "no call of a compiled graph returned"


HIDDEN = """
    import torch
    from torch._dynamo.variables.builder import VariableBuilder

    class Odd:
        pass

    wrap = VariableBuilder._wrap
    VariableBuilder._wrap = lambda self, value: value.no_such_name if isinstance(value, Odd) else wrap(self, value)
    torch._dynamo.config.suppress_errors = {suppressed}

    @torch.compile(backend="eager")
    def scaled(x, odd):
        return x.cos() if odd is None else x.sin() + (odd is not None)

    @torch.compile(backend="eager")
    def refused(x):
        raise ValueError("on purpose")

    scaled(torch.ones(2), None)
    for call in (lambda: scaled(torch.ones(2), Odd()), lambda: refused(torch.ones(2))):
        try:
            call()
        except Exception:
            pass
"""


@pytest.mark.parametrize("suppressed", [True, False])
def test_an_error_of_dynamos_own_is_seen_where_the_script_hides_it(
    child: Executor, tmp_path: Path, suppressed: bool
) -> None:
    path = script(tmp_path, HIDDEN.format(suppressed=suppressed))

    found = survey(child, path).finished

    assert found is not None and found.exception is None and found.health is not None
    (failed,) = found.health.failed
    assert "scaled" in failed and "AttributeError" in failed and "no_such_name" in failed


MANY = """
    import torch

    def first(x):
        return x.sin()

    torch.compile(first, backend="eager")(torch.ones(2))
    for number in range(64):
        scope = {}
        exec(f"def later_{number}(x): return x + {number}", scope)
        torch.compile(scope[f"later_{number}"], backend="eager")(torch.ones(2))
"""


def test_all_compilations_count_where_there_are_many(child: Executor, tmp_path: Path) -> None:
    found = survey(child, script(tmp_path, MANY)).finished

    assert found is not None and found.exception is None and found.health is not None
    assert found.health.frames[0].startswith("first, script.py line 4: ")


def test_the_time_of_compiling_is_unknown_where_compilations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = [
        SimpleNamespace(
            compile_id="0/0",
            co_name="f",
            co_filename="s.py",
            co_firstlineno=1,
            entire_frame_compile_time_s=2.0,
            fail_type=None,
            recompile_reason=None,
        )
    ] * 3
    times = health.Health()
    monkeypatch.setattr(health.books, "get_compilation_metrics", lambda: metrics)
    assert times.found().compile_seconds == 6.0
    monkeypatch.setattr(health, "MOST_COMPILATIONS", 3)
    assert times.found().compile_seconds is None

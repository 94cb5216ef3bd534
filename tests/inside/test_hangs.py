"""Compilers that do not come back, and scripts that are only long: real processes, sampled from outside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from children import SECONDS, place, script, survey, trial

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.watchdog import Limits, Watchdog
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature, signature_of
from minimizer.engine.reduce.python import Rerun, Source
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.errors import Cancelled
from minimizer.inside.questions import SurveyRequest
from minimizer.inside.wire import STOP
from minimizer.vocabulary import Kind, Reason, Status

SPIN = """
import time
import torch

def helper():
    time.sleep(0.001)

def spin(graph):
    while any(True for node in graph.nodes):
        helper()

def backend(gm, example):
    if any(node.target in ("cumsum", torch.cumsum) for node in gm.graph.nodes):
        spin(gm.graph)
    return gm
"""
COMPILED = "f = torch.compile(lambda x: x.cumsum(0) + 1, backend=backend)\n"
HEALTHY = "import time\nimport torch\nf = torch.compile(lambda x: x * 2 + 1, backend='eager')\nx = torch.ones(3)\n"


@pytest.fixture
def run(child: Executor, home: Path) -> Callable[..., Survey]:
    """Survey a script under a watchdog that is impatient."""

    def run(text: str, **limits: float) -> Survey:
        request = SurveyRequest(script=str(script(home, text)))
        watchdog = Watchdog(Limits(**{"floor": 3.0, "apart": 0.3, **limits}))
        return child.survey(request, timeout=SECONDS, watchdog=watchdog)

    return run


# hangs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.quality("slow")
def test_a_hang_is_held_at_its_graph_and_trials_of_it_hang_in_the_same_place(child: Executor, home: Path) -> None:
    path = script(home, SPIN + COMPILED + "f(torch.ones(3))\n")
    surveys = Surveys(child, path, args=[], steps=None, hang_after=4.0, values=True)
    found = Triage(surveys, on_note=lambda _: None).run()
    assert isinstance(found, Case)
    assert found.signature == Signature(Kind.HANG, where=":backend")
    assert "backend (script.py, line " in found.message
    assert [node.target for node in found.program.nodes if "cumsum" in node.target]
    found.survey.close()
    oracle = Oracle(child, found.survey, (found.signature,))
    hangs, healthy, elsewhere = child.judge(
        [
            trial("return x.cumsum(0)", setup=SPIN, compile_kwargs="backend=backend"),
            trial("return x + 1", setup=SPIN, compile_kwargs="backend=backend"),
            trial(
                "return x + 1",
                setup="import time\ndef other(gm, example):\n    time.sleep(1e6)",
                compile_kwargs="backend=other",
            ),
        ],
        timeout=SECONDS,
        watchdog=lambda: Watchdog(Limits(floor=4.0, apart=0.5)),
    )
    assert (hangs.ending, hangs.phase, healthy.ending, elsewhere.ending) == (
        "timeout",
        "compiled",
        "same",
        "timeout",
    )
    assert [oracle.same(outcome) for outcome in (hangs, healthy, elsewhere)] == [True, False, False]
    (other,) = oracle.also_seen
    assert other == signature_of(elsewhere) == Signature(Kind.HANG, where=":other")


def test_compiled_code_that_does_not_come_back(run: Callable[..., Survey]) -> None:
    stuck = "def stuck(gm, example):\n    return lambda *args: time.sleep(1e6)\n"
    found = run(f"import time\nimport torch\n{stuck}torch.compile(lambda x: x + 1, backend=stuck)(torch.ones(3))\n")
    assert found.silence is not None and found.silence.hangs
    assert (found.phase.doing, found.phase.graph, found.phase.call) == ("run", 0, 0)


@pytest.mark.quality("slow")
def test_a_backward_whose_compiler_does_not_come_back(run: Callable[..., Survey]) -> None:
    text = """
from torch._dynamo.backends.common import aot_autograd

def spin_backward(gm, example):
    while True:
        time.sleep(0.001)

backend = aot_autograd(fw_compiler=lambda gm, example: gm, bw_compiler=spin_backward)
x = torch.ones(3, requires_grad=True)
torch.compile(lambda x: x.sin(), backend=backend)(x).sum().backward()
"""
    found = run(f"import time\nimport torch\n{text}")
    assert found.silence is not None and found.silence.hangs
    assert found.silence.where == ":spin_backward"
    assert found.phase.graph == 0


@pytest.mark.quality("slow")
def test_dynamo_that_does_not_come_back_before_there_is_a_graph(
    run: Callable[..., Survey], child: Executor, home: Path
) -> None:
    text = """
import torch
from torch._dynamo import assume_constant_result

@assume_constant_result
def scale():
    while torch._guards.CompileContext.try_get() is not None:
        time.sleep(0.001)
    return 2.0

torch.compile(lambda x: x * scale(), backend="eager")(torch.ones(3))
"""
    found = run(f"import time\n{text}")
    assert found.silence is not None and found.silence.hangs
    assert found.silence.where == ":scale"
    assert found.phase.graph is None
    again = Rerun(child, home / "script.py")
    again.hangs, again.target = True, Signature(Kind.HANG, where=":scale")
    sources = [Source.parse(f"import time\n{text}"), Source.parse(f"import time\n{text.replace('while', 'if')}")]
    assert again.check(sources) == [True, False]


@pytest.mark.quality("slow")
def test_a_lock_that_is_never_released(run: Callable[..., Survey]) -> None:
    text = "import threading\nimport torch\ndef backend(gm, example):\n    threading.Lock().acquire() and threading.Event().wait()\n"
    found = run(text + "torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3))\n")
    assert found.silence is not None and found.silence.hangs
    assert found.silence.where == ":backend"


# scripts that are only long ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tail",
    [
        "while True:\n    f(x)\n",
        "for _ in range(20):\n    f(x)\ntime.sleep(1e6)\n",
        "for _ in range(20):\n    f(x)\nwhile True:\n    try:\n        x + 1\n    except BaseException:\n        pass\n",
    ],
    ids=["compiled calls", "sleep", "eager, catching everything"],
)
def test_a_long_script_ends_when_enough_was_compared(run: Callable[..., Survey], tail: str) -> None:
    found = run(HEALTHY + tail, floor=1000.0, quiet=0.5)
    assert found.finished is not None, found.log
    assert found.finished.stopped and found.finished.exception is None
    assert found.finished.checked.frames == 1
    assert found.finished.seconds and found.finished.checked.calls_made >= found.finished.checked.calls >= 8


def test_a_script_that_keeps_compiling_is_stopped_when_patience_ends(run: Callable[..., Survey]) -> None:
    tail = "for n in range(10_000):\n    torch.compiler.reset()\n    f(x)\n"
    found = run(HEALTHY + tail, floor=1000.0, patience=2.0)
    assert found.finished is not None, found.log
    assert found.finished.stopped and found.finished.checked.calls >= 1


def test_gradients_that_wait_to_be_compared_are_compared_before_a_stop(child: Executor, home: Path) -> None:
    """The script asks to be stopped itself: just after a backward."""
    text = f"""
import os
import torch

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def wrong(gm, example):
    return lambda *args: [Wrong.apply(out) for out in gm(*args)]

x = torch.ones(3, requires_grad=True)
f = torch.compile(lambda x: x.sin(), backend=wrong)
f(x).sum().backward()
os.kill(os.getpid(), {int(STOP)})
"""
    found = survey(child, script(home, text))
    assert found.held is not None, found.log
    assert found.held.failure.kind == "wrong_gradient"
    found.close()


def test_a_backward_that_is_being_compiled_is_not_replayed_from_within(child: Executor, home: Path) -> None:
    """The survey has lost its patience by then: it was told to end twice."""
    text = f"""
import os
import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func

def forward(gm, example):
    return make_boxed_func(gm.forward)

def backward(gm, example):
    for _ in range(2):
        os.kill(os.getpid(), {int(STOP)})
    return make_boxed_func(gm.forward)

x = torch.ones(3, requires_grad=True)
f = torch.compile(lambda x: x.sin(), backend=aot_autograd(fw_compiler=forward, bw_compiler=backward))
for _ in range(3):
    f(x).sum().backward()
"""
    found = survey(child, script(home, text))
    assert found.finished is not None and found.finished.stopped, found.log
    assert found.finished.checked.backward >= 1 and found.finished.notes == []


def test_a_long_healthy_script_is_healthy(child: Executor, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimizer.engine.survey.runs.QUIET", 0.5)
    path = script(home, HEALTHY + "while True:\n    f(x)\n")
    surveys = Surveys(child, path, args=[], steps=2, hang_after=1.0, values=True)
    found = Triage(surveys, on_note=lambda _: None).run()
    assert isinstance(found, Settled)
    assert found.status is Status.HEALTHY
    assert found.checked.calls == 2


def test_a_script_that_compiles_nothing_in_its_share_is_stopped(child: Executor, home: Path) -> None:
    path = script(home, "import time\nimport torch\ntime.sleep(1e6)\n")
    surveys = Surveys(child, path, args=[], steps=None, hang_after=60, values=True, budget=15)
    found = Triage(surveys, on_note=lambda _: None).run()
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.BUDGET)
    assert "before anything was compiled: no call had been compared; --budget 30 gives it 10 s" in found.summary


# giving up ------------------------------------------------------------------------------------------------------------


def test_what_is_under_way_ends_at_once_when_the_owner_gives_up(tmp_path: Path) -> None:
    """The executor lives on: what is left of the time is for writing down the best result so far."""
    pids: list[int] = []
    (tmp_path / "work").mkdir()
    told = tmp_path / "work" / "pid"

    def give_up_once() -> None:
        if not pids and told.exists() and (text := told.read_text()):
            pids.append(int(text))
            raise Cancelled("enough")

    with Executor(place(tmp_path), jobs=2, watch=give_up_once) as owned:
        owned.start()
        spin = f"open({str(told)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
        with pytest.raises(Cancelled):
            owned.judge([trial("return x", setup=spin)], timeout=SECONDS)
        waits = f"""
            def is_alive(pid):
                try:
                    return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
                except OSError:  # gone, or just going
                    return False

            while is_alive({pids[0]}):
                pass
        """
        (outcome,) = owned.judge([trial("return x", setup=waits)], timeout=SECONDS)
    assert outcome.ending == "same"


STOPS_ITSELF = """
import os, signal
@torch.compile(backend="eager")
def stop(x):
    y = x + 1
    os.kill(os.getpid(), signal.SIGRTMIN + 9)
    return y + 1
f(x)
stop(x)
"""


def test_a_script_can_be_stopped_inside_of_a_compiled_function(run: Callable[..., Survey]) -> None:
    """Dynamo looks at every function that begins in there, and would at those that tell what was found."""
    found = run(HEALTHY + STOPS_ITSELF, floor=1000.0)

    assert found.finished is not None, found.log
    assert found.finished.stopped and found.finished.exception is None
    assert found.finished.checked.frames >= 2

"""The warm child: whatever happens in a trial, it is told apart, and the next trial works."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from children import SECONDS, executor, place, survey, trial
from children import script as write_script

from minimizer.engine.budget.patience import CHILD_END_SECONDS
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.trouble import KILLED, AtFault, rule_for
from minimizer.engine.child.watchdog import Action
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.errors import Cancelled, ChildFailed, WorkerTrouble
from minimizer.inside.questions import GivenInput, ObserveRequest, SurveyRequest, TrialRequest
from minimizer.vocabulary import Kind

META = TensorMeta((4,), "torch.float32", (1,))
HELD = "import torch\n@torch.compile(backend=lambda gm, ex: 1 / 0)\ndef f(x):\n    return x + 1\nf(torch.ones(2))\n"
RELU = Program((Input("x", META, code="torch.ones(4)"),), (Node("y", "torch.relu", (Ref("x"),), meta=META),), ("y",))


@dataclass
class Switch:
    """Lets a test say that its owner asked to stop."""

    on: bool = False

    def watch(self) -> None:
        if self.on:
            raise Cancelled("enough")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def child(scratch: Path) -> Iterator[Executor]:
    with executor(scratch) as started:
        yield started


def judge(child: Executor, *requests: TrialRequest, timeout: float = SECONDS) -> list[Outcome]:
    return child.judge(requests, timeout=timeout)


def works(child: Executor) -> bool:
    """Whether an ordinary trial is answered as it should be."""
    (outcome,) = judge(child, trial("return x + 1"))
    return outcome.ending == "same"


def test_operators_are_seen_up_to_the_one_that_raises(child: Executor) -> None:
    """Where eager raises, and compiled code does not, that one is the culprit."""
    request = trial("return torch.linalg.inv(x.cos() * 0).sin()", inputs={"x": "torch.ones(2, 2)"})
    (outcome,) = child.judge([ObserveRequest(**vars(request))], timeout=SECONDS)
    assert outcome.ops[:3] == ["aten.cos", "aten.mul", "aten.linalg_inv_ex"]
    assert "aten.sin" not in outcome.ops


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL])
def test_trap_13_a_crash_is_reported_and_the_next_trial_works(child: Executor, number: signal.Signals) -> None:
    body = """
        if torch.compiler.is_compiling():
            return x
        return x
    """
    setup = f"""
        def crash(gm, example):
            os.kill(os.getpid(), {int(number)})
    """
    (outcome,) = judge(child, trial(body, setup=setup, compile_kwargs="backend=crash"))
    assert (outcome.ending, outcome.signal, outcome.phase) == ("crash", number, "compiled")
    assert works(child)


@pytest.mark.parametrize("victim", ["os.getpid()", "os.getppid()"])
def test_a_trial_that_is_killed_once_is_made_again(scratch: Path, child: Executor, victim: str) -> None:
    """By what goes on outside, say: the process of the trial, or all of the child."""
    marker = scratch / "work" / f"killed-{victim}"
    setup = f"""
        import time
        if not os.path.exists({str(marker)!r}):
            open({str(marker)!r}, "w").close()
            os.kill({victim}, 9)
            time.sleep(600)
    """
    (outcome,) = judge(child, trial("return x + 1", setup=setup))
    assert marker.exists()
    assert outcome.ending == "same"


EVERY_OTHER = """
    compilations = []

    def backend(gm, example):
        compilations.append(1)
        {}
        return (lambda *args: (args[0] + 1,)) if len(compilations) % 2 else gm
"""


def test_a_trial_may_compile_several_times(child: Executor) -> None:
    request = trial("return x * 1", setup=EVERY_OTHER.format("pass"), compile_kwargs="backend=backend", compilations=5)
    all_of_it, until_second = child.repeat(
        [replace(request, failures=9), replace(request, failures=2)], timeout=SECONDS
    )
    assert [o.ending for o in all_of_it] == ["different", "same", "different", "same", "different"]
    assert [o.ending for o in until_second] == ["different", "same", "different"]
    assert [o.ending for o in child.judge([request], timeout=SECONDS)] == ["different"]


def test_what_was_seen_before_a_crash_counts(child: Executor) -> None:
    setup = EVERY_OTHER.format("len(compilations) == 3 and os.abort()")
    request = trial("return x * 1", setup=setup, compile_kwargs="backend=backend", compilations=5, failures=5)
    (outcomes,) = child.repeat([request], timeout=SECONDS)
    assert [o.ending for o in outcomes] == ["different", "same", "crash"]
    assert outcomes[-1].signal == signal.SIGABRT


def test_no_compilation_is_begun_after_the_time_for_them(child: Executor) -> None:
    request = trial("return x * 1", compile_kwargs="backend='eager'", compilations=1000, seconds=0.0)
    assert len(child.repeat([request], timeout=SECONDS)[0]) == 1


def test_eager_that_changes_its_mind_is_found_where_a_failure_comes_and_goes(child: Executor) -> None:
    setup = """
        calls = []

        @torch.library.custom_op("test::sometimes", mutates_args=())
        def sometimes(x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return x + (len(calls) % 5 == 2)

        @sometimes.register_fake
        def _(x):
            return torch.empty_like(x)
    """
    request = trial("return torch.ops.test.sometimes(x)", setup=setup, compilations=4, failures=4)
    (outcomes,) = child.repeat([request], timeout=SECONDS)
    assert "different" in [o.ending for o in outcomes]
    assert outcomes[-1].ending == "nondeterministic"


def test_a_crash_before_the_compiler_is_told_by_its_phase(child: Executor) -> None:
    setup, eager = judge(
        child,
        trial("return x", setup="os.abort()"),
        trial("os.abort() if not torch.compiler.is_compiling() else None\nreturn x"),
    )
    assert (setup.ending, setup.phase) == ("crash", "setup")
    assert (eager.ending, eager.phase) == ("crash", "eager")


def test_a_crash_while_gradients_are_judged_is_not_one_of_the_compiled_backward(child: Executor) -> None:
    setup = """
        runs = []

        @torch.library.custom_op("test::deadly", mutates_args=())
        def deadly(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        def backward(ctx, grad):
            runs.append(1)  # eager, compiled, and the referee's
            return os.abort() if len(runs) == 3 else grad * len(runs)

        deadly.register_fake(torch.empty_like)
        deadly.register_autograd(backward)
    """
    inputs = [GivenInput(name="x", code="torch.ones(4)", requires_grad=True)]
    (outcome,) = judge(child, replace(trial("return torch.ops.test.deadly(x)", setup=setup, grad=True), inputs=inputs))
    assert (outcome.ending, outcome.phase) == ("crash", "compare")


def test_a_trial_that_hangs_is_killed_with_all_it_started(child: Executor, scratch: Path) -> None:
    pid_file = scratch / "work" / "pid"
    setup = f"""
        import subprocess
        sleeper = subprocess.Popen(["sleep", "600"])
        open("{pid_file}", "w").write(str(sleeper.pid))
        while True:
            pass
    """
    (outcome,) = judge(child, trial("return x", setup=setup), timeout=3)
    assert (outcome.ending, outcome.phase) == ("timeout", "setup")
    pid = int(pid_file.read_text())
    looks = f"""
        def is_alive(pid):
            try:
                return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
            except FileNotFoundError:
                return False

        print("sleeper is", "alive" if is_alive({pid}) else "gone", flush=True)
    """
    (outcome,) = judge(child, trial("return x", setup=looks))
    assert "sleeper is gone" in outcome.log


def test_a_trial_says_which_inputs_its_function_changes(child: Executor) -> None:
    setup = """
        @torch.library.custom_op("lib::hidden", mutates_args=())
        def hidden(x: torch.Tensor) -> torch.Tensor:
            x.zero_()
            return x + 1
    """
    nan = {"x": 'torch.full((2,), float("nan"))'}
    outcomes = judge(
        child,
        trial("return torch.ops.lib.hidden(x)", setup=setup),
        trial("return x + 1"),
        trial("return x + 1", inputs=nan),
        trial("return torch.ops.lib.hidden(x)", setup=setup, inputs=nan),
    )
    assert [outcome.writes for outcome in outcomes] == [[0], [], [], [0]]


@pytest.mark.parametrize(
    "made", ["torch.zeros(2)", "torch.zeros(2, requires_grad=True)", "torch.zeros(2, dtype=torch.complex64)"]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_trial_says_whether_its_zeros_have_other_signs(child: Executor, made: str, sign: int) -> None:
    """They are equal, and what follows may read them, which a search among the parts of a graph has to know."""
    setup = f"def backend(gm, example):\n    return lambda *args: [gm(*args)[0] * {sign}]"
    request = trial("return x * 1", setup=setup, inputs={"x": made}, compile_kwargs="backend=backend")
    if "requires_grad" in made:
        request = replace(request, inputs=[replace(request.inputs[0], requires_grad=True)], backward=False)
    (outcome,) = judge(child, request)
    assert outcome.ending is Ending.SAME and outcome.verdict is not None
    assert outcome.verdict.other_zeros is (sign < 0)


def test_what_a_trial_prints_is_its_log_and_nothing_else(child: Executor) -> None:
    forged = json.dumps({"id": 1, "message": {"type": "outcome", "ending": "different"}})
    setup = f"""
        import sys
        print({forged!r})
        print("to stderr", file=sys.stderr, flush=True)
        os.write(1, b"\\xff\\x00 raw bytes\\n")
        os.system("echo from a shell")
    """
    (outcome,) = judge(child, trial("return x + 1", setup=setup))
    assert outcome.ending == "same"
    for said in ("to stderr", "raw bytes", "from a shell", forged):
        assert said in outcome.log


def test_a_trial_that_reads_its_input_finds_none(child: Executor) -> None:
    (outcome,) = judge(child, trial("return x", setup="import sys\nassert sys.stdin.read() == ''"))
    assert outcome.ending == "same"


def test_trials_leave_nothing_behind(child: Executor) -> None:
    judge(
        child,
        trial("return x", setup="torch.set_default_dtype(torch.float64)\nos.environ['LEFT'] = '1'\nos.chdir('/')"),
    )
    setup = "assert torch.get_default_dtype() is torch.float32 and 'LEFT' not in os.environ and os.getcwd() != '/'"
    (outcome,) = judge(child, trial("return x", setup=setup))
    assert outcome.ending == "same"


def test_a_trial_collects_its_garbage(child: Executor) -> None:
    """Its parent looks for none while it imports."""
    (outcome,) = judge(child, trial("return x", setup="import gc\nassert gc.isenabled()"))
    assert outcome.ending == "same"


def test_parallel_trials_come_back_in_order(child: Executor) -> None:
    kinds = ["same", "setup_error", "crash", "eager_error", "runtime_error", "same", "lost"]
    requests = {
        "same": trial("return x + 1"),
        "setup_error": trial("return x", setup="import no_such_module"),
        "crash": trial("return x", setup="os.abort()"),
        "eager_error": trial("raise ValueError('always')"),
        "runtime_error": trial(
            "return x + 1",
            setup="def fail(*args):\n    raise ValueError('only compiled')\n\ndef backend(gm, example):\n    return fail",
            compile_kwargs="backend=backend",
        ),
        "lost": trial("return x", setup="raise SystemExit(3)"),
    }
    assert [outcome.ending for outcome in judge(child, *(requests[kind] for kind in kinds))] == kinds


def test_trap_06_an_interrupt_is_no_answer(child: Executor) -> None:
    backend = "def backend(gm, example):\n    raise KeyboardInterrupt"
    (outcome,) = judge(child, trial("return x + 1", setup=backend, compile_kwargs="backend=backend"))
    assert outcome.ending == "lost"
    assert outcome.rule.fault is AtFault.MACHINE


def test_an_unset_environment_is_what_a_trial_sees(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TORCH_SECRET", "swordfish")
    with executor(tmp_path, home) as child:
        (outcome,) = judge(child, trial("return x", setup="print(dict(os.environ), flush=True)"))
    assert "TORCHINDUCTOR_CACHE_DIR" in outcome.log
    assert "swordfish" not in outcome.log


@pytest.mark.quality("slow")
@pytest.mark.parametrize(
    ("length", "symptom"),
    [
        (40, "file too short"),
        (100, "cannot read file data"),
        (4000, "SIGBUS"),
    ],
)
def test_a_truncated_kernel_is_never_taken_for_the_bug(child: Executor, length: int, symptom: str) -> None:
    """A trial killed while it compiles leaves a truncated library, which the next one loads."""
    targets = (
        Signature(Kind.COMPILE_ERROR, "ImportError", f"PATH: {symptom}"),
        Signature(Kind.CRASH, signal=signal.SIGBUS),
    )
    oracle = Oracle(child, cast(Survey, None), targets)
    assert [o.ending for o in oracle.judge([RELU])] == ["same"]
    kernels = list(child.cache.rglob("*.main.so"))
    assert kernels
    whole = {kernel: kernel.read_bytes() for kernel in kernels}
    for kernel, content in whole.items():
        kernel.write_bytes(content[:length])
    (broken,) = judge(child, oracle.request(RELU))
    shown = broken.exception.root_message if broken.exception else signal.Signals(broken.signal or 0).name
    assert symptom in shown
    assert oracle.check([RELU]) == [False]
    assert not oracle.also_seen
    for kernel, content in whole.items():
        kernel.write_bytes(content)


def test_a_killed_zygote_is_started_again(scratch: Path, child: Executor) -> None:
    path = write_script(scratch / "work", HELD)
    before = survey(child, path)
    assert before.held is not None
    assert child._connection._process is not None
    child.place.sandbox.kill(child._connection._process)
    assert [o.ending for o in judge(child, trial("return x + 1"), trial("return x + 2"))] == ["same", "same"]
    with pytest.raises(WorkerTrouble):
        before.literal("x")
    assert works(child)


def test_whoever_waits_when_the_zygote_dies_is_told(child: Executor) -> None:
    """A trial that takes its zygote with it, as far as a trial can."""
    (outcome,) = judge(child, trial("return x", setup="os.kill(os.getppid(), 9)\nimport time\ntime.sleep(600)"))
    assert outcome.ending == "lost"
    assert works(child)


@pytest.mark.quality("slow")
def test_a_zygote_that_a_script_stopped_is_ended(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing more, and whoever writes to it would wait for good."""
    monkeypatch.setattr("minimizer.engine.child.wire.CHILD_WRITE_SECONDS", 1.0)
    stop = "import signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)"
    with executor(scratch / "stopped") as stopped, ThreadPoolExecutor(1) as pool:
        first = pool.submit(judge, stopped, trial("return x", setup=stop))
        with pytest.raises(ChildFailed, match="nothing was read"):
            while True:
                stopped._connection._write({"op": Action.KILL.value, "to": 0, "padding": " " * 100_000})
        assert [o.ending for o in first.result()] == ["lost"]
        assert works(stopped)


WRITES = """
    import stat
    own = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISFIFO(os.fstat(fd).st_mode)]
    for fd in own:
        try:
            os.write(fd, LINE)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"garbage\n", marks=pytest.mark.quality("slow")),
        b"[" * 50_000 + b"\n",
        pytest.param(b'{}, "end": 5\n', marks=pytest.mark.quality("slow")),
        pytest.param(b'{"type": "held"}\n', marks=pytest.mark.quality("slow")),
        b'{"type": "finished", "checked": 3}\n',
    ],
    ids=lambda line: line[:30].decode("latin-1"),
)
def test_garbage_from_a_script_is_a_failed_child(child: Executor, scratch: Path, line: bytes) -> None:
    """A hostile script can write to the pipes of its own process. It harms its own job only, and that at once."""
    path = write_script(
        scratch / "work", f"import os\nLINE = {line!r}\n" + re.sub(r"(?m)^    ", "", WRITES), "hostile.py"
    )
    with pytest.raises(ChildFailed):
        survey(child, path, compile=False)
    assert works(child)


@pytest.mark.quality("slow")
def test_messages_that_nobody_takes_end_the_child(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that is held and goes on talking would fill our memory."""
    monkeypatch.setattr("minimizer.engine.child.wire.MAX_WAITING", 1000)
    flood = """
        import os, stat
        import torch
        import torch._inductor.config as config

        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
        if os.fork() == 0:
            own = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISFIFO(os.fstat(fd).st_mode)]
            while True:
                for fd in own:
                    try:
                        os.write(fd, b'{"type": "phase"}\\n' * 100)
                    except OSError:
                        pass
        torch.compile(torch.relu)(torch.ones(4))
    """
    with executor(scratch / "flooded") as flooded:
        process = flooded._connection._process
        assert process is not None
        with suppress(ChildFailed):
            survey(flooded, write_script(scratch / "flooded" / "work", flood))
        process.wait(SECONDS)
        assert works(flooded)


def test_garbage_from_a_trial_is_no_failure_of_the_program(child: Executor) -> None:
    (outcome,) = judge(child, trial("return x", setup="LINE = b'garbage\\n'\n" + re.sub(r"(?m)^    ", "", WRITES)))
    assert outcome.rule.fault is AtFault.MACHINE
    assert works(child)


def test_a_python_that_has_no_torch_says_so(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "shadow").mkdir()
    broken = tmp_path / "work" / "shadow" / "torch.py"
    broken.write_text("raise ImportError('libtorch_cpu.so is not what it was')\n")
    starting = Executor(place(tmp_path, env={"PYTHONPATH": str(broken.parent)}), jobs=1, watch=lambda: None)
    with pytest.raises(ChildFailed, match=r"did not start: ImportError: libtorch_cpu\.so is not what it was"):
        starting.start()


def test_a_child_that_is_killed_before_its_first_word_is_the_machines_trouble(tmp_path: Path) -> None:
    """As one that the kernel ends for want of memory: the script has not had a say."""
    (tmp_path / "work").mkdir()
    shadow = tmp_path / "work" / "shadow"
    shadow.mkdir()
    (shadow / "torch.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    starting = Executor(place(tmp_path, env={"PYTHONPATH": str(shadow)}), jobs=1, watch=lambda: None)
    with pytest.raises(WorkerTrouble, match="did not start"):
        starting.start()


def test_a_run_that_nobody_needs_any_more_is_ended(scratch: Path, child: Executor) -> None:
    script = write_script(scratch, "import time\ntime.sleep(600)\n")
    over = threading.Event()
    over.set()
    with pytest.raises(Cancelled):
        child.survey(SurveyRequest(script=str(script)), timeout=SECONDS, over=over)
    assert works(child)


def test_a_child_that_is_killed_while_the_script_runs_is_the_machines_trouble(scratch: Path, child: Executor) -> None:
    script = scratch / "victim.py"
    script.write_text("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)\n")
    request = SurveyRequest(script=str(script), compile=False)
    with pytest.raises(WorkerTrouble, match="the child that ran the script was killed"):
        child.survey(request, timeout=SECONDS)
    assert works(child)


def below(pid: int) -> list[int]:
    """All that came of a process, parents before children."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [grandchild for child in found for grandchild in below(child)]


@pytest.mark.parametrize(
    "which", ["the holder", *(pytest.param(one, marks=pytest.mark.quality("slow")) for one in ("bwrap", "the zygote"))]
)
def test_a_holder_that_is_killed_is_the_machines_trouble(scratch: Path, child: Executor, which: str) -> None:
    held = survey(child, write_script(scratch / "work", HELD))
    assert held.held is not None
    process = child._connection._process
    assert process is not None
    _, zygote, holder = below(process.pid)
    end_of_holder = os.pidfd_open(holder)
    os.kill({"bwrap": process.pid, "the zygote": zygote, "the holder": holder}[which], signal.SIGKILL)
    assert select.select([end_of_holder], [], [], SECONDS)[0]
    os.close(end_of_holder)
    with pytest.raises(WorkerTrouble, match="holder of the graph was killed"):
        held.program("dynamo")
    held.close()  # harmless: what led here is what its owner has to say
    assert works(child)


@pytest.mark.quality("slow")
def test_a_child_whose_exit_is_slow_is_the_machines_trouble(
    scratch: Path, child: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it ended cannot be told: the one that would report it gets no processor."""
    monkeypatch.setattr("minimizer.engine.child.connection.CHILD_END_SECONDS", 0.2)
    held = survey(child, write_script(scratch / "work", HELD))
    process = child._connection._process
    assert process is not None
    _, zygote, _ = below(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(zygote, signal.SIGABRT)
    with pytest.raises(WorkerTrouble, match="had not ended within"):
        held.program("dynamo")
    assert works(child)


@pytest.mark.quality("slow")
def test_a_run_whose_end_nobody_tells_is_the_machines_trouble(
    scratch: Path, child: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimizer.engine.child.executor.CHILD_LATE_SECONDS", 0.0)
    script = write_script(scratch / "work", "pass\n")
    request = SurveyRequest(script=str(script), compile=False)
    assert works(child)
    process = child._connection._process
    assert process is not None
    os.kill(below(process.pid)[1], signal.SIGSTOP)
    with pytest.raises(WorkerTrouble, match="has not said within 1 s how the script ended"):
        child.survey(request, timeout=1)
    child.place.sandbox.kill(process)
    assert works(child)


@pytest.mark.parametrize(("crowding", "expected"), [(4.0, WorkerTrouble), (1.0, ChildFailed)])
def test_a_holder_that_is_late_is_the_machines_trouble_if_that_is_crowded(
    scratch: Path, child: Executor, monkeypatch: pytest.MonkeyPatch, crowding: float, expected: type[Exception]
) -> None:
    held = survey(child, write_script(scratch / "work", HELD))
    process = child._connection._process
    assert process is not None
    os.kill(below(process.pid)[-1], signal.SIGSTOP)
    monkeypatch.setattr("minimizer.engine.child.connection.CHILD_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr("minimizer.engine.child.connection.crowding", lambda: crowding)
    with pytest.raises(expected, match="has not answered within"):
        held.program("dynamo")
    held.close()


@pytest.mark.quality("slow")
def test_how_an_earlier_child_ended_is_not_laid_to_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits may see that the child is dead before the one who listens knows why."""
    polls = threading.Semaphore(0)
    wait = subprocess.Popen.wait

    def wait_and_be_late(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        status = wait(process, timeout)
        if timeout == CHILD_END_SECONDS:
            while polls.acquire(blocking=False):
                pass
            for _ in range(3):
                polls.acquire(timeout=10)
        return status

    with Executor(place(tmp_path), jobs=1, watch=polls.release) as starting:
        starting.start()
        killed = write_script(tmp_path / "work", "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)\n", "a.py")
        with pytest.raises(WorkerTrouble):
            survey(starting, killed, compile=False)
        monkeypatch.setattr(subprocess.Popen, "wait", wait_and_be_late)
        ended = write_script(tmp_path / "work", "import os, time\nos.kill(os.getppid(), 6)\ntime.sleep(600)\n", "b.py")
        with pytest.raises(ChildFailed):
            survey(starting, ended, compile=False)


@pytest.mark.quality("slow")
def test_a_child_that_was_killed_is_known_as_such_though_another_takes_its_place_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next task may start a new child before the one who listens has told what became of the old."""
    with Executor(place(tmp_path), jobs=1, watch=lambda: None) as starting:
        starting.start()
        connection = starting._connection
        process, life, sandbox = connection._process, connection._life, connection.place.sandbox
        assert process is not None
        is_taken_down = threading.Event()
        wait, kill = subprocess.Popen.wait, type(sandbox).kill

        def wait_until_it_is_taken_down(one: subprocess.Popen[bytes], timeout: float | None = None) -> int:
            if one is process and timeout == CHILD_END_SECONDS:
                is_taken_down.wait(SECONDS)
            return wait(one, timeout)

        def take_down(self: Any, one: subprocess.Popen[bytes]) -> None:
            is_taken_down.set()
            kill(self, one)

        monkeypatch.setattr(subprocess.Popen, "wait", wait_until_it_is_taken_down)
        monkeypatch.setattr(type(sandbox), "kill", take_down)
        os.kill(process.pid, signal.SIGKILL)
        wait(process)
        assert judge(starting, trial("return x"))
        assert life.death is not None and rule_for(life.death) is KILLED


def test_waiting_ends_when_the_owner_asks_and_an_ended_child_is_not_started_again(tmp_path: Path) -> None:
    switch = Switch()
    starting = Executor(place(tmp_path), jobs=1, watch=switch.watch)
    with starting:
        starting.start()
        switch.on = True
        with pytest.raises(Cancelled):
            judge(starting, trial("return x", setup="while True: pass"))
        process = starting._connection._process
    assert process is not None
    assert process.poll() is not None
    assert starting._connection._process is None
    switch.on = False
    with pytest.raises(ChildFailed, match="ended"):  # which is for good
        judge(starting, trial("return x + 1"))
    assert starting._connection._process is None


def test_a_memory_limit_is_the_trials_own(scratch: Path, child: Executor) -> None:
    (outcome,) = judge(child, trial("return x", setup="import torch\ntorch.ones(1 << 30)", memory=2 << 30))
    assert outcome.ending == "setup_error"
    assert outcome.rule.fault is AtFault.MACHINE
    assert works(child)


def test_pids_of_trials_are_gone_when_they_are_judged(child: Executor) -> None:
    (outcome,) = judge(child, trial("return x", setup="print('pid', os.getpid(), flush=True)"))
    pid = re.search(r"pid (\d+)", outcome.log)
    assert pid is not None
    looks = f"assert not os.path.exists('/proc/{pid[1]}')"
    (after,) = judge(child, trial("return x", setup=looks))
    assert after.ending == "same"
    assert os.getpid() != int(pid[1])

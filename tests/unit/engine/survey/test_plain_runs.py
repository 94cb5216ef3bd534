"""What a script does untouched, and what that makes of a healthy verdict. In the place of torch these scripts import a stub of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import cast

import pytest

from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending
from minimizer.engine.child.protocol import Checked
from minimizer.engine.reduce.python import Source, reduce_script
from minimizer.engine.survey import plain_runs
from minimizer.engine.survey.cases import Settled
from minimizer.engine.survey.plain_pair import PlainPair
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.rules import decide
from minimizer.engine.survey.verdict_rules import PLAIN
from minimizer.inside.questions import WITHOUT_KERNELS
from minimizer.sandbox import choose_sandbox, real_interpreter, runtime_paths
from minimizer.vocabulary import Kind, Reason, Status

STUB = {
    "torch/__init__.py": (
        "import os\nfrom . import compiler\ndef manual_seed(seed): pass\n"
        "def compile(f, backend='inductor'):\n"
        "    return lambda: f() + (backend == 'inductor' and 'TORCHDYNAMO_DISABLE' not in os.environ)\n"
    ),
    "torch/compiler.py": "stance = ''\ndef set_stance(to):\n    global stance\n    stance = to\n",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/config.py": "fallback_random = False\n",
    "torch/_dynamo/__init__.py": "",
    "torch/_dynamo/exc.py": "class Unsupported(Exception): pass\n",
    "torch/_dynamo/eval_frame.py": "def call(function):\n    return function()\n",
}
MODE = """
import os
import sys
import time
import torch
from torch._dynamo.eval_frame import call

disabled, forced = "TORCHDYNAMO_DISABLE" in os.environ, torch.compiler.stance == "force_eager"
compiled = not disabled and not forced
config = sys.modules.get("torch._inductor.config")
fallback = config is not None and config.fallback_random


def check():
    assert compiled, "inside"


"""
HEALTHY = Settled(Status.HEALTHY, None, "Healthy.", Checked(frames=1, calls=2))
TWO = ["plain run, compiled", "plain run, TORCHDYNAMO_DISABLE=1"]
Judge = Callable[[str], tuple[Settled, PlainRuns, list[str]]]


def is_excused(found: Settled, rule: str) -> bool:
    """Whether the verdict stays as it was, but for this one excuse."""
    return replace(found, excused=()) == HEALTHY and [one.rule for one in found.excused] == [rule]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    python, stub = real_interpreter(Path(sys.executable)), tmp_path / "stub"
    for name, text in STUB.items():
        (stub / name).parent.mkdir(parents=True, exist_ok=True)
        (stub / name).write_text(text)
    (tmp_path / "home").mkdir()
    return Place(
        python=python,
        sandbox=choose_sandbox("off"),
        scratch=tmp_path / "shared",
        read=[*runtime_paths(python), stub, tmp_path / "home"],
        env={"PYTHONPATH": str(stub)},
    )


@pytest.fixture
def judge(place: Place, tmp_path: Path) -> Judge:
    """Hold a healthy verdict against a script whose body is given."""

    def judged(body: str) -> tuple[Settled, PlainRuns, list[str]]:
        script, notes = tmp_path / "home" / "script.py", list[str]()
        script.write_text(MODE + dedent(body))
        with runs_of(place, script, notes) as plain:
            return against(HEALTHY, plain), plain, notes

    return judged


def against(found: Settled, plain: PlainRuns) -> Settled:
    return decide(PLAIN, PlainPair(found, plain, *plain.pair()))[1]


def runs_of(place: Place, script: Path, notes: list[str], left: float = 100.0) -> PlainRuns:
    return PlainRuns(place, script, ["--fast"], nproc=1, left=lambda: left, watch=lambda: None, on_note=notes.append)


def test_a_script_that_ends_well_with_and_without_the_compiler_stays_healthy(judge: Judge) -> None:
    found, plain, notes = judge("assert sys.argv[1:] == ['--fast']")
    assert found is HEALTHY
    assert [(attempt.what, attempt.outcome) for attempt in plain.attempts] == [(what, "it ends well") for what in TWO]
    assert notes == []


def test_nothing_of_ours_is_in_a_plain_run_and_nothing_of_an_earlier_one(
    judge: Judge, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (place.origin / "beside.txt").write_text("beside")
    found, _, _ = judge(
        """
        ours = [name for name in os.environ if name.startswith(("TORCH", "PYTHON", "OMP", "MKL", "MINIMIZER"))]
        assert set(ours) <= {"PYTHONPATH", "TORCHDYNAMO_DISABLE"}, ours
        assert open("beside.txt").read() == "beside"
        open("beside.txt", "w").write("changed")
        os.mkdir("checkpoints")
        os.mkdir(os.path.expanduser("~/checkpoints"))
        assert __name__ == "__main__" and os.path.basename(__file__) == "script.py"
        """
    )
    assert found is HEALTHY
    assert not list((place.scratch.with_name("shared.private")).glob("plain-*"))


def test_a_check_that_always_fails_with_the_compiler_is_unexplained_and_the_setting_that_hides_it_is_named(
    judge: Judge,
) -> None:
    found, plain, _ = judge("assert fallback or not compiled, 'another dtype'")
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.UNEXPLAINED, Kind.WRONG_OUTPUT)
    assert (found.failed, found.runs, found.checked) == (2, 2, HEALTHY.checked)
    assert "2 of 2" in found.summary and "another dtype" in found.summary
    assert "alone to such a run: fallback_random." in found.summary
    assert found.traceback.startswith('Traceback (most recent call last):\n  File "script.py", line ')
    assert found.traceback.endswith("AssertionError: another dtype")
    assert [attempt.what.rpartition("with ")[2] for attempt in plain.attempts[-5:]] == [
        "fallback_random", "caches", "threads", "wait_policy", "seed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "setting"),
    [
        ("assert not compiled or os.environ.get('TORCHINDUCTOR_FX_GRAPH_CACHE') == '0'", "run: caches."),
        ("assert not compiled or os.environ.get('TORCHINDUCTOR_COMPILE_THREADS') == '1'", "run: threads."),
        ("assert not compiled", "None of our settings"),
    ],
)
def test_each_setting_is_tried_by_itself(judge: Judge, body: str, setting: str) -> None:
    found, _, _ = judge(body)
    assert found.reason is Reason.UNEXPLAINED
    assert setting in found.summary


@pytest.mark.fault_behind("about_compiler", "plain_runs_unsteady", "plain_runs_unknown")
@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("if compiled:\n    os.abort()", Kind.CRASH, "SIGABRT"),
        ("if compiled:\n    sys.exit(3)", Kind.RUNTIME_ERROR, "exit status 3"),
        ("if compiled:\n    int('x')", Kind.RUNTIME_ERROR, "ValueError: invalid literal"),
        ("if not compiled:\n    int('x')", Kind.MISSING_ERROR, "ValueError: invalid literal"),
        ("call(check)", Kind.MISSING_ERROR, "AssertionError: inside"),
    ],
)
def test_whatever_is_steadily_different_is_a_failure(judge: Judge, body: str, kind: Kind, says: str) -> None:
    found, _, _ = judge(body)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.UNEXPLAINED, kind)
    assert says in found.summary


@pytest.mark.parametrize("body", ["assert disabled, 'not disabled'", "raise ValueError('no data')"])
def test_what_fails_without_the_compiler_too_is_the_scripts_own(judge: Judge, body: str) -> None:
    """The first one reads the variable: by the stance it fails as well."""
    found, _, notes = judge(body)
    assert (found.status, found.reason, found.kind) == (Status.FAILED, Reason.FAILS_IN_EAGER, None)
    assert any("looks at the compiler" in note for note in notes) is ("disabled" in body)


def test_a_wrapper_that_is_missed_in_eager_is_no_difference(judge: Judge) -> None:
    found, _, notes = judge("if disabled:\n    object()._orig_mod")
    assert found is HEALTHY
    assert any("looks at the compiler" in note and "_orig_mod" in note for note in notes)


@pytest.mark.needs_excuse("about_compiler")
def test_a_check_of_the_compiler_may_fail_without_it(judge: Judge) -> None:
    found, _, notes = judge("graphs = 1 if compiled else 0\nassert graphs == 1, 'no graph'")
    assert is_excused(found, "about_compiler")
    assert any("it is about the compiler" in note and "no graph" in note for note in notes)


def test_a_check_that_reads_a_clock_is_disputed(judge: Judge) -> None:
    found, _, _ = judge(
        """
        begun = time.perf_counter()
        took = time.perf_counter() - begun + (1000 if compiled else 0)
        assert took < 999, "slower than eager"
        """
    )
    assert (found.status, found.reason, found.runs) == (Status.PARTIAL, Reason.DISPUTED, 2)
    assert "slower than eager" in found.summary


@pytest.mark.needs_excuse("plain_runs_unsteady")
def test_what_is_not_steady_is_told_and_no_verdict(judge: Judge, tmp_path: Path) -> None:
    once = tmp_path / "once"
    found, _, notes = judge(
        f"if compiled and not os.path.exists({str(once)!r}):\n    os.mkdir({str(once)!r})\n    int('x')"
    )
    assert is_excused(found, "plain_runs_unsteady")
    assert any("not end in the same way every time" in note for note in notes)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("while True:\n    pass", "did not end within"),
        ("if compiled:\n    raise MemoryError", "too little memory"),
        ("if compiled:\n    os.kill(os.getpid(), 9)", "ended it"),
    ],
)
def test_trouble_of_the_machine_is_no_verdict(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, body: str, says: str
) -> None:
    monkeypatch.setattr(plain_runs, "PLAIN_SECONDS", 1.0)
    found, _, notes = judge(body)
    assert is_excused(found, "plain_runs_unknown")
    assert any("says nothing" in note and says in note for note in notes)


@pytest.mark.parametrize("budget", [pytest.param(100.0, marks=pytest.mark.quality("slow")), 0.5])
def test_a_script_that_ends_soon_without_the_compiler_and_never_with_it_is_not_healthy(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float
) -> None:
    monkeypatch.setattr(plain_runs, "PLAIN_SECONDS", 2.0)
    monkeypatch.setattr(plain_runs, "FAR", 1)
    script, notes = tmp_path / "home" / "script.py", list[str]()
    script.write_text(MODE + "while compiled:\n    time.sleep(0.1)")
    with runs_of(place, script, notes, left=budget) as plain:
        found = against(HEALTHY, plain)
    if budget < 2:
        assert is_excused(found, "plain_runs_unknown"), "what was cut off by the budget shows no hang"
        assert any("says nothing" in note for note in notes)
    else:
        assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.UNEXPLAINED, Kind.HANG)
        assert "2 of 2 runs" in found.summary and HEALTHY.summary in found.summary


@pytest.mark.parametrize(
    ("body", "reason"), [("pass", Reason.NOT_VERIFIED), ("if compiled:\n    int('x')", Reason.UNEXPLAINED)]
)
def test_a_failure_that_no_graph_shows_stays_one(place: Place, tmp_path: Path, body: str, reason: Reason) -> None:
    seen = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "It fails only with the compiler.", kind=Kind.RUNTIME_ERROR)
    script = tmp_path / "home" / "script.py"
    script.write_text(MODE + body)
    with runs_of(place, script, []) as plain:
        found = against(seen, plain)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, reason, Kind.RUNTIME_ERROR)
    assert "Our own runs of it show no failure" not in found.summary


@pytest.mark.needs_excuse("plain_runs_unknown")
def test_a_run_that_cannot_be_started_says_nothing(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.sandbox, "start", _no_room)
    script, notes = tmp_path / "home" / "script.py", list[str]()
    script.write_text(MODE)
    with runs_of(place, script, notes) as plain:
        assert is_excused(against(HEALTHY, plain), "plain_runs_unknown")
    assert any("No space left" in note for note in notes)


def _no_room(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_runs_that_nobody_waits_for_end_with_the_job(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "home" / "script.py"
    script.write_text("while True:\n    pass\n")
    with runs_of(place, script, []) as plain:
        plain.begin()
    assert not list(place.scratch.with_name("shared.private").glob("plain-*"))


FULL = "import torch as t\nclass OutOfMemoryError(RuntimeError):\n    __module__ = 'torch'\n"
CROWDED = (
    FULL
    + """
import pathlib
room = pathlib.Path({room!r})
room.mkdir(exist_ok=True)
mine = room / f"run-{{os.getpid()}}"
mine.touch()
first = room / "two-have-met"
try:
    while not first.exists():
        if len(list(room.glob("run-*"))) > 1:
            first.touch()
    if len(list(room.glob("run-*"))) > 1 or not (room / "alone-now").exists():
        (room / "alone-now").touch()
        raise OutOfMemoryError("CUDA out of memory.")
finally:
    mine.unlink()
{rest}
"""
)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("", None),
        ("if compiled: raise OutOfMemoryError('CUDA out of memory.')", Reason.UNEXPLAINED),
        ("raise OutOfMemoryError('CUDA out of memory.')", Reason.FAILS_IN_EAGER),
    ],
)
def test_what_runs_out_of_gpu_memory_beside_another_run_is_asked_again_by_itself(
    judge: Judge, tmp_path: Path, rest: str, reason: Reason | None
) -> None:
    """Two runs at once have no room for each other; what one does that has the GPU to itself is what counts."""
    found, plain, _ = judge(CROWDED.format(room=str(tmp_path / "room"), rest=rest))
    assert found.reason is reason
    assert "the GPU was full, with another run beside it" in [attempt.outcome for attempt in plain.attempts[:2]]
    assert [attempt.what for attempt in plain.attempts[2:4]] == TWO


# other texts in the place of the script ------------------------------------------------------------------------------------

CANDIDATE = """
import inspect, os, sys, torch
from torch._dynamo.eval_frame import call

def f():
    return 1

assert os.path.basename(__file__) == "script.py" and sys.argv[1:] == ["--fast"], sys.argv
assert sys.path[0] == os.path.dirname(__file__) and "return 1" in inspect.getsource(f)
assert open("beside.txt").read() == "beside"
wrong = torch.compile(f)()
assert wrong == 1, "another value"
"""


@pytest.fixture
def plain(place: Place, tmp_path: Path) -> Iterator[PlainRuns]:
    script = tmp_path / "home" / "script.py"
    script.write_text("raise ValueError('the script itself')")
    (place.origin / "beside.txt").write_text("beside")
    with runs_of(place, script, []) as plain:
        yield plain


def rerun_of(plain: PlainRuns, tmp_path: Path) -> PlainRerun:
    return PlainRerun(cast(Executor, None), tmp_path / "home" / "script.py", plain)


def test_a_candidate_runs_as_the_script_does(plain: PlainRuns, tmp_path: Path) -> None:
    rerun = rerun_of(plain, tmp_path)
    assert rerun.ends_well(CANDIDATE)
    signature, outcome = rerun.failure(CANDIDATE)
    assert outcome.exception is not None and outcome.exception.message == "another value"
    assert outcome.exception.source is not None and outcome.exception.source[0] == "script.py"
    assert signature is not None and signature.kind is Kind.WRONG_OUTPUT
    assert rerun.failure(CANDIDATE, backend="eager")[0] is None


def test_a_candidate_runs_without_kernels_by_a_setting_of_inductor(plain: PlainRuns, tmp_path: Path) -> None:
    text = CANDIDATE + 'assert sys.modules["torch._inductor.config"].fallback_by_default\n'
    signature, outcome = rerun_of(plain, tmp_path).failure(text.replace("wrong == 1", "wrong != 1"), WITHOUT_KERNELS)
    assert signature is None and outcome.ending is Ending.SAME
    assert plain.attempts == [], "these are trials, and no runs of the script"


def test_what_only_plain_runs_show_is_reduced_by_them(plain: PlainRuns, tmp_path: Path) -> None:
    rerun = rerun_of(plain, tmp_path)
    rerun.target = rerun.failure(CANDIDATE)[0]
    script = Source.parse("import torch\ndef f():\n    return 1\nprint(2)\nassert torch.compile(f)() == 1\n")
    left = reduce_script(script, check=rerun.check, jobs=2).best.text
    assert left == "import torch\nassert torch.compile(lambda: 1)() == 1\n"


@pytest.mark.parametrize(
    ("body", "ending", "kind"),
    [
        ("os.abort()", Ending.CRASH, Kind.CRASH),
        ("sys.exit(3)", Ending.LOST, None),
        ("raise torch._dynamo.exc.Unsupported", Ending.COMPILE_ERROR, Kind.COMPILE_ERROR),
        ("int('x')", Ending.RUNTIME_ERROR, Kind.RUNTIME_ERROR),
        ("raise MemoryError", Ending.LOST, None),
    ],
)
def test_the_end_of_a_candidate_is_told_like_that_of_a_trial(
    plain: PlainRuns, tmp_path: Path, body: str, ending: Ending, kind: Kind | None
) -> None:
    signature, outcome = rerun_of(plain, tmp_path).failure(f"import os, sys, torch._dynamo.exc\n{body}\n")
    assert (outcome.ending, signature and signature.kind) == (ending, kind)

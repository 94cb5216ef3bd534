"""Triage: what is said of a script, given how its runs went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from canned_surveys import (
    AT,
    CHECKED,
    PROGRAM,
    WRONG,
    CannedExecutor,
    asked_of,
    calls_of,
    ended,
    error,
    finished,
    held,
    silent,
)
from healthy_verdict import report_of, says_open

from minimizer.engine.budget.patience import EAGER_RUNS, EAGER_SECONDS, SURVEY_PATIENCE, SURVEY_SECONDS, SURVEYS
from minimizer.engine.child import sent_program
from minimizer.engine.child.bounded import parse
from minimizer.engine.child.protocol import Checked, Held
from minimizer.engine.child.stacks import Frame
from minimizer.engine.child.survey import Survey
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, is_starved, signal_name
from minimizer.engine.survey.known_failure import fails_again
from minimizer.engine.survey.triage import Triage
from minimizer.engine.survey.verdicts import WANTS_ARGUMENTS
from minimizer.errors import BudgetExceeded, WorkerTrouble
from minimizer.inside.questions import HoldPlace, SurveyRequest
from minimizer.vocabulary import Kind, Reason, Status


def rules(found: Settled) -> list[str]:
    """The rules by which something was excused."""
    return [one.rule for one in (*found.checked.excused, *found.excused)]  # type: ignore[attr-defined]


def triage(
    *surveys: dict[str, Any], eager: Sequence[dict[str, Any]] = (), **options: Any
) -> tuple[Case | ScriptCase | Settled, CannedExecutor, list[str]]:
    executor, notes = CannedExecutor(surveys, eager), []
    asked = asked_of(executor, on_note=notes.append, **{"args": ["--fast"], "steps": 3, **options})
    return asked.run(), executor, notes


def settled(*surveys: dict[str, Any], **options: Any) -> Settled:
    found, executor, _ = triage(*surveys, **options)
    assert isinstance(found, Settled)
    assert len(executor.compiled) >= len(surveys)
    return found


def unshown(*surveys: dict[str, Any], **options: Any) -> Settled:
    """The verdict on a failure that no graph shows, should the script by itself not show it either."""
    found, executor, _ = triage(*surveys, **options)
    assert isinstance(found, ScriptCase)
    assert len(executor.compiled) >= len(surveys)
    return found.otherwise


def case(*surveys: dict[str, Any]) -> Case:
    found, executor, _ = triage(*surveys)
    assert isinstance(found, Case)
    assert len(executor.asked) == len(surveys)
    return found


# failures that are held -----------------------------------------------------------------------------------------------


def test_a_wrong_value_is_a_case() -> None:
    found = case(held(kind="wrong_output", verdict=WRONG))
    assert found.signature.kind is Kind.WRONG_OUTPUT
    assert found.message == "output[0]: value: expected 1, got 2"
    assert found.program.node("y").target == "torch.relu"
    assert found.checked == Checked()
    assert found.tolerance is None
    assert found.otherwise is None


def test_a_failure_says_how_much_was_compared_before_it() -> None:
    found = case(held(kind="wrong_output", verdict=WRONG, checked={**CHECKED, "calls_made": 7}))
    assert (found.checked.graphs, found.checked.calls, found.checked.calls_made) == (2, 5, 7)


@pytest.mark.parametrize("kind", ["compile_error", "runtime_error"])
def test_an_exception_is_a_case(kind: str) -> None:
    found = case(held(kind=kind, exception=error("torch._inductor.exc.LoweringError", "\n\nno such lowering\nmore")))
    assert found.signature.kind is Kind(kind)
    assert found.signature.exception_type == "torch._inductor.exc.LoweringError"
    assert found.message == "LoweringError: no such lowering"


def test_the_script_is_run_as_the_user_asked() -> None:
    _, executor, _ = triage(finished(), values=False, nproc=2)
    assert executor.asked[0] == SurveyRequest(
        script="/nowhere/script.py",
        args=["--fast"],
        nproc=2,
        stacks="/job/ranks",
        values=False,
        steps=3,
        passed_by=[],
        caches=True,
    )
    assert set(executor.timeouts) == {SURVEY_SECONDS}


# the end of the script ------------------------------------------------------------------------------------------------


def test_healthy_says_what_was_checked() -> None:
    found = settled(finished(notes=["graph 1 could not be compared"]))
    assert (found.status, found.reason) == (Status.HEALTHY, None)
    compared = "No difference in the 5 of 5 calls that were compared, nor in 1 backward pass (2 graphs)."
    assert found.summary == f"{compared} The script was run {SURVEYS} times."
    assert found.checked == Checked(**CHECKED)
    assert found.notes == ("graph 1 could not be compared",)


def test_notes_of_the_run_are_told() -> None:
    _, _, notes = triage(finished(notes=["one", "two"]))
    assert notes[:2] == ["one", "two"]
    assert set(notes) == {"one", "two"}


def test_a_script_that_compiled_nothing_is_never_healthy() -> None:
    found = settled(finished(checked={"frames": 0}))
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOTHING_COMPILED)


def test_processes_of_a_script_that_compiled_nothing_itself_are_told() -> None:
    found = settled(finished(checked={"frames": 0}, children=2))
    assert found.reason is Reason.NOTHING_COMPILED
    assert "started 2 child processes, which were not looked at" in found.summary
    assert "--nproc" in found.summary
    assert "child" not in settled(finished(checked={"frames": 0})).summary


def test_what_fails_before_dynamo_was_given_a_frame_is_not_blamed_on_it() -> None:
    found = settled(finished(attempted=False, exception=error("AssertionError", "is on")), eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.FAILED, Reason.NOTHING_COMPILED, None)
    assert "only where the compiler is switched on (AssertionError: is on)" in found.summary


def test_a_refusal_of_torch_compile_itself_is_told_as_one() -> None:
    refused = {**error("TypeError", "no function"), "frames": [["torch/__init__.py", "compile", ""]]}
    found = settled(finished(attempted=False, exception=refused), eager=[finished()])
    assert found.reason is Reason.NOTHING_COMPILED
    assert found.summary.startswith("torch.compile refuses what the script asks of it (TypeError: no function)")


def test_what_fails_in_eager_too_comes_before_what_compiled_nothing() -> None:
    raised = finished(attempted=False, exception=error("ValueError"))
    assert settled(raised, eager=[raised]).reason is Reason.FAILS_IN_EAGER


@pytest.mark.parametrize(
    ("end", "said"), [({"signal": 6}, "it dies by SIGABRT"), ({"exit": 3}, "it ends with status 3")]
)
def test_what_dies_before_dynamo_was_given_a_frame_is_not_blamed_on_it(end: dict[str, Any], said: str) -> None:
    phase = {"doing": "script", "attempted": False}
    found = settled(ended(**end, at=phase), eager=[finished()])
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOTHING_COMPILED)
    assert said in found.summary


def test_trap_15_a_script_that_fails_without_the_compiler_too_is_no_fault_of_the_compiler() -> None:
    found = settled(
        finished(exception=error("ValueError")), eager=[finished(exception=error("ValueError", "bad shape"))]
    )
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)
    assert "ValueError: bad shape" in found.summary


@pytest.mark.parametrize(
    ("ended", "printed", "says"),
    [
        (error("SystemExit", "2"), "t.py: error: the following arguments are required: --n", WANTS_ARGUMENTS),
        (
            {**error("SystemExit", "2"), "root_type": "argparse.ArgumentError"},
            "t.py: error: argument --n",
            WANTS_ARGUMENTS,
        ),
        ({**error("IndexError"), "frames": [["t.py", "<module>", "size = int(sys.argv[1])"]]}, "", WANTS_ARGUMENTS),
        (error("SystemExit", "1"), "no data", "Fix that first"),
        ({**error("IndexError"), "frames": [["t.py", "<module>", "size = sizes[1]"]]}, "", "Fix that first"),
    ],
)
def test_a_script_that_needs_arguments_is_told_where_they_go(ended: dict[str, Any], printed: str, says: str) -> None:
    run = finished(exception=ended, printed=printed)
    found = settled(run, eager=[run])
    assert found.reason is Reason.FAILS_IN_EAGER
    assert f"{printed}. {says}; torch.compile is not to blame" in found.summary


def test_the_eager_run_is_without_the_compiler_and_has_its_own_time() -> None:
    _, executor, _ = triage(finished(exception=error("ValueError")), eager=[finished(exception=error("ValueError"))])
    assert [request.compile for request in executor.asked[:2]] == [True, False]
    assert executor.timeouts[1] == EAGER_SECONDS
    assert [watchdog is not None for watchdog in executor.watchdogs[:2]] == [True, False]


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({"signal": 11, "log": "first\nSegmentation fault"}, "SIGSEGV. Segmentation fault"),
        ({"timed_out": True, "signal": 9}, "did not end in time"),
        ({"exit": 3}, "status 3"),
    ],
)
def test_a_script_that_dies_in_eager_is_not_runnable(end: dict[str, Any], says: str) -> None:
    found = settled(finished(exception=error("RuntimeError")), eager=[ended(**end)])
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert says in found.summary


# the script's own check -----------------------------------------------------------------------------------------------


@pytest.mark.fault_behind("check_of_values")
def test_the_scripts_own_tolerance_decides_where_ours_sees_rounding() -> None:
    failing = finished(
        exception=error("AssertionError", "Tensor-likes are not close!"),
        checks=[{"rtol": 0.5}, {"rtol": 0.1, "atol": 0.0}],
    )
    found, executor, notes = triage(failing, held(kind="wrong_output", verdict=WRONG), eager=[finished()])
    assert isinstance(found, Case)
    assert found.tolerance == {"rtol": 0.1, "atol": 0.0}
    assert executor.compiled[1].tolerance == {"rtol": 0.1, "atol": 0.0}
    assert any("0.1" in note for note in notes)


def test_a_plain_assert_is_judged_by_the_default_tolerance() -> None:
    found, executor, _ = triage(
        finished(exception=error("AssertionError")), held(kind="wrong_output", verdict=WRONG), eager=[finished()]
    )
    assert isinstance(found, Case)
    assert found.tolerance == {}
    assert executor.compiled[1].tolerance == {}


@pytest.mark.needs_excuse("check_of_values")
def test_a_check_that_no_call_bears_out_is_disputed() -> None:
    found = unshown(finished(exception=error("AssertionError", "took 3 s")), finished(), eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.DISPUTED, Kind.WRONG_OUTPUT)
    assert "AssertionError: took 3 s" in found.summary
    assert rules(found) == ["check_of_values"]


def test_a_check_of_outputs_that_a_later_call_wrote_over_is_not_disputed() -> None:
    how = "call 1 of graph 0 writes over output 0 of call 0 of graph 0, which the script still holds"
    failing = finished(exception=error("AssertionError", "not close"), overwritten=how)
    found = unshown(failing, failing, eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.WRONG_OUTPUT)
    assert how in found.summary


def test_a_healthy_script_may_have_its_outputs_overwritten() -> None:
    """As a loop under CUDA graphs that keeps the last output only."""
    found, _, _ = triage(finished(overwritten="call 1 writes over output 0 of call 0"))
    assert isinstance(found, Settled)
    assert found.status is Status.HEALTHY


@pytest.mark.parametrize("fact", ["written_over", "other_zeros", "behind_change"])
def test_what_only_the_program_around_the_graphs_can_tell_makes_a_suspect(fact: str) -> None:
    how = "call 1 of graph 1 writes over output 0 of call 0 of graph 0, which the script still holds"
    found, executor, _ = triage(finished(**{fact: how}))
    assert isinstance(found, ScriptCase)
    assert (getattr(found, fact), found.is_suspect, found.otherwise.status) == (how, True, Status.HEALTHY)
    assert found.otherwise.runs == len(executor.compiled), "it is run as often as a healthy script"


def test_a_healthy_script_that_draws_otherwise_is_run_as_often_as_others_and_not_called_healthy() -> None:
    found, executor, _ = triage(
        finished(draws={"graph": 0, "node": "rand_like", "what": "torch.rand_like draws DRAWN"})
    )
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.UNEXPLAINED, Kind.WRONG_OUTPUT)
    assert found.summary.startswith("Inductor's own torch.rand_like draws DRAWN: ")
    assert found.runs == len(executor.compiled) > 1


def test_a_failing_call_counts_before_a_draw() -> None:
    found, _, _ = triage(
        finished(draws={"graph": 0, "node": "rand_like", "what": "torch.rand_like draws DRAWN"}), held(verdict=WRONG)
    )
    assert isinstance(found, Case)


TIMED = """
import time

begun = time.perf_counter()
f(x)
took = time.perf_counter() - begun
assert took < 1, "too slow"
"""


LATE = {**error("AssertionError", "too slow"), "frames": [["script.py", "<module>", 'assert took < 1, "too slow"']]}


@pytest.mark.needs_excuse("reads_clock")
def test_a_check_that_reads_a_clock_is_disputed_whatever_eager_does(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TIMED)
    executor = CannedExecutor([finished(exception=LATE)], [finished(exception=LATE)])
    found = asked_of(executor, tmp_path / "script.py").run()
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.DISPUTED, Kind.WRONG_OUTPUT)
    assert "too slow" in found.summary and "clock" in found.summary
    assert [request.compile for request in executor.asked] == [True]
    assert rules(found) == ["reads_clock"]


@pytest.mark.fault_behind("reads_clock")
@pytest.mark.parametrize("check", ["assert torch.equal(f(x), g(x))", "assert f(x) is not None"])
def test_another_check_of_a_script_that_takes_the_time_is_not_disputed_for_that(tmp_path: Path, check: str) -> None:
    (tmp_path / "script.py").write_text(f"{TIMED}{check}\n")
    failed = {**error("AssertionError", ""), "frames": [["script.py", "<module>", check]]}
    executor = CannedExecutor([finished(exception=failed), held(kind="wrong_output", verdict=WRONG)], [finished()])
    found = asked_of(executor, tmp_path / "script.py").run()
    if "equal" in check:
        assert isinstance(found, Case) and found.signature.kind is Kind.WRONG_OUTPUT
    else:
        assert isinstance(found, ScriptCase) and found.otherwise.reason is Reason.NOT_VERIFIED


MISSING = """
tangent = fwAD.unpack_dual(f(dual)).tangent
if tangent is None:
    raise RuntimeError("the tangent is lost")
"""


def test_a_missing_value_is_no_dispute_and_goes_to_the_script_level(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MISSING)
    frames = [["script.py", "<module>", 'raise RuntimeError("the tangent is lost")']]
    lost = {**error("RuntimeError", "the tangent is lost"), "frames": frames}
    executor = CannedExecutor([finished(exception=lost)], [finished()])
    found = asked_of(executor, tmp_path / "script.py").run()
    assert isinstance(found, ScriptCase)
    assert (found.otherwise.reason, found.otherwise.kind) == (Reason.NOT_VERIFIED, Kind.RUNTIME_ERROR)
    assert [request.tolerance for request in executor.compiled] == [None]


def test_what_no_tolerance_lets_pass_is_not_judged_by_one() -> None:
    check = {**error("AssertionError"), "frames": [["torch/testing/_comparison.py", "assert_close", "raise"]]}
    found, executor, _ = triage(finished(exception=check, checks=[{"rtol": 0.1, "tolerable": 0.0}]), eager=[finished()])
    assert isinstance(found, ScriptCase)
    assert found.otherwise.reason is Reason.NOT_VERIFIED
    assert len(executor.compiled) == 1


def test_nan_that_no_tolerance_lets_pass_is_held_at_its_graph() -> None:
    """Whether the check of a script compares values, and whether it is disputed, are two questions."""
    check = {**error("AssertionError"), "frames": [["torch/testing/_comparison.py", "assert_close", "raise"]]}
    checks = [{"rtol": 0.1, "atol": 0.1, "tolerable": 0.0, "of_values": 1.0}]
    found, executor, _ = triage(
        finished(exception=check, checks=checks), held(kind="wrong_output", verdict=WRONG), eager=[finished()]
    )
    assert isinstance(found, Case)
    assert [request.tolerance for request in executor.compiled] == [None, {"rtol": 0.1, "atol": 0.1}]


def test_a_check_that_fails_where_nothing_was_compared_is_not_disputed() -> None:
    nothing = {"frames": 1, "calls": 0}
    found = unshown(
        finished(exception=error("AssertionError"), checked=nothing), finished(checked=nothing), eager=[finished()]
    )
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)


@pytest.mark.parametrize("line", ["sys.exit(1)", "if bad: exit(1)", "raise RuntimeError('outputs differ')"])
def test_a_check_need_not_be_an_assertion(line: str) -> None:
    raised = {**error("RuntimeError", "outputs differ"), "frames": [["script.py", "<module>", line]]}
    found = unshown(finished(exception=raised), finished(), eager=[finished()])
    assert (found.reason, found.kind) == (Reason.DISPUTED, Kind.WRONG_OUTPUT)


@pytest.mark.parametrize(
    "frame", [["torch/_dynamo/guards.py", "check", "raise RuntimeError(x)"], ["m.py", "f", "x.foo()"]]
)
def test_what_the_script_does_not_raise_itself_is_no_check(frame: list[str]) -> None:
    found = unshown(finished(exception={**error("RuntimeError"), "frames": [frame]}), eager=[finished()])
    assert (found.reason, found.kind) == (Reason.NOT_VERIFIED, Kind.RUNTIME_ERROR)


@pytest.mark.parametrize("checked", [{"frames": 2, "calls": 5}, {"frames": 1, "calls": 0}, {"frames": 0, "calls": 0}])
def test_a_script_that_hides_an_error_of_dynamo_is_not_healthy(checked: dict[str, int]) -> None:
    failed = {"failed": ["f, m.py line 3: AttributeError: no mro", "g, m.py line 9: KeyError: 1"]}
    found = settled(finished(checked=checked, health=failed))
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.COMPILE_ERROR)
    assert "AttributeError: no mro" in found.summary and "hides it" in found.summary
    assert found.notes == ("g, m.py line 9: KeyError: 1",)


def test_an_exception_between_graphs() -> None:
    found = unshown(finished(exception=error("TypeError", "hook got None")), eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.RUNTIME_ERROR)
    assert "TypeError: hook got None" in found.summary


def test_eager_that_fails_otherwise_does_not_acquit_the_compiler() -> None:
    raised = finished(exception=error("RuntimeError", "no kernel"))
    same = settled(raised, eager=[finished(exception=error("RuntimeError", "no kernel"))])
    other = settled(raised, eager=[finished(exception=error("ValueError", "no data"))])
    assert same.reason is other.reason is Reason.FAILS_IN_EAGER
    assert "not to blame" in same.summary
    assert "ValueError: no data" in other.summary and "RuntimeError: no kernel" in other.summary
    assert "not to blame" not in other.summary


def test_a_script_that_reads_how_the_compiler_is_switched_off_is_asked_by_a_stance() -> None:
    """It fails unless the variable is set: so it does in eager, where that is not how eager is asked."""
    raised = finished(exception=error("AssertionError", "not disabled"))
    found, executor, notes = triage(raised, eager=[*[finished()] * EAGER_RUNS, raised])
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)
    assert [request.stance for request in executor.asked[1:]] == [False] * EAGER_RUNS + [True]
    assert any("looks at the compiler" in note for note in notes)


def test_a_script_that_misses_the_wrapper_in_eager_is_judged_as_usual() -> None:
    """``model._orig_mod`` is not there where nothing wraps the model."""
    missing = finished(exception=error("AttributeError", "no attribute '_orig_mod'"))
    found = unshown(
        finished(exception=error("TypeError", "hook got None")), eager=[*[missing] * EAGER_RUNS, finished()]
    )
    assert (found.reason, found.kind) == (Reason.NOT_VERIFIED, Kind.RUNTIME_ERROR)


def test_a_script_that_sets_a_stance_itself_is_not_asked_by_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text('torch.compiler.set_stance("default")\n')
    executor = CannedExecutor([finished(exception=error("TypeError"))], [finished()])
    asked_of(executor, tmp_path / "script.py").run()
    assert [request.stance for request in executor.asked].count(True) == 0


def test_somebody_is_told_of_the_first_run_that_ends_well() -> None:
    told: list[int] = []
    executor = CannedExecutor([finished()])
    asked_of(executor, on_healthy=lambda: told.append(len(executor.asked))).run()
    assert told == [1]
    asked_of(CannedExecutor([held(kind="wrong_output", verdict=WRONG)]), on_healthy=lambda: told.append(0)).run()
    assert told == [1]


@pytest.mark.parametrize(
    ("raised", "option"),
    [
        (error("FileNotFoundError", "[Errno 2] No such file or directory: '/data/weights.pt'"), "--bind"),
        (
            error("urllib.error.URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>"),
            "--network",
        ),
        ({**error("KeyError", "'HF_TOKEN'"), "frames": [["os.py", "__getitem__", "raise KeyError(key)"]]}, "--env"),
        (error("PermissionError", "[Errno 13] Permission denied: '/etc/x'"), "may only write"),
        (error("OSError", "[Errno 30] Read-only file system: '/home/me/model/out'"), "may only write"),
    ],
)
def test_what_the_sandbox_denies_is_no_fault_of_the_script(raised: dict[str, Any], option: str) -> None:
    found = settled(finished(exception=raised), eager=[finished(exception=raised)])
    assert (found.status, found.reason) == (Status.FAILED, Reason.SANDBOX_DENIED)
    assert option in found.summary


def test_another_program_that_cannot_be_started_is_no_compiler() -> None:
    raised = {
        **error("FileNotFoundError", "[Errno 2] No such file or directory: '/opt/cuda/bin/ptxas'"),
        "frames": [["triton/backends/nvidia/compiler.py", "make_cubin", ""], ["subprocess.py", "_execute_child", ""]],
    }
    assert case(held(kind="compile_error", exception=raised)).signature.kind is Kind.COMPILE_ERROR


@pytest.mark.parametrize(
    ("raised", "reason", "advice"),
    [
        (
            error("torch._inductor.exc.InvalidCxxCompiler", "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'sh')"),
            Reason.SANDBOX_DENIED,
            "--bind",
        ),
        (
            error("torch._inductor.exc.InvalidCxxCompiler", "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'no-such-g++')"),
            Reason.NOT_RUNNABLE,
            "Install one",
        ),
        (
            error("RuntimeError", "Failed to find C compiler. Please specify via CC environment variable"),
            Reason.NOT_RUNNABLE,
            "name it in CC",
        ),
        (
            {
                **error("FileNotFoundError", "[Errno 2] No such file or directory: '/opt/gcc/bin/gcc'"),
                "frames": [["triton/runtime/build.py", "_build", ""], ["subprocess.py", "_execute_child", ""]],
            },
            Reason.NOT_RUNNABLE,
            "/opt/gcc/bin/gcc",
        ),
    ],
)  # fmt: skip
def test_a_compiler_that_cannot_be_started_is_no_fault_of_torch_compile(
    raised: dict[str, Any], reason: Reason, advice: str
) -> None:
    for survey in (held(kind="compile_error", exception=raised), finished(exception=raised)):
        found = settled(survey, eager=[finished()])
        assert (found.status, found.reason) == (Status.FAILED, reason)
        assert advice in found.summary


@pytest.mark.parametrize(
    "raised",
    [
        error("FileNotFoundError", "[Errno 2] No such file or directory: 'weights.pt'"),
        error("FileNotFoundError", "[Errno 2] No such file or directory: '/home/me/model/weights.pt'"),
        error("KeyError", "'width'"),
    ],
)
def test_what_it_shows_is_the_scripts_own_affair(raised: dict[str, Any]) -> None:
    assert settled(finished(exception=raised), eager=[finished(exception=raised)]).reason is Reason.FAILS_IN_EAGER


def test_an_unsteady_graph_hides_no_other_failure() -> None:
    unsupported = error("torch._dynamo.exc.Unsupported", "hook got None")
    found = unshown(finished(unsteady="graph 0", exception=unsupported), eager=[finished()])
    assert "hook got None" in found.summary
    own_check = finished(unsteady="graph 0", exception=error("AssertionError", "not close"))
    assert settled(own_check, eager=[finished()]).reason is Reason.NONDETERMINISTIC


def test_nothing_is_healthy_of_which_nothing_was_compared() -> None:
    nothing = finished(checked={"frames": 2, "graphs": 2, "calls": 0, "backward": 0}, calls=[])
    found = settled(nothing)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert "no call of its 2 compiled graphs could be compared" in found.summary
    assert settled(nothing, values=False).status is Status.HEALTHY


def test_nothing_is_healthy_with_a_graph_that_could_not_be_compared() -> None:
    never = [{"graph": 2, "why": "TypeError: a queue"}, {"graph": 3, "why": "TypeError: a lock"}]
    partly = finished(uncompared=[{"graph": 1, "why": "compared in another call"}, *never])
    found = settled(partly)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert "no call of compiled graph 2 (TypeError: a queue) and 1 more could be compared" in found.summary
    assert settled(partly, values=False).status is Status.HEALTHY


def test_a_call_that_eager_cannot_repeat_is_told() -> None:
    missing = {"graph": 1, "call": 2, "exception": error("RuntimeError", "a leaf")}
    found, _, notes = triage(finished(missing=[missing]), eager=[finished()])
    assert isinstance(found, Settled) and found.status is Status.HEALTHY
    assert (
        "Call 2 of graph 1 was not compared: eager cannot run it on copies of its inputs (RuntimeError: a leaf)."
        in notes
    )


# suspects -------------------------------------------------------------------------------------------------------------

SUSPECT = {"graph": 1, "call": 4, "verdict": {**WRONG, "fault": False, "discrete": True}}


def test_discrete_differences_are_held_and_asked_again() -> None:
    found, executor, _ = triage(finished(suspects=[SUSPECT], notes=["n"]), held())
    assert isinstance(found, Case)
    assert executor.asked[1].hold == HoldPlace(1, 4)
    assert found.signature.kind is Kind.WRONG_OUTPUT
    assert found.otherwise is not None
    assert found.otherwise.status is Status.HEALTHY
    assert any("rounding" in note for note in found.otherwise.notes)


@pytest.mark.parametrize("before", [0, 1])
def test_the_run_that_shows_a_suspect_is_none_that_has_passed(before: int) -> None:
    """Or what always shows would be called flaky, and each of its trials compiled twenty times."""
    calls = [calls_of(0, 4, 4), calls_of(1, 5, 5)]
    found, *_ = triage(*[finished(calls=calls)] * before, finished(suspects=[SUSPECT], calls=calls), held())
    assert isinstance(found, Case)
    assert found.runs == 1 + before


@pytest.mark.parametrize(
    "second",
    [
        finished(),  # its call does not come again
        {"end": {"signal": 9}},
        {"end": {"exit": 1}},
        finished(exception=error("OutOfMemoryError")),
    ],
)
def test_a_suspect_whose_run_dies_is_not_cleared(second: dict[str, Any]) -> None:
    found = settled(finished(suspects=[SUSPECT]), second)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)


def test_a_graph_that_is_too_large_is_told_as_the_failure_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is known all the same, and the script itself may still be reduced."""
    monkeypatch.setattr(sent_program, "MAX_NODES", 0)
    found, executor, _ = triage(held(kind="wrong_output", verdict=WRONG))
    assert isinstance(found, ScriptCase)
    assert found.otherwise.kind is Kind.WRONG_OUTPUT
    assert "expected 1, got 2" in found.otherwise.summary
    assert "1 nodes, and one of at most 0 is taken apart. Compile a part of the model" in found.otherwise.summary
    assert executor.killed == 1


def unwritable() -> dict[str, Any]:
    """A graph that is held and cannot be written down."""
    return {"held": parse(Held, {"failure": {"graph": 1, "call": 4, "phase": "run"}, "program": None})}


def test_a_suspect_that_cannot_be_examined_is_not_healthy_and_is_let_go() -> None:
    found, executor, _ = triage(finished(suspects=[SUSPECT]), unwritable())
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert "Values behind a jump" in found.summary
    assert executor.killed == 1


@pytest.mark.parametrize("first", [unwritable(), ended(signal=6, at={"graph": 1, "call": 4})])
def test_what_is_held_and_cannot_be_written_is_let_go(first: dict[str, Any]) -> None:
    found, executor, _ = triage(first, unwritable(), eager=[finished()])
    assert isinstance(found, ScriptCase)
    assert executor.killed == 1


def test_several_suspects_are_asked_in_turn() -> None:
    first, second = SUSPECT, {**SUSPECT, "graph": 2, "call": 0}
    executor = CannedExecutor([finished(suspects=[first, second]), held(), held()])
    asked = asked_of(executor, steps=3)

    assert isinstance(asked.run(), Case)
    assert isinstance(asked.suspects.hold_next(), Case)
    assert asked.suspects.hold_next() is None
    assert [request.hold for request in executor.asked[1:]] == [
        HoldPlace(1, 4),
        HoldPlace(2, 0),
    ]


@pytest.mark.parametrize(
    ("has_gradients", "call", "held_phases"),
    [(True, 4, ["run"]), (True, 3, ["run", "backward"]), (False, 4, ["run", "backward"])],
)
def test_gradients_are_held_where_the_program_of_their_call_has_none(
    has_gradients: bool, call: int, held_phases: list[str]
) -> None:
    both = [SUSPECT, {**SUSPECT, "call": call, "phase": "backward"}]
    program = {**PROGRAM, "level": "dynamo" if has_gradients else "aot", "grad": has_gradients}
    run = {"held": parse(Held, {"failure": {"graph": 1, "call": 4, "phase": "run"}, "program": program})}
    executor = CannedExecutor([finished(suspects=both), run, run])
    asked = asked_of(executor, steps=3)

    cases = [asked.run()]
    while (case := asked.suspects.hold_next()) is not None:
        cases.append(case)

    assert [request.hold.phase for request in executor.asked[1:]] == held_phases
    kinds = [Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT][: len(held_phases)]
    assert [cast(Case, case).signature.kind for case in cases] == kinds


# memory layout --------------------------------------------------------------------------------------------------------

STRIDES: dict[str, Any] = {
    "fault": True, "kind": "wrong_metadata",
    "differences": [{"where": "output[0]", "kind": "wrong_metadata", "what": "stride", "expected": "(1, 2)", "actual": "(2, 1)"}],
}  # fmt: skip
LAYOUT = {"graph": 0, "call": 0, "verdict": STRIDES}


def after_run(*surveys: dict[str, Any], **options: Any) -> tuple[Triage, Settled]:
    asked = asked_of(CannedExecutor(surveys, options.pop("eager", ())), steps=3)
    asked._repeat_seconds = 0.0
    found = asked.run()
    return asked, found.otherwise if isinstance(found, ScriptCase) else cast(Settled, found)


def test_another_memory_layout_is_held_where_nothing_else_fails() -> None:
    asked, healthy = after_run(finished(layouts=[LAYOUT]), held(verdict=STRIDES))
    assert healthy.status is Status.HEALTHY
    found = asked.held_for_layout(asked.layouts[0], healthy)
    assert found is not None
    assert found.layout_only
    assert found.checked == healthy.checked


def test_what_could_not_be_compared_is_told_beside_another_memory_layout() -> None:
    notes: list[str] = []
    executor = CannedExecutor(
        [finished(layouts=[LAYOUT], uncompared=[{"graph": 2, "why": "no copy"}]), held(verdict=STRIDES)]
    )
    asked = asked_of(executor, on_note=notes.append)
    partial = asked.run()
    assert isinstance(partial, Settled)
    assert asked.held_for_layout(asked.layouts[0], partial) is not None
    assert notes == [partial.summary]


def test_one_object_for_two_outputs_that_does_not_show_again_is_no_failure() -> None:
    merged = {"graph": 0, "call": 0, "what": "output[1] is the object of output[0]; its shape was (6,), and is (16,)"}
    executor = CannedExecutor([finished(merged=[merged]), finished()])
    found = asked_of(executor, steps=3).run()
    assert isinstance(found, Settled) and found.status is Status.HEALTHY
    assert [request.identity for request in executor.asked][:2] == [False, True]


def test_a_call_of_another_memory_layout_whose_graph_cannot_be_had_is_not_held() -> None:
    asked, healthy = after_run(finished(layouts=[LAYOUT]), unwritable())
    assert asked.held_for_layout(asked.layouts[0], healthy) is None


def test_a_check_of_strides_is_explained_by_strides() -> None:
    check = {**error("AssertionError"), "frames": [["m.py", "f", "assert y.stride() == (1, 2)"]]}
    found, _, _ = triage(finished(layouts=[LAYOUT], exception=check), held(verdict=STRIDES), eager=[finished()])
    assert isinstance(found, Case)
    assert (found.is_layout, found.layout_only) == (True, False)


# crashes, hangs -------------------------------------------------------------------------------------------------------


def test_a_crash_is_held_before_it_happens() -> None:
    found, executor, _ = triage(ended(signal=6, at=AT), held(), eager=[finished()])
    assert isinstance(found, Case)
    assert found.signature == Signature(Kind.CRASH, signal=6)
    assert found.message == "the process died by SIGABRT"
    assert [(r.compile, r.hold) for r in executor.asked] == [
        (True, None),
        (False, None),
        (True, HoldPlace(1, 2)),
    ]


def test_a_crash_while_compiling_is_held_before_the_compiler() -> None:
    _, executor, _ = triage(ended(signal=11, at={"graph": 0, "call": None}), held(phase="compile"), eager=[finished()])
    assert executor.compiled[1].hold == HoldPlace(0, None)


COMPARING = {**AT, "doing": "compare"}


def test_a_crash_of_our_own_comparison_is_none_of_the_script() -> None:
    found, executor, _ = triage(ended(signal=11, at=COMPARING), finished(), eager=[finished()])
    assert isinstance(found, Settled)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert "SIGSEGV" in found.summary and "no failure of the script" in found.summary
    assert [r.values for r in executor.compiled] == [True, False]


def test_a_failure_behind_a_crash_of_our_own_comparison_is_still_one() -> None:
    held_later = held(kind="compile_error", exception=error("torch._inductor.exc.LoweringError"))
    found, *_ = triage(ended(signal=11, at=COMPARING), held_later, eager=[finished()])
    assert isinstance(found, Case)
    assert found.signature.kind is Kind.COMPILE_ERROR

    raising = finished(exception=error("RuntimeError"))
    found, *_ = triage(ended(signal=11, at=COMPARING), raising, eager=[finished()])
    assert isinstance(found, ScriptCase)
    assert found.otherwise.kind is Kind.RUNTIME_ERROR


def test_a_crash_that_only_shows_in_our_comparison_may_be_of_the_compiler_all_the_same() -> None:
    found, *_ = triage(ended(signal=11, at=COMPARING), ended(signal=11, at=AT), held(), eager=[finished()])
    assert isinstance(found, Case)
    assert found.signature == Signature(Kind.CRASH, signal=11)


@pytest.mark.parametrize("again", [ended(signal=6, at=AT), finished()])
def test_a_crash_that_does_not_come_to_the_same_place(again: dict[str, Any]) -> None:
    found = unshown(ended(signal=6, at=AT), again, eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.CRASH)
    assert "SIGABRT" in found.summary


def test_a_crash_with_and_without_the_compiler() -> None:
    found = settled(ended(signal=6, at=AT), eager=[ended(signal=6, log="Aborted")])
    assert (found.status, found.reason) == (Status.FAILED, Reason.NOT_RUNNABLE)
    assert "with and without the compiler" in found.summary


def test_a_crash_before_any_graph() -> None:
    assert unshown(ended(signal=6), eager=[finished()]).reason is Reason.NOT_RUNNABLE


def test_trap_06_a_process_killed_for_memory_is_no_crash_of_the_compiler() -> None:
    with pytest.raises(WorkerTrouble, match="run with the compiler, was killed with SIGKILL each time"):
        triage(ended(signal=9, at=AT), ended(signal=9, at=AT), eager=[finished()])


@pytest.mark.parametrize("found", [ended(signal=11, at=AT), finished(exception=error("RuntimeError"))])
def test_a_run_without_the_compiler_that_is_killed_says_nothing_of_the_script(found: dict[str, Any]) -> None:
    killed = ended(signal=9)
    with pytest.raises(WorkerTrouble, match="was killed with SIGKILL each time"):
        triage(found, eager=[killed, killed])


def test_a_run_that_is_killed_once_is_made_again() -> None:
    """As where the kernel ended it for what others took of the memory."""
    killed = ended(signal=9, at=AT)
    assert case(killed, held(kind="wrong_output", verdict=WRONG)).signature.kind is Kind.WRONG_OUTPUT
    found = settled(ended(signal=6, at=AT), eager=[killed, ended(signal=6, log="Aborted")])
    assert "SIGABRT" in found.summary


@pytest.mark.parametrize("at", [{}, {"graph": None, "call": 1}])
def test_a_crash_behind_a_phase_of_no_graph(at: dict[str, Any]) -> None:
    assert unshown(ended(signal=6, at=at), eager=[finished()]).reason is Reason.NOT_RUNNABLE


def test_an_end_without_an_answer() -> None:
    assert settled(ended(exit=70, log="Traceback\nMemoryError"), eager=[finished()]).summary.endswith(
        "status 70. MemoryError"
    )


def test_an_end_by_its_own_hand_is_the_scripts_failure() -> None:
    """Such as ``os._exit(1)``, or faulthandler's timer."""
    found = unshown(ended(exit=1), eager=[finished()])
    assert (found.status, found.kind) == (Status.PARTIAL, Kind.CRASH)
    assert "ends by itself with status 1" in found.summary


def test_a_hang_is_held_before_it_happens() -> None:
    """Eager has run the graph in the same run: there is no need to run the whole script in eager."""
    found, executor, _ = triage(silent(), held())
    assert isinstance(found, Case)
    assert found.signature == Signature(Kind.HANG, where=":fix")
    assert found.message == (
        "torch.compile had not come back after 71 seconds, and is in fix (pass.py, line 11) all the while"
    )
    assert [(r.compile, r.hold) for r in executor.asked] == [(True, None), (True, HoldPlace(1, 2))]


def test_a_slow_compiler_is_not_said_to_hang() -> None:
    found = settled(silent({**AT, "checked": {"frames": 2, "calls": 5, "backward": 0}}, hangs=False))
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert found.summary.startswith("Slow, but no hang: torch.compile had not come back after 71 seconds")
    assert "--hang-after" in found.summary
    assert found.checked == Checked(frames=2, calls=5, backward=0)


@pytest.mark.parametrize("again", [finished(), ended(signal=6, at=AT), silent()])
def test_a_hang_that_does_not_come_to_the_same_place(again: dict[str, Any]) -> None:
    found = unshown(silent(), again)
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.HANG)
    assert "fix (pass.py, line 11)" in found.summary


def test_a_hang_before_any_graph_is_the_compilers_if_eager_ends() -> None:
    found = unshown(silent({}), eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, Kind.HANG)
    assert settled(silent({}), eager=[ended(timed_out=True, signal=9)]).reason is Reason.NOT_RUNNABLE


def test_a_script_that_never_ends_and_compiles_nothing() -> None:
    found = settled(ended(timed_out=True, signal=9))
    assert (found.reason, found.kind) == (Reason.NOT_RUNNABLE, None)
    assert "did not end in time" in found.summary


@pytest.mark.needs_excuse("stopped_early")
def test_a_long_script_that_was_stopped_is_healthy_as_far_as_it_was_seen() -> None:
    found = settled(finished(stopped=True, seconds=61.7))
    assert says_open(report_of(found), "stopped_early")
    assert found.status is Status.HEALTHY
    assert "5 of at least 5 calls that were compared" in found.summary
    assert "the run was stopped after 62 s; --steps 10 lets it run longer" in found.summary
    assert found.checked.not_compared[0].startswith("what comes after 62 s: the script was stopped there")
    assert "stopped" not in settled(finished()).summary and not settled(finished()).checked.not_compared


@pytest.mark.parametrize(("budget", "hint"), [(120, "--budget 900"), (900, "--steps 10")])
def test_a_larger_budget_is_named_where_it_lets_the_script_go_on(budget: int, hint: str) -> None:
    found = settled(finished(stopped=True, seconds=SURVEY_PATIENCE), budget=budget)
    assert f"the run was stopped after 300 s; {hint} lets it run longer" in found.summary


def test_a_script_that_is_stopped_before_anything_was_compared_says_so_and_what_would_do() -> None:
    nothing = {"frames": 2, "graphs": 2, "calls": 0, "planned": 3, "calls_made": 3}
    found = settled(finished(stopped=True, seconds=40.0, checked=nothing, calls=[]), budget=120)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.BUDGET)
    assert found.summary == (
        "Stopped after 40 s, the third of the budget that a run of the script may take, with 2 graphs compiled and 3 calls of them made: "
        "no call had been compared; --budget 240 gives it 80 s."
    )
    found = settled(finished(stopped=True, seconds=40.0, checked={}, calls=[]), budget=120)
    assert found.reason is Reason.BUDGET and "before anything was compiled: no call had been compared" in found.summary


@pytest.mark.parametrize(
    ("at", "doing", "compared"),
    [
        ({"doing": "script", "checked": {"graphs": 2, "calls": 0}}, "running the script's own code, with 2 graphs compiled by then, at pass.py, line 11", "no call had been compared"),
        ({"doing": "compile", "graph": 3, "call": None, "checked": {"calls": 4}}, "compiling graph 3, at pass.py, line 11", "4 calls had been compared, without a difference"),
        ({"doing": "compare", "graph": 0, "call": 2}, "running graph 0 in its call 2 in eager, to compare with it, at pass.py, line 11", "no call had been compared"),
        ({}, "starting the script, at pass.py, line 11", "no call had been compared"),
    ],
    ids=["script", "compile", "eager", "start"],
)  # fmt: skip
def test_a_script_that_had_to_be_ended_says_what_it_was_doing(at: dict[str, Any], doing: str, compared: str) -> None:
    ended_run = silent(at, hangs=False)
    ended_run["silence"] = replace(ended_run["silence"], out_of_time=True)
    found = settled(ended_run, budget=300)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.BUDGET)
    share = "Stopped after 100 s, the third of the budget that a run of the script may take"
    assert found.summary == f"{share}, while {doing}: {compared}; --budget 600 gives it 200 s."


IN_INDUCTOR = """Current thread 0x00007f0000000001 (most recent call first):
  File "/lib/python3.11/site-packages/torch/_inductor/scheduler.py", line 7 in fuse
  File "/lib/python3.11/site-packages/torch/_inductor/compile_fx.py", line 8 in _compile_fx_inner
  File "/home/me/pass.py", line 12 in <module>
"""
IN_OWN_CODE = (Frame("pass.py", "load", 3, True),)
COMPILED = {"doing": "script", "checked": {"frames": 2, "graphs": 2, "calls": 2}}
UNCOMPARED = {"doing": "script", "checked": {"frames": 2, "graphs": 2}}
IN_BACKWARD = (Frame("torch/_inductor/compile_fx.py", "compile_fx_inner", 7, False),)
IN_RUNTIME = (
    Frame("torch/_functorch/_aot_autograd/runtime_wrappers.py", "runtime_wrapper", 9, False),
    Frame("torch/_inductor/output_code.py", "__call__", 4, False),
)
COMPILING = {"doing": "compile", "graph": 1, "checked": {"frames": 2, "graphs": 2}}
STOPPED = {"stopped": True, "seconds": 40.0, "calls": []}


def out_of_time(at: dict[str, Any], **silence: Any) -> dict[str, Any]:
    """A run that its watchdog ended when its share of the budget was over."""
    ended_run = silent(at, hangs=False)
    return ended_run | {"silence": replace(ended_run["silence"], out_of_time=True, **silence)}


@pytest.mark.parametrize(
    "first",
    [
        finished(**STOPPED, checked={"frames": 2, "graphs": 2, "calls_made": 1, "planned": 1}),
        out_of_time(COMPILING),
        out_of_time(COMPILED, chain=IN_BACKWARD),
        out_of_time(COMPILED, chain=(), dump=IN_INDUCTOR),
        out_of_time(UNCOMPARED, chain=()),
    ],
    ids=["stopped", "killed while it compiled", "killed in a backward", "killed in several places", "killed unsampled"],
)
def test_a_run_whose_time_ended_while_it_compiled_goes_on_from_its_kernels(first: dict[str, Any]) -> None:
    found, executor, _ = triage(first, finished(health={"compile_seconds": 3.0}))
    assert isinstance(found, Settled) and found.status is Status.HEALTHY and found.checked.calls == 5
    again = executor.compiled[1]
    assert again.caches is True
    assert again.calls is None, "no call is known, so it chooses by rule, as a first run does"


def test_the_compile_times_of_a_run_that_began_with_kernels_are_not_those_of_a_cold_cache() -> None:
    cold = {"health": {"compile_seconds": 3.0}}
    whole = asked_of(CannedExecutor([finished(**cold)]))
    whole.run()
    assert whole.surveys.cold is not None
    resumed = asked_of(CannedExecutor([out_of_time(COMPILING), finished(**cold)]))
    resumed.run()
    assert resumed.surveys.cold is None and resumed.surveys.first is not None, "its breaks and recompiles count"


@pytest.mark.parametrize(
    "first",
    [
        finished(**STOPPED, checked={}),
        out_of_time({"doing": "script"}, chain=()),
        out_of_time({"doing": "script", "checked": {"graphs": 0}}, chain=IN_OWN_CODE),
        out_of_time(COMPILED, chain=IN_OWN_CODE),
        out_of_time(COMPILED, chain=()),
        out_of_time(COMPILED, chain=IN_RUNTIME),
        finished(**STOPPED, checked={"frames": 2, "graphs": 2, "calls_made": 900}),
    ],
    ids=[
        "stopped before it compiled",
        "killed unsampled",
        "killed before it compiled",
        "killed in its own code",
        "killed unsampled with calls that were compared",
        "killed in a long call",
        "stopped with calls that cannot be compared",
    ],
)
def test_another_run_would_get_no_further_without_kernels(first: dict[str, Any]) -> None:
    found, executor, _ = triage(first, finished())
    assert isinstance(found, Settled) and found.reason is Reason.BUDGET
    assert len(executor.compiled) == 1


def test_a_second_run_that_ends_with_the_budget_leaves_the_verdict_of_the_first() -> None:
    class Short(CannedExecutor):
        def survey(self, request: SurveyRequest, **options: Any) -> Survey:
            if self.asked:
                raise BudgetExceeded("the time is over")
            return super().survey(request, **options)

    found = asked_of(Short([out_of_time(COMPILING)])).run()
    assert isinstance(found, Settled) and found.reason is Reason.BUDGET and "while compiling graph 1" in found.summary


def test_a_run_that_is_to_come_to_a_call_again_has_longer_than_the_first() -> None:
    _, executor, _ = triage(ended(signal=11, at=AT), held(kind="wrong_output", verdict=WRONG), eager=[finished()])
    first, again = (watchdog.limits for watchdog in executor.watchdogs if watchdog is not None)
    assert again.share == 2 * first.share


@pytest.mark.parametrize(("seconds", "compares"), [(1.0, "all"), (4.0, "more")])
def test_no_more_is_promised_than_there_is_time_for(seconds: float, compares: str) -> None:
    """Of 192 calls 8 were compared, in 8 times so many seconds; the run may take 300 s."""
    checked = {"frames": 1, "graphs": 1, "calls": 8, "planned": 8, "calls_made": 192}
    calls = [calls_of(0, 192, 8)]
    run = finished(checked=checked, calls=calls, seconds=20.0 + 8 * seconds, comparing_seconds=8 * seconds)
    found = settled(run, steps=8)
    assert f"8 of 192 calls that were compared (1 graph); --steps 200 compares {compares}." in found.summary


def test_signals_without_a_name() -> None:
    assert (signal_name(6), signal_name(99)) == ("SIGABRT", "signal 99")


# the plan of coverage -------------------------------------------------------------------------------------------------


def slow(seconds: float, comparing: float, **fields: Any) -> dict[str, Any]:
    return finished(seconds=seconds, comparing_seconds=comparing, **fields)


def test_a_later_run_compares_what_the_first_left_out() -> None:
    first = slow(20.0, 4.0, calls=[{**calls_of(0, 40, 0), "watched": [0, 1, 3], "compared": [0, 1, 3]}])
    rest = [call for call in range(40) if call not in (0, 1, 3)]
    second = slow(20.0, 4.0, calls=[{**calls_of(0, 40, 0), "watched": rest, "compared": rest}])
    found, executor, _ = triage(first, second, steps=None)
    assert isinstance(found, Settled) and found.status is Status.HEALTHY
    assert "No difference in the 40 of 5 calls" in found.summary  # the canned count of those made
    assert executor.asked[0].calls is None
    # 16 seconds by itself, 4/3 for each call: 12 more, the last one among them.
    (asked,) = executor.asked[1].calls.values()
    assert len(asked) == 12 and 39 in asked and not {0, 1, 3} & set(asked)


def test_no_run_is_begun_that_would_cost_more_than_it_may() -> None:
    _, executor, _ = triage(slow(5.0, 0.5, calls=[calls_of(0, 9, 1)]), steps=None)
    assert len(executor.asked) == 2  # 4.5 s by itself, 18 may be taken: 10 and 9 more would be too much


def test_a_script_with_a_key_that_was_never_compared_is_not_healthy() -> None:
    late = slow(5.0, 2.0, calls=[{**calls_of(0, 3, 1), "keys": [0, 1, 2]}])
    found = settled(late, steps=None)
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.BUDGET)
    assert "no time to compare 2 combinations of graph, module and size even once" in found.summary


# failures that do not always show ---------------------------------------------------------------------------------------


def test_a_script_that_ends_well_is_run_again_and_how_often_is_told() -> None:
    found, executor, _ = triage(finished())
    assert isinstance(found, Settled)
    assert len(executor.asked) == SURVEYS
    assert f"{SURVEYS} times" in found.summary


def test_a_slow_script_is_run_fewer_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is begun after 45 seconds."""
    for seconds, runs in ((20.0, 3), (40.0, 2), (50.0, 1)):
        clock = iter(range(100))
        monkeypatch.setattr(
            "minimizer.engine.survey.triage.time.monotonic", lambda clock=clock, step=seconds: next(clock) * step
        )
        _, executor, _ = triage(finished())
        assert len(executor.asked) == runs


def test_a_failure_that_shows_in_the_third_run_is_a_case() -> None:
    failing = held(kind="wrong_output", verdict=WRONG, graph=0)
    found, executor, _ = triage(finished(), finished(), failing)
    assert isinstance(found, Case)
    assert (found.runs, len(executor.asked)) == (3, 3)


def test_a_call_that_was_not_compared_before_fails_in_every_run_in_which_it_is() -> None:
    found, executor, _ = triage(finished(), held(kind="wrong_output", verdict=WRONG, graph=1))
    assert isinstance(found, Case)
    assert (found.runs, found.is_warm, len(executor.asked)) == (1, False, 2)


def test_what_earlier_runs_have_shown_holds_when_time_runs_out() -> None:
    class OutOfTime(CannedExecutor):
        def survey(self, request: SurveyRequest, **options: Any) -> Survey:
            if len(self.asked) == 2:
                raise BudgetExceeded("the budget is used up")
            return super().survey(request, **options)

    executor = OutOfTime([finished()])
    found = asked_of(executor).run()
    assert isinstance(found, Settled)
    assert found.status is Status.HEALTHY
    assert "2 times" in found.summary


def test_a_failure_of_the_whole_script_that_seldom_shows_says_so() -> None:
    found = unshown(finished(), finished(exception=error("TypeError")), eager=[finished()])
    assert (found.status, found.reason) == (Status.PARTIAL, Reason.NOT_VERIFIED)
    assert "1 of 2 runs" in found.summary
    assert found.runs == 2


def test_a_check_that_passes_when_it_is_run_again_is_run_until_it_fails() -> None:
    failing = finished(exception=error("AssertionError"))
    found, executor, _ = triage(
        failing, finished(), finished(), held(kind="wrong_output", verdict=WRONG), eager=[finished()]
    )
    assert isinstance(found, Case)
    assert (found.runs, len(executor.compiled)) == (3, 4)


def test_eager_differing_from_eager_is_nondeterministic_whatever_the_script_makes_of_it() -> None:
    for how in ({}, {"exception": error("AssertionError")}):
        found = settled(finished(unsteady="compiled graph 1, call 0", **how))
        assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)
        assert "compiled graph 1, call 0" in found.summary


def test_a_graph_that_is_noisy_in_eager_hides_no_fault_of_another() -> None:
    """A suspect of another graph is asked, and so is an error that the script ends by only with the compiler."""
    suspect, *_ = triage(finished(unsteady="compiled graph 0, call 0", suspects=[SUSPECT]), held())
    assert isinstance(suspect, Case)
    assert suspect.otherwise is not None and suspect.otherwise.reason is Reason.NONDETERMINISTIC
    raised, *_ = triage(
        finished(unsteady="compiled graph 0, call 0", exception=error("ValueError")), eager=[finished()]
    )
    assert isinstance(raised, ScriptCase)


@pytest.mark.parametrize("first", [finished(), finished(exception=error("ValueError"))])
def test_a_script_that_fails_now_and_then_without_the_compiler_is_nondeterministic(first: dict[str, Any]) -> None:
    other = finished(exception=error("ValueError")) if first["finished"].exception is None else finished()
    found, executor, _ = triage(finished(exception=error("ValueError")), eager=[first, first, other])
    assert isinstance(found, Settled)
    assert (found.status, found.reason) == (Status.FAILED, Reason.NONDETERMINISTIC)
    assert "of 3 runs: ValueError" in found.summary
    assert len(executor.asked) == 4


def test_eager_is_asked_often_before_it_is_believed() -> None:
    _, executor, _ = triage(finished(exception=error("ValueError")), eager=[finished()])
    assert [request.stance for request in executor.asked if not request.compile].count(False) == EAGER_RUNS


def test_what_a_graph_needs_of_its_script_travels_with_it(tmp_path: Path) -> None:
    """A custom pass is an object that no literal expresses: its definition is sliced out of the script."""
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nimport torch._inductor.config as config\n\ndef unrelated():\n    pass\n\n"
        "def drop(graph):\n    pass\n\nconfig.post_grad_custom_post_pass = drop\n"
    )
    answer = parse(
        Held,
        {
            "failure": {"graph": 0, "phase": "run", "kind": "wrong_output", "verdict": WRONG},
            "program": {
                **PROGRAM,
                "setup": ["torch.set_default_dtype(torch.float64)"],
                "opaque_settings": ["torch._inductor.config.post_grad_custom_post_pass"],
            },
        },
    )
    executor = CannedExecutor([{"held": answer}])
    asked = asked_of(executor, path)
    found = asked.run()
    assert isinstance(found, Case)
    text = "\n".join(found.program.setup)
    assert "def drop(graph)" in text
    assert "config.post_grad_custom_post_pass = drop" in text
    assert "unrelated" not in text
    assert found.program.setup[-1] == "torch.set_default_dtype(torch.float64)"


def test_a_script_that_is_no_python_any_more_brings_nothing_along(tmp_path: Path) -> None:
    """It may have rewritten itself while it ran."""
    script = tmp_path / "script.py"
    script.write_text("def f(:\n")
    executor = CannedExecutor([held(kind="wrong_output", verdict=WRONG)], [])
    asked = asked_of(executor, script)
    found = asked.run()
    assert isinstance(found, Case)
    assert found.program.setup == ()


# the GPU ----------------------------------------------------------------------------------------------------------------

FULL = {**error("torch.OutOfMemoryError", "CUDA out of memory."), "device": "out_of_memory"}
LOST = {**error("torch.AcceleratorError", "CUDA error: misaligned address"), "device": "context_lost"}


@pytest.mark.parametrize("run", [held(kind="runtime_error", exception=FULL), finished(exception=FULL)])
def test_memory_that_is_short_only_in_our_run_is_no_failure(run: dict[str, Any]) -> None:
    found = settled(run, eager=[finished()])
    assert (found.status, found.reason, found.kind) == (Status.PARTIAL, Reason.NOT_VERIFIED, None)
    assert is_starved(found)


@pytest.mark.parametrize("run", [held(kind="runtime_error", exception=FULL), finished(exception=FULL)])
def test_memory_that_is_short_in_eager_too_is_the_scripts_own_fault(run: dict[str, Any]) -> None:
    found = settled(run, eager=[finished(exception=FULL)])
    assert (found.status, found.reason) == (Status.FAILED, Reason.FAILS_IN_EAGER)
    assert not is_starved(found)


@pytest.mark.parametrize(
    ("phase", "kind"),
    [("compile", Kind.COMPILE_ERROR), ("run", Kind.RUNTIME_ERROR), ("backward", Kind.RUNTIME_ERROR)],
)
def test_a_call_that_lost_the_gpu_is_held_before_it_comes_to_that(phase: str, kind: Kind) -> None:
    lost = {"graph": 1, "call": 2, "phase": phase}
    found, executor, _ = triage(finished(exception=LOST, lost=lost), held())
    assert isinstance(found, Case)
    assert found.signature == Signature(kind, "torch.AcceleratorError", "CUDA error: misaligned address")
    assert executor.asked[1].hold == HoldPlace(1, 2)
    assert found.message == "AcceleratorError: CUDA error: misaligned address"


def test_a_call_that_lost_the_gpu_and_cannot_be_held_is_the_scripts_to_show() -> None:
    lost = {"graph": 1, "call": 2, "phase": "run"}
    found = unshown(finished(exception=LOST, lost=lost), finished(), eager=[finished()])
    assert found.kind is Kind.RUNTIME_ERROR


@pytest.mark.parametrize(
    ("run", "again"),
    [
        (finished(exception=LOST, lost={"graph": 1, "call": 2, "phase": "run"}), True),
        (finished(exception=LOST, lost={"graph": 1, "call": 2, "phase": "compile"}), False),
        (finished(exception=FULL), None),
        (held(kind="runtime_error", exception=FULL), None),
    ],
)
def test_whether_a_lost_gpu_is_lost_again(run: dict[str, Any], again: bool | None) -> None:
    lost = {"graph": 1, "call": 2, "phase": "run"}
    executor = CannedExecutor([finished(exception=LOST, lost=lost), held(), run])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    assert fails_again(asked.surveys, found) is again


# caches -----------------------------------------------------------------------------------------------------------------


def test_first_run_fills_the_caches_and_the_second_takes_its_graphs_from_them() -> None:
    _, executor, _ = triage(finished())
    assert [request.caches for request in executor.compiled] == [True, True, False, False, False]


@pytest.mark.parametrize(("before", "is_warm"), [(0, False), (1, True), (2, False)])
def test_failure_of_the_run_on_warm_caches_says_so(before: int, is_warm: bool) -> None:
    found, _, _ = triage(*[finished()] * before, held(kind="wrong_output", verdict=WRONG, graph=0))
    assert isinstance(found, Case)
    assert found.is_warm is is_warm
    assert found.is_cached is (before < 2)


def test_runs_that_pass_a_graph_by_do_so_from_then_on() -> None:
    executor = CannedExecutor([held(kind="wrong_output", verdict=WRONG), finished()])
    asked = asked_of(executor)
    found = asked.run()
    assert isinstance(found, Case)
    assert isinstance(asked.without([1]), Settled)
    fails_again(asked.surveys, found)
    assert [request.passed_by for request in executor.compiled] == [[], [1], [1]]

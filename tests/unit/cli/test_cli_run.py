"""`minimizer run`: what it hands to the pipeline, what it prints, and how it exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import types
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minimizer.cli import main
from minimizer.cli.exit_status import Exit
from minimizer.cli.options import find_interpreter, require_place
from minimizer.cli.progress import KEPT
from minimizer.errors import MissingTool
from minimizer.options import Options
from minimizer.report.culprit import Culprit
from minimizer.report.instances import Instances
from minimizer.report.model import Failure, Reduction, Report, Verification, Workaround
from minimizer.sink import Sink
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step

Engine = Callable[..., Report]


class Ran:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


class CommandLine:
    """Calls `minimizer` in this process, with an engine of the test's choice behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.calls: list[dict[str, Any]] = []

    def engine(self, minimize: Engine) -> None:
        def recorded(script: Path, **arguments: Any) -> Report:
            self.calls.append({"script": script, **arguments})
            return minimize(arguments["sink"])

        module = types.ModuleType("minimizer.engine.pipeline")
        module.minimize = recorded  # type: ignore[attr-defined]
        self._monkeypatch.setitem(sys.modules, "minimizer.engine.pipeline", module)

    def __call__(self, *arguments: str | Path) -> Ran:
        self._monkeypatch.setattr(sys, "argv", ["minimizer", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = self._capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Ran(exit_.value.code, captured.out, captured.err)


@pytest.fixture
def minimizer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    line = CommandLine(monkeypatch, capsys)
    line.engine(lambda sink: Report(status=Status.HEALTHY))
    return line


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    return path


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (Status.MINIMIZED, None, 0),
        (Status.HEALTHY, None, 3),
        (Status.PARTIAL, Reason.BUDGET, 4),
        (Status.FAILED, Reason.FAILS_IN_EAGER, 5),
        (Status.FAILED, Reason.INTERNAL_ERROR, 1),
        (Status.CANCELLED, Reason.INTERRUPTED, 130),
    ],
)
def test_exit_status_says_how_it_ended(
    minimizer: CommandLine, script: Path, status: Status, reason: Reason | None, expected: int
) -> None:
    minimizer.engine(lambda sink: Report(status=status, reason=reason))
    assert minimizer("run", script).status == expected


def test_the_budget_begins_with_the_command(minimizer: CommandLine, script: Path) -> None:
    """Not once the engine is there, which takes its time on a crowded machine."""
    began = time.monotonic()
    minimizer("run", script)
    (call,) = minimizer.calls
    assert began <= call["began"] <= time.monotonic()


def test_options_reach_the_pipeline(minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "x")
    folder = script.parent / "weights"
    folder.mkdir()
    settings = ["--jobs", "3", "--sandbox", "off", "--bind", str(folder), "--network", "--python", sys.executable]
    job = ["--budget", "60", "--device", "cpu", "--expect", "crash", "--target", "blocks.1", "--steps", "2"]
    more = ["--hang-after", "9", "--env", "DATA", "--no-diagnosis", "--no-witness", "--nproc", "7"]
    minimizer("run", script, *settings, *job, *more, "--", "--batch", "4")

    (call,) = minimizer.calls
    assert call["options"] == Options(
        budget=60,
        device="cpu",
        expect="crash",
        target="blocks.1",
        steps=2,
        hang_after=9,
        env=["DATA"],
        diagnosis=False,
        witness=False,
        nproc=7,
        args=["--batch", "4"],
    )
    assert (call["settings"].trial_jobs, call["settings"].sandbox) == (3, "off")
    assert (call["script"], list(call["binds"]), call["network"]) == (script, [folder], True)
    assert call["python"] == Path(sys.executable)


@pytest.mark.parametrize("command", ["run", "submit"])
def test_every_option_of_a_job_is_an_option_here(minimizer: CommandLine, command: str) -> None:
    shown = minimizer(command, "--help").out
    left_out = {"args"} | ({"toolchain"} if command == "run" else set())
    for name in set(Options.model_fields) - left_out:
        assert "--" + name.replace("_", "-") in shown
    assert "-- ARGS" in shown
    assert "Examples:" in shown


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_script_is_not_overwritten_by_its_result(
    minimizer: CommandLine, script: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script.rename(script.with_name("repro.py"))
    monkeypatch.chdir(script.parent)
    ran = minimizer(command, "repro.py", "--out", ".", *(["--wait"] if command == "submit" else []))
    assert ran.status == 2 and f"in the place of {script}" in ran.err
    assert not minimizer.calls


def test_results_go_to_the_out_folder(minimizer: CommandLine, script: Path, tmp_path: Path) -> None:
    def minimize(sink: Sink) -> Report:
        sink.artifact("repro.py", b"import torch\n")
        report = Report(
            status=Status.MINIMIZED,
            summary="relu is wrong.",
            failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR),
            culprits=[Culprit(module="blocks.7.activation", ops=["aten.relu"])],
            reduction=Reduction(nodes_before=750, nodes_after=1, trials=21, seconds=30, one_minimal=True),
            verification=Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True),
        )
        sink.report(report)
        return report

    minimizer.engine(minimize)
    ran = minimizer("run", script, "--out", tmp_path / "bug")
    assert (tmp_path / "bug" / "repro.py").read_bytes() == b"import torch\n"
    assert json.loads((tmp_path / "bug" / "report.json").read_text())["status"] == "minimized"
    for fact in ("wrong_output in inductor", "aten.relu in blocks.7.activation", "750 nodes to 1", "3 of 3"):
        assert fact in ran.out
    assert str(tmp_path / "bug" / "repro.py") in ran.out


def test_equal_modules_are_one_line(minimizer: CommandLine, script: Path) -> None:
    own = Instances(wrong=[f"layers.{n}" for n in range(12)], right=[f"layers.{n}" for n in range(12, 64)])
    others = Instances(wrong=["heads.0", "heads.1"], compared="modules")
    culprits = [
        Culprit(module="layers.0.act", nodes=["relu"], ops=["aten.relu"], instances=own),
        Culprit(module="heads.0", what="fails by itself too", instances=others),
        Culprit(module="tail", nodes=["sin"], ops=["aten.sin"], what="fails by itself too: repro-2.py"),
    ]
    minimizer.engine(lambda sink: Report(status=Status.MINIMIZED, culprits=culprits))
    ran = minimizer("run", script)
    assert [line for line in ran.out.splitlines() if line.startswith("culprit")] == [
        "culprit    aten.relu in layers.0.act: the same in layers 1 to 11, and not in layers 12 to 63",
        "culprit    fails by itself too in heads 0 and 1",
        "culprit    aten.sin in tail: fails by itself too: repro-2.py",
    ]


def test_a_module_and_a_test_are_run_by_a_driver(
    minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    (script.parent / "test_a.py").write_text("def test_b(): pass\n")
    minimizer("run", "-m", script.stem, "4", "--", "--batch", "8")
    minimizer("run", "test_a.py::test_b")
    module, test = minimizer.calls
    assert module["options"].args == ["4", "--batch", "8"]
    assert [one["script"].name for one in (module, test)] == [f"run-{script.stem}.py", "run-test_a-test_b.py"]
    assert [list(one["binds"]) for one in (module, test)] == [[script.parent]] * 2
    names = sorted(folder.name[: -len("-20260101-000000")] for folder in (script.parent / "minimizer-out").iterdir())
    assert names == ["test_a-test_b", script.stem]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["-m", "no.such"], "go to the folder from which"),
        (["test_a.py::test_b"], "a test is named as pytest does"),
        (["no_such.py"], "does not exist"),
        ([], "Missing argument 'SCRIPT'"),
    ],
)
def test_what_is_not_there_is_refused(
    minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], said: str
) -> None:
    monkeypatch.chdir(script.parent)
    ran = minimizer("run", *named)
    assert (ran.status, minimizer.calls) == (Exit.USAGE, [])
    assert said in " ".join(ran.err.split())


def test_each_script_of_a_folder_is_run_once(minimizer: CommandLine, script: Path) -> None:
    def engine(sink: Sink) -> Report:
        sink.report(Report(status=Status.HEALTHY))
        return Report(status=Status.HEALTHY)

    minimizer.engine(engine)
    (script.parent / "other.py").write_text("import torch\n")
    first = minimizer("run", "--each", script.parent, "--budget", "60", "--", "--batch", "4")
    names = sorted(["other.py", script.name])
    assert [call["script"].name for call in minimizer.calls] == names
    assert [call["options"].args for call in minimizer.calls] == [["--batch", "4"]] * 2
    second = minimizer("run", "--each", script.parent, "--budget", "60", "--", "--batch", "4")
    assert len(minimizer.calls) == 2, "all were done"
    assert first.status == second.status == Exit.HEALTHY
    assert [*first.out.splitlines()][-4:] == second.out.splitlines()[-4:], "the same table"
    assert "2 scripts" in second.out and all(name in second.out for name in names)


def test_each_refuses_what_is_of_single_scripts(minimizer: CommandLine, script: Path) -> None:
    for more in (["-m", "train"], ["--fail-on", "any"], ["--junit", "a.xml"]):
        ran = minimizer("run", "--each", script.parent, *more)
        assert (ran.status, minimizer.calls) == (Exit.USAGE, [])
        assert "--each goes neither with -m" in " ".join(ran.err.split())


def test_the_default_folder_names_the_script(minimizer: CommandLine, script: Path) -> None:
    minimizer("run", script)
    (folder,) = (script.parent / "minimizer-out").iterdir()
    assert folder.name.startswith("train-2")


def test_json_is_one_object_a_line_and_ends_with_the_report(minimizer: CommandLine, script: Path) -> None:
    def minimize(sink: Sink) -> Report:
        sink.event("step", step="survey", state="started")
        sink.event("note", message="hello")
        return Report(status=Status.HEALTHY, summary="All is well.")

    minimizer.engine(minimize)
    ran = minimizer("run", script, "--json")
    first, second, report = map(json.loads, ran.out.splitlines())
    assert (first["type"], first["step"], second["message"]) == ("step", "survey", "hello")
    assert Report.model_validate(report).summary == "All is well."


def test_progress_is_plain_lines_on_stderr(minimizer: CommandLine, script: Path) -> None:
    def minimize(sink: Sink) -> Report:
        sink.event("step", step="reduce", state="started")
        sink.event("failure", failure={"kind": "wrong_output", "reproducibility": {"failed": 3, "runs": 3}})
        for nodes in (40, 40, 7):
            sink.event("progress", nodes=nodes, nodes_before=40, trials=5, message="")
        sink.event("culprit", culprit={"ops": ["aten.relu"], "module": "blocks.7"})
        return Report(status=Status.HEALTHY)

    minimizer.engine(minimize)
    said = [line.split("] ", 1)[1] for line in minimizer("run", script).err.splitlines()]
    assert said == [
        f"{Step.REDUCE.what} ...",
        "It fails: wrong_output (3 of 3 runs of the script)",
        "  40 nodes of 40, 5 trials",
        "  7 nodes of 40, 5 trials",
        "At fault: aten.relu in blocks.7",
    ]


@pytest.mark.parametrize("further", [[Step.HEALTH, Step.WITNESS], []], ids=["more follows", "nothing follows"])
def test_once_the_verdict_stands_the_terminal_says_what_ctrl_c_does(
    minimizer: CommandLine, script: Path, further: list[Step]
) -> None:
    """Where something follows, and once; and the clock, which is told all along, is no line."""

    def minimize(sink: Sink) -> Report:
        for elapsed in (1.0, 6.0):
            sink.event("progress", nodes=7, nodes_before=40, elapsed=elapsed, decided=elapsed > 5)
        sink.event("progress", nodes=7, nodes_before=40, elapsed=11.0, decided=True)
        for step in further:
            sink.event("step", step=step, state="started")
        return Report(status=Status.MINIMIZED)

    minimizer.engine(minimize)
    said = [line.split("] ", 1)[1] for line in minimizer("run", script).err.splitlines()]
    assert said == ([KEPT] if further else []) + [f"{step.what} ..." for step in further]


def test_a_script_cannot_steer_the_terminal(minimizer: CommandLine, script: Path) -> None:
    def minimize(sink: Sink) -> Report:
        sink.event("note", message="\x1b]0;owned\x07 \x1b[2Jtext")
        return Report(status=Status.HEALTHY, summary="\x1b[31mred")

    minimizer.engine(minimize)
    ran = minimizer("run", script)
    assert "\x1b" not in ran.err + ran.out
    assert "text" in ran.err and "red" in ran.out


def test_interrupt_keeps_the_best_so_far(minimizer: CommandLine, script: Path, tmp_path: Path) -> None:
    def minimize(sink: Sink) -> Report:
        sink.artifact("repro.py", b"best so far")
        assert not sink.cancelled()
        os.kill(os.getpid(), signal.SIGINT)
        assert sink.cancelled()
        return Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED)

    minimizer.engine(minimize)
    ran = minimizer("run", script, "--out", tmp_path / "out")
    assert ran.status == Exit.CANCELLED
    assert "Stopping" in ran.err
    assert (tmp_path / "out" / "repro.py").read_bytes() == b"best so far"


def test_a_second_interrupt_does_not_wait(minimizer: CommandLine, script: Path) -> None:
    def minimize(sink: Sink) -> Report:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second interrupt was lost")

    minimizer.engine(minimize)
    ran = minimizer("run", script)
    assert ran.status == Exit.CANCELLED
    assert "Traceback" not in ran.err


def test_a_fault_of_ours_is_named_as_such(minimizer: CommandLine, script: Path) -> None:
    def minimize(sink: Sink) -> Report:
        raise ZeroDivisionError("oops")

    minimizer.engine(minimize)
    ran = minimizer("run", script)
    assert ran.status == Exit.INTERNAL
    assert "minimizer itself failed: ZeroDivisionError: oops" in ran.err
    assert "Traceback" not in ran.err
    log = Path(ran.err.split("The details are in ")[1].split(";")[0])
    assert "Traceback" in log.read_text()
    log.unlink()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b'{"cells": [], "metadata": {"a": null}, "nbformat": 4}', "notebook without code"),
        (b"def f(:\n", "is not Python"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"#" * ((1 << 20) + 1), "at most 1,048,576"),
    ],
)
def test_refuses_what_is_no_script(minimizer: CommandLine, script: Path, content: bytes, message: str) -> None:
    script.write_bytes(content)
    ran = minimizer("run", script)
    assert ran.status == Exit.USAGE
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert not minimizer.calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "1"], "budget"),
        (["--budget", "soon"], "--budget"),
        (["--device", "tpu"], "'tpu'"),
        (["--frobnicate"], "--frobnicate"),
        (["--env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE: this variable is not set"),
        (["--env", "NO-NAME"], "env.0"),
        (["--python", "no-such-python"], "no such program"),
        (["--python", "/etc/passwd"], "--python /etc/passwd: permission denied to run it"),
        (["--python", "/usr/bin"], "--python /usr/bin: a folder, not a program"),
        (["--python", "/no/such/python"], "--python /no/such/python: no such program"),
        (["--python", "/bin/ls"], "/bin/ls is not a Python interpreter that runs"),
        (["--out", "/proc/nope"], "--out /proc/nope cannot be written"),
        (["--out", "n" * 300], "cannot be written: File name too long"),
        (["--junit", "/proc/nope/junit.xml"], "--junit /proc/nope/junit.xml cannot be written"),
        (["--bind", "/no/such/place"], "/no/such/place"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_refuses_wrong_options(minimizer: CommandLine, script: Path, arguments: list[str], message: str) -> None:
    ran = minimizer("run", script, *arguments)
    assert ran.status == Exit.USAGE
    assert message in ran.err
    assert not minimizer.calls


def test_a_python_in_a_closed_folder_is_not_said_to_be_missing(tmp_path: Path) -> None:
    """As pyenv's in the home of another user are."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    python.parent.chmod(0)
    mine = os.getresuid()
    try:
        if mine[0] == 0:  # whom no mode stops
            os.setresuid(65534, 65534, 0)
        with pytest.raises(MissingTool, match="python: permission denied to reach it; give the path"):
            find_interpreter(str(python))
    finally:
        os.setresuid(*mine)
        python.parent.chmod(0o700)


def test_a_python_without_torch_is_wrong_usage(minimizer: CommandLine, script: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    bare = tmp_path / "bare" / "bin" / "python"
    ran = minimizer("run", script, "--python", bare)
    assert ran.status == Exit.USAGE
    assert f"{bare} has no torch. Install torch 2.11 to 2.15 there, or name another Python." in ran.err
    assert not minimizer.calls


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_verdict_is_broken_between_words_on_a_terminal_only(
    minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(
        "minimizer.cli.verdict.sys", types.SimpleNamespace(stdout=types.SimpleNamespace(isatty=lambda: is_terminal))
    )
    monkeypatch.setenv("COLUMNS", "60")
    summary = "The repro has one node and failed in 3 of 3 clean processes, with nothing in them but torch."
    code = "if True:\n    torch._inductor.config.a_setting_with_a_long_name_that_nobody_may_break = 1"
    workaround = Workaround(code=code, verified=True, where="before line 3 (f(x))")
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR)
    culprit = Culprit(
        ops=["aten.relu"], what="a lowering that is called by a name so long that no line holds all of it"
    )
    minimizer.engine(
        lambda sink: Report(
            status=Status.MINIMIZED, summary=summary, failure=failure, culprits=[culprit], workaround=workaround
        )
    )
    lines = minimizer("run", script).out.splitlines()
    if not is_terminal:
        assert summary in lines
        return
    assert all(len(line) <= 60 for line in lines if not line.startswith("    ") and "/" not in line)
    assert " ".join(lines).startswith(f"MINIMIZED {summary}")
    at = next(i for i, line in enumerate(lines) if line.startswith("culprit    a lowering"))
    assert lines[at + 1].startswith(" " * 11) and lines[at + 1].strip()
    assert f"    {code.splitlines()[1]}" in lines, "what is to be copied stays whole"


def test_a_place_is_tried_without_a_trace(script: Path) -> None:
    (script.parent / "there").mkdir()
    for out in ("there", "there/new/../below", "new/folder"):
        require_place("--out", Path(out))
    assert sorted(path.name for path in script.parent.rglob("*")) == ["there", "train.py"]


def test_a_working_folder_that_takes_no_results_is_said_so(
    minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    ran = minimizer("run", script)
    assert ran.status == Exit.USAGE and "cannot be written" in ran.err
    assert not minimizer.calls


def test_a_missing_script_is_a_usage_error(minimizer: CommandLine, tmp_path: Path) -> None:
    ran = minimizer("run", tmp_path / "nowhere.py")
    assert ran.status == Exit.USAGE
    assert "does not exist" in ran.err


def test_a_bad_setting_is_named(minimizer: CommandLine, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIMIZER_TRIAL_MEMORY_BYTES", "plenty")
    ran = minimizer("run", script)
    assert ran.status == Exit.USAGE
    assert "MINIMIZER_TRIAL_MEMORY_BYTES" in ran.err


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; import minimizer.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"torch", "pydantic", "rich", "sqlalchemy", "celery", "flask"} & set(loaded)


def test_help_names_every_command(minimizer: CommandLine) -> None:
    ran = minimizer("--help")
    assert ran.status == 0
    for command in ("run", "serve", "submit", "status", "download", "doctor", "db"):
        assert f"  {command} " in ran.out

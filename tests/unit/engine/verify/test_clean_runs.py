"""When a repro counts as verified. The scripts here need no torch: what counts is how they end and what they say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minimizer.engine.emit import Repro
from minimizer.engine.verify.clean_runs import CANNOT_RUN, PRIMS, Run, verify
from minimizer.errors import Cancelled, WorkerTrouble
from minimizer.report.model import Verification
from minimizer.sandbox import Sandbox, choose_sandbox
from minimizer.vocabulary import Kind

HEALTHY_WITHOUT_COMPILER = 'import os, sys\nif "TORCHDYNAMO_DISABLE" in os.environ:\n    sys.exit(0)\n'


def verified(
    source: str,
    tmp_path: Path,
    *,
    sandbox: Sandbox | None = None,
    data: bytes | None = None,
    timeout: float = 60,
    watch: Callable[[], None] = lambda: None,
) -> tuple[Verification, list[str]]:
    found, odd = verified_with_runs(source, tmp_path, sandbox=sandbox, data=data, timeout=timeout, watch=watch)
    return found, [note for _, note in odd]


def verified_with_runs(
    source: str,
    tmp_path: Path,
    *,
    sandbox: Sandbox | None = None,
    data: bytes | None = None,
    timeout: float = 60,
    watch: Callable[[], None] = lambda: None,
) -> tuple[Verification, list[tuple[Run, str]]]:
    odd: list[tuple[Run, str]] = []
    repro = Repro(source=source, lines=1, kind=Kind.WRONG_OUTPUT, evidence="AssertionError: ")
    found = verify(
        repro,
        data,
        sandbox=sandbox or choose_sandbox("off"),
        python=Path(sys.executable),
        scratch=tmp_path,
        timeout=timeout,
        left=lambda: 600.0,
        read=(),
        on_odd=lambda run, note: odd.append((run, note)),
        watch=watch,
    )
    return found, odd


def test_a_repro_that_fails_every_time_for_its_reason_is_verified(tmp_path: Path) -> None:
    text = HEALTHY_WITHOUT_COMPILER + "def unused(f):\n    return torch.compile(f)\n\n\nraise AssertionError('is off')"
    found, notes = verified(text, tmp_path)
    assert found.holds and found.failed_same == found.runs == 3 and found.public_api
    assert notes == []
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_killed_once_is_made_again(tmp_path: Path) -> None:
    """As where the kernel ended it for want of memory."""
    marker = tmp_path / "marker"
    dies_once = f"""
try:
    os.close(os.open({str(marker)!r}, os.O_CREAT | os.O_EXCL))
    os.kill(os.getpid(), 9)
except FileExistsError:
    pass
"""
    found, notes = verified(f"import os{dies_once}{HEALTHY_WITHOUT_COMPILER}assert 0, 'x'", tmp_path)
    assert marker.exists()
    assert found.holds and notes == []


def test_runs_that_are_killed_each_time_are_no_verdict_about_the_repro(tmp_path: Path) -> None:
    with pytest.raises(WorkerTrouble, match="the repro was killed with SIGKILL each time"):
        verified(HEALTHY_WITHOUT_COMPILER + "os.kill(os.getpid(), 9)", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_kept_from_the_processor_is_made_again(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    stops_once = f"""
import os, signal
try:
    os.close(os.open({str(marker)!r}, os.O_CREAT | os.O_EXCL))
    os.kill(os.getpid(), signal.SIGSTOP)
except FileExistsError:
    pass
"""
    text = stops_once + HEALTHY_WITHOUT_COMPILER + "assert 0, 'x'"
    found, notes = verified(text, tmp_path, timeout=10)
    assert marker.exists()
    assert found.holds and found.stopped == 0 and notes == []


@pytest.mark.parametrize(
    ("left", "limits"),
    [
        ([50.0] * 4 + [45.0, 44.0, 3.0, 2.0, 0.0, 0.0], [50.0] * 4 + [44.0, 2.0]),
        ([0.0] * 9, [0.0] * 4),
    ],
    ids=["scarce", "none"],
)
def test_no_run_outlasts_what_is_left_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[float], limits: list[float]
) -> None:
    """However crowded the machine is: what was stopped is made again in that time, or says nothing."""
    asked, rest = list[float](), iter(left)

    def stopped(
        repro: object,
        data: object,
        sandbox: object,
        python: object,
        folder: object,
        limit: float,
        *_: object,
        **__: object,
    ) -> Run:
        asked.append(limit)
        return Run(None, "", limit)

    monkeypatch.setattr("minimizer.engine.verify.clean_runs.run_once", stopped)
    monkeypatch.setattr("minimizer.engine.verify.clean_runs.crowding", lambda: 8.0)
    found = verify(
        Repro(source="", lines=1, kind=Kind.WRONG_OUTPUT, evidence="AssertionError: "),
        None,
        sandbox=choose_sandbox("off"),
        python=Path(sys.executable),
        scratch=tmp_path,
        timeout=60,
        left=lambda: next(rest, 0.0),
        read=(),
    )
    assert asked == limits
    assert found.stopped == 4 and found.lacked_time


def test_it_holds_in_the_sandbox_of_this_machine(tmp_path: Path) -> None:
    found, notes = verified(HEALTHY_WITHOUT_COMPILER + "assert 0, 'x'", tmp_path, sandbox=choose_sandbox("auto"))
    assert found.holds, notes


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("raise KeyError('other')", "failed in another way; it said \"KeyError: 'other'\""),
        ("print('no compiler')\nsys.exit(125)", "could not run here (exit status 125); it said 'no compiler'"),
        ("print('AssertionError: ')", "passed"),
        ("os.kill(os.getpid(), 11)", "ended with exit status"),
        ("sys.exit(3)", "ended with exit status 3"),
    ],
)
def test_any_other_end_is_no_verification_and_is_told(tmp_path: Path, ending: str, said: str) -> None:
    found, notes = verified(HEALTHY_WITHOUT_COMPILER + ending, tmp_path)
    assert not found.holds and found.failed_same == 0 and found.passes_with_compiler_off
    assert len(notes) == 3 and all(said in note for note in notes)


def test_a_run_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    found, notes = verified(
        HEALTHY_WITHOUT_COMPILER + "import threading\nthreading.Event().wait()", tmp_path, timeout=2
    )
    assert (found.failed_same, found.stopped) == (0, 3)
    assert notes == ["the repro was stopped after 2 seconds"] * 3


def test_all_runs_end_when_the_owner_gives_up(tmp_path: Path) -> None:
    """As soon as each of the runs has said that it is there; none of them would end by itself."""
    mark = tmp_path / "there"
    mark.mkdir()

    def watch() -> None:
        if len(pids := list(mark.iterdir())) == 4:
            raise Cancelled(" ".join(path.name for path in pids))

    wait = f"import os, pathlib, signal\npathlib.Path({str(mark)!r}, str(os.getpid())).touch()\nsignal.pause()"
    with pytest.raises(Cancelled) as gave_up:
        verified(wait, tmp_path, timeout=1000, watch=watch)
    for pid in str(gave_up.value).split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert list(tmp_path.iterdir()) == [mark]


def test_failing_without_the_compiler_too_is_no_verification(tmp_path: Path) -> None:
    found, notes = verified("assert 0, 'always'", tmp_path)
    assert not found.holds and found.failed_same == 3 and not found.passes_with_compiler_off
    assert len(notes) == 1 and notes[0].startswith("With the compiler switched off: ")


def test_one_run_in_three_that_passes_is_no_verification(tmp_path: Path) -> None:
    shared = tmp_path / "count"
    shared.mkdir()
    once = f"import pathlib\ntry:\n    pathlib.Path({str(shared)!r}, 'seen').mkdir()\nexcept FileExistsError:\n    assert 0, 'again'\n"
    found, notes = verified(HEALTHY_WITHOUT_COMPILER + once, tmp_path)
    assert not found.holds and found.failed_same == 2
    assert notes == ["the repro passed"]


def test_each_run_starts_with_nothing_but_the_script_and_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    look = (
        "import pathlib\n"
        "beside = sorted(path.name for path in pathlib.Path('.').iterdir())\n"
        "if beside == ['data.pt', 'repro.py'] and not list(pathlib.Path.home().iterdir()) and 'A_SECRET' not in os.environ:\n"
        "    raise AssertionError('as it should be')\n"
    )
    found, notes = verified(HEALTHY_WITHOUT_COMPILER + look, tmp_path, data=b"tensors")
    assert found.holds, notes


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    found, _ = verified(HEALTHY_WITHOUT_COMPILER + "print('x' * 10_000_000, flush=True)\nassert 0, 'end'", tmp_path)
    assert found.holds


def test_an_internal_entry_is_not_the_public_interface(tmp_path: Path) -> None:
    assert not verified("# torch.compile(f) and torch._dynamo.optimize()\n", tmp_path)[0].public_api
    assert not verified("x = 1\n", tmp_path)[0].public_api


def test_an_import_that_only_a_clean_process_lacks_is_named_and_added(tmp_path: Path) -> None:
    """Our processes have imported what the script imports long before the reduction drops the line."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "_inductor.py").write_text("x = 1\n")
    here = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport torch\n"
    source = (
        f"{HEALTHY_WITHOUT_COMPILER}{here}"
        "try:\n    torch._inductor.x\nexcept Exception as error:\n    print(f'cannot run here: {error}')\n    sys.exit(125)\n"
        "raise AssertionError('wrong')\n"
    )
    found, odd = verified_with_runs(source, tmp_path / "scratch")
    assert not found.failed_same
    assert {run.missing_module for run, _ in odd} == {"torch._inductor"}

    repro = Repro(source=source, lines=1, kind=Kind.WRONG_OUTPUT, evidence="").importing("torch._inductor")
    found, notes = verified(repro.source, tmp_path / "again")
    assert found.failed_same == found.runs
    assert notes == []


def test_operators_that_inductor_registers_are_imported_with_it() -> None:
    said = "cannot run here: '_OpNamespace' 'prims' object has no attribute 'fma'"
    assert Run(CANNOT_RUN, said, 1.0).missing_module == PRIMS
    assert Run(CANNOT_RUN, said.replace("prims", "mine"), 1.0).missing_module is None


def test_an_import_is_missing_where_the_output_says_so_with_quotes_of_both_kinds() -> None:
    """And however long the line is: what is shown of it in the report is cut."""
    said = f"cannot run here: {'x' * 400} it's \"{{m}}\": module 'torch' has no attribute '_inductor'"
    assert Run(CANNOT_RUN, said, 1.0).missing_module == "torch._inductor"


def test_a_run_that_finds_the_gpu_full_beside_the_others_is_made_again(tmp_path: Path) -> None:
    marker = tmp_path / "was-full"
    text = (
        HEALTHY_WITHOUT_COMPILER
        + f"import os\ntry:\n    os.mkdir({str(marker)!r})\nexcept FileExistsError:\n    raise AssertionError('is off')\n"
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB.')\n"
    )
    found, notes = verified(text, tmp_path)
    assert found.holds, notes
    assert notes == []

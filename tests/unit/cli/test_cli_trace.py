"""`minimizer trace`: the files that it writes, what it prints, and how it exits."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minimizer.cli import main
from minimizer.cli.exit_status import Exit
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.traced import Distance, LeftOut, Parting, Sides
from minimizer.engine.outer.program import Event, OuterProgram
from minimizer.engine.tracing import Flat, NothingTraced, data_file

PARTING = Parting(event=1, own=True, what="output[0]: value: expected 1, got 2", value="y", rule="exact", error=1.0)
FAR = [Distance(event=0, own=0.0, carried=1e-7), Distance(event=1, own=1.0, carried=0.5)]


def event(code: str, kind: str = "call") -> Event:
    return Event(code, kind, frozenset(), (), (), (), (), "", ("train.py", 7, "y = f(x)"), draws=False)


PROGRAM = OuterProgram({}, [event("x = torch.ones(3)"), event("y = graph_0(x)", "graph")], {}, {})

Traced = Callable[..., Flat]
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls ``minimizer trace`` in this process, with a trace of the test's choice behind it."""

    def call(traced: Traced, *arguments: str | Path) -> tuple[int, str]:
        module = types.ModuleType("minimizer.engine.tracing")
        vars(module).update(trace=traced, NothingTraced=NothingTraced, data_file=data_file)
        monkeypatch.setitem(sys.modules, "minimizer.engine.tracing", module)
        monkeypatch.setattr(sys, "argv", ["minimizer", "trace", "--sandbox", "off", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        assert isinstance(end.value.code, int)
        captured = capsys.readouterr()
        return end.value.code, captured.out + captured.err

    return call


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    return path


def of(**facts: Any) -> Traced:
    return lambda *_, **__: Flat(**{"program": PROGRAM, "text": "# flat\n", "data": None, **facts})


def test_it_writes_the_program_with_its_data_and_says_where_both_sides_part(
    run: Run, script: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "flat.py"
    sides = Sides(first=PARTING, distances=FAR, ran=2)

    status, said = run(of(sides=sides, data=b"values"), script, "--out", out)

    assert status == Exit.MINIMIZED
    assert (out.read_text(), out.with_suffix(".pt").read_bytes()) == ("# flat\n", b"values")
    assert "part       at event 2 of 2, on eager's own inputs: y = graph_0(x) (train.py:7)" in said
    assert "y: output[0]: value: expected 1, got 2, relative error 1" in said
    assert f"program    {out}" in said


@pytest.mark.parametrize(
    ("facts", "status", "word"),
    [
        ({"sides": Sides(ran=2)}, Exit.HEALTHY, "agree "),
        ({"sides": Sides(ran=1, stopped="the time was over after 1 events")}, Exit.PARTIAL, "stopped "),
        ({"uncompared": "it died by signal 9"}, Exit.PARTIAL, "compared   not at all: it died by signal 9"),
    ],
)
def test_the_exit_status_says_how_the_sides_compare(
    facts: dict[str, Any], status: int, word: str, run: Run, script: Path, tmp_path: Path
) -> None:
    found, said = run(of(**facts), script, "--out", tmp_path / "flat.py")

    assert found == status
    assert word in said


def test_it_tells_what_was_left_out_and_how_the_script_ended(run: Run, script: Path, tmp_path: Path) -> None:
    left = LeftOut(what="a hook (register_hook)", file="train.py", line=3, code="y.register_hook(f)")
    program = OuterProgram({}, PROGRAM.events, {}, {}, left_out=[left], cut="20,000 events")
    raised = ExceptionInfo(type="ValueError", message="no", root_type="ValueError", root_message="no")

    _, said = run(of(program=program, raised=raised), script, "--out", tmp_path / "flat.py", "--no-compare")

    assert "not noted  a hook (register_hook) (train.py:3: y.register_hook(f))" in said
    assert "cut        after 20,000 events" in said
    assert "ended      train.py raises ValueError: no" in said


def test_a_script_that_compiles_nothing_has_no_program(run: Run, script: Path, tmp_path: Path) -> None:
    def nothing(*_: Any, **__: Any) -> Flat:
        raise NothingTraced("nothing was compiled")

    status, said = run(nothing, script, "--out", tmp_path / "flat.py")

    assert (status, said) == (Exit.FAILED, "Nothing is written: nothing was compiled\n")
    assert not (tmp_path / "flat.py").exists()


def test_it_does_not_take_the_place_of_the_script(run: Run, script: Path) -> None:
    status, said = run(of(), script, "--out", script)

    assert status == Exit.USAGE
    assert "name another file" in said
    assert script.read_text() == "import torch\n"

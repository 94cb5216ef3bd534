"""The public interface: what it is, what it hands to the pipeline, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import minimizer
from minimizer import api
from minimizer.report.model import Report
from minimizer.vocabulary import Reason, Status, Step


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What reaches the pipeline, which answers that all is healthy."""
    found: list[dict[str, Any]] = []

    def run(script: Path, **arguments: Any) -> Report:
        found.append({"script": script, **arguments})
        arguments["sink"].event("note", text="here")
        arguments["sink"].event("step", step="reduce", state="started")
        return Report(status=Status.HEALTHY)

    module = types.ModuleType("minimizer.engine.pipeline")
    module.minimize = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "minimizer.engine.pipeline", module)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    return found


def test_the_public_surface() -> None:
    assert minimizer.__all__ == ["MinimizerError", "Report", "UserError", "__version__", "minimize"]
    assert all(getattr(minimizer, name) is not None and name in dir(minimizer) for name in minimizer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'reduce_it'"):
        minimizer.reduce_it  # noqa: B018


def test_importing_it_loads_neither_torch_nor_the_engine() -> None:
    code = "import sys, minimizer; assert not {'torch', 'pydantic', 'minimizer.api'} & set(sys.modules); minimizer.minimize; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_options_and_paths_reach_the_pipeline(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    report = minimizer.minimize(
        "train.py", budget=77, args=["--fast"], out="bug", bind=["."], jobs=3, sandbox="off", on_event=events.append
    )
    (call,) = calls
    assert call["script"] == tmp_path / "train.py"
    assert (call["options"].budget, call["options"].args, call["options"].witness) == (77, ["--fast"], False)
    assert (call["settings"].trial_jobs, call["settings"].sandbox) == (3, "off")
    assert call["binds"] == [tmp_path]
    assert report.folder == Path("bug")
    assert [event["type"] for event in events] == ["note", "step"]
    assert "folder" not in report.to_json()


def test_further_graphs_of_a_function_are_told_to_the_pipeline_which_writes_the_report(
    calls: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ``report.json`` as in the report that is returned."""
    (script := tmp_path / "graph-0.py").write_text("import torch\n")
    monkeypatch.setattr(api, "_captured", lambda *_: (script, 2))
    minimizer.minimize(lambda: None, out=tmp_path / "out")
    (call,) = calls
    assert call["notes"] == [f"2 further graphs of the function failed; each has a script in {tmp_path / 'out'}."]


def test_the_default_folder_is_named_after_the_script(calls: list[dict[str, Any]]) -> None:
    folder = minimizer.minimize("train.py").folder
    assert folder is not None
    assert folder.is_dir()
    assert str(folder).startswith("minimizer-out/train-")


@pytest.mark.parametrize(
    ("subject", "arguments", "message"),
    [
        ("absent.py", {}, "absent.py cannot be read: No such file"),
        ("train.py", {"budgets": 3}, "unknown option 'budgets'"),
        ("train.py", {"toolchain": "nightly"}, "'toolchain': names an interpreter of a service"),
        ("train.py", {"compile": {"dynamic": True}}, "belong to a function"),
        (len, {"compile": {"backend": "eager"}}, "cannot name a backend"),
        (5, {}, "nothing to minimize in 5: give the path of a script, or a function"),
        ("train.py", {"sandbox": "x"}, "option 'sandbox': Input should be 'auto', 'required' or 'off'"),
        ("train.py", {"jobs": 0}, "option 'jobs': Input should be greater"),
        ("train.py", {"out": "/proc/nope"}, "option 'out': /proc/nope cannot be made"),
        ("train.py", {"out": 5}, "option 'out': 5 is no path"),
        ("train.py", {"python": 5}, "option 'python': 5 is no path"),
        ("train.py", {"python": "/bin/ls"}, "/bin/ls is not a Python interpreter"),
    ],
)
def test_what_cannot_be_used_is_explained(
    calls: list[dict[str, Any]], subject: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(minimizer.UserError, match=message):
        minimizer.minimize(subject, **arguments)
    assert calls == []


def test_a_script_is_not_overwritten_by_its_result(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text("import torch\n")
    (tmp_path / "linked.py").symlink_to("repro.py")
    for name in ("repro.py", "linked.py"):
        with pytest.raises(minimizer.UserError, match="in the place of"):
            minimizer.minimize(tmp_path / name, out=tmp_path)
    assert calls == []


def test_a_setting_of_the_environment_is_told_from_an_option(
    calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMIZER_PORT", "eighty")
    with pytest.raises(minimizer.UserError, match="MINIMIZER_PORT: Input should be a valid integer"):
        minimizer.minimize("train.py")
    assert calls == []


@pytest.mark.parametrize("watched", ["prompt", "notebook", "", "own listener"])
def test_steps_are_told_where_somebody_watches(
    calls: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    watched: str,
) -> None:
    if watched == "notebook":
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    elif watched:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    minimizer.minimize("train.py", on_event=(lambda event: None) if watched == "own listener" else None)
    said = capsys.readouterr()
    assert said.err == (f"{Step.REDUCE.what} ...\n" if watched in ("prompt", "notebook") else "")
    assert said.out == ""


def test_a_report_is_printed_as_its_verdict_and_shown_as_its_document(tmp_path: Path) -> None:
    report = Report(status=Status.PARTIAL, reason=Reason.BUDGET, summary="It fails.", notes=["a note\n"] * 100)
    assert str(report) == "partial (budget): It fails." == report._repr_markdown_()
    report.folder = tmp_path
    assert str(report) == f"partial (budget): It fails.\n{tmp_path}"
    (tmp_path / "report.md").write_text("# It fails")
    assert report._repr_markdown_() == "# It fails"

"""What CI is told: exit status of the gate, annotations, step summary, JUnit XML, SARIF."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel
from sarif_pydantic import Sarif

from minimizer.cli.gate import Gate, conclude
from minimizer.cli.verdict import verdict_lines
from minimizer.errors import InvalidOption
from minimizer.report.culprit import Culprit, Source
from minimizer.report.examined import Checked, Largest
from minimizer.report.identity import fingerprint
from minimizer.report.model import Failure, Reduction, Report, ScriptError, Verification, Workaround
from minimizer.vocabulary import Kind, Reason, Stage, Status

NO_GATE = Gate(None, None, None, None)
ANY, NEW = Gate("any", None, None, None), Gate("new", None, None, None)
LAYOUT = Gate("layout", None, None, None)


def wrong_relu(**changes: Any) -> Report:
    culprit = Culprit(ops=["aten.relu"], module="blocks.2", source=Source(file="train.py", line=25))
    report = Report(
        status=Status.MINIMIZED,
        summary="torch.compile gives wrong values: 100% of them, in aten.relu.\nSee, there: it is.",
        failure=Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, signature="wrong_output-1"),
        culprits=[culprit],
        verification=Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True),
        timings={"survey": 2.5, "reduce": 4.0, "total": 7.25},
    )
    return report.model_copy(update=changes)


COVERAGE = "No difference in the 8 of 192 calls that were compared (1 graph); --steps 200 compares all."
HEALTHY = Report(
    status=Status.HEALTHY,
    summary=COVERAGE,
    checked=Checked(
        largest=Largest(module="layers.3", op="aten.add", absolute=0.125, reason="eager is as far from float64"),
        not_compared=["184 calls: --steps"],
    ),
)
FAILS_IN_EAGER = Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER, summary="It fails in eager too.")
UNVERIFIED = wrong_relu(
    status=Status.PARTIAL, reason=Reason.NOT_VERIFIED, verification=Verification(runs=3, failed_same=1)
)
FAILS_ANYHOW = wrong_relu(
    status=Status.PARTIAL,
    reason=Reason.NOT_VERIFIED,
    verification=Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=False),
)
NOT_MINIMAL = wrong_relu(status=Status.PARTIAL, reason=Reason.BUDGET)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "train.py"
    path.write_text("import torch\n")
    return path.relative_to(tmp_path)


def tell(gate: Gate, script: Path, report: Report, **known: Any) -> int:
    return conclude(gate, script, report.to_json(), Path("out"), **known)


@pytest.mark.parametrize(
    ("report", "plain", "any_", "new", "known"),
    [
        (wrong_relu(), 0, 6, 6, 0),
        (NOT_MINIMAL, 4, 6, 6, 0),
        (UNVERIFIED, 4, 0, 0, 0),
        (FAILS_ANYHOW, 4, 0, 0, 0),
        (HEALTHY, 3, 0, 0, 0),
        (FAILS_IN_EAGER, 5, 5, 5, 5),
        (Report(status=Status.FAILED, reason=Reason.INTERNAL_ERROR), 1, 1, 1, 1),
        (Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED), 130, 130, 130, 130),
    ],
    ids=[
        "minimized",
        "not minimal",
        "not verified",
        "fails without the compiler too",
        "healthy",
        "fails in eager",
        "internal",
        "cancelled",
    ],
)
def test_exit_status(script: Path, report: Report, plain: int, any_: int, new: int, known: int) -> None:
    assert tell(NO_GATE, script, report) == plain
    assert tell(ANY, script, report) == any_
    assert tell(NEW, script, report) == new
    assert tell(NEW, script, report, on_server=True) == known
    (baseline := Path("known")).write_text(f"# ours\n\n{fingerprint(report.to_json())}  # relu, reported\n")
    assert tell(Gate("new", baseline, None, None), script, report) == known


def test_a_report_may_say_more_than_this_client_knows(script: Path) -> None:
    report = wrong_relu().to_json()
    report["verification"]["seconds"] = 12.5
    assert conclude(ANY, script, report, Path("out")) == 6


def test_a_baseline_that_cannot_be_read_is_refused(script: Path) -> None:
    with pytest.raises(InvalidOption, match="--baseline absent cannot be read"):
        Gate("new", Path("absent"), None, None).known()


def test_how_to_accept_a_new_failure_is_said(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell(NEW, script, wrong_relu())
    assert f"put this line into a --baseline file: {fingerprint(wrong_relu().to_json())}" in capsys.readouterr().err
    tell(ANY, script, wrong_relu())
    assert "(new)" in capsys.readouterr().err, "no baseline would help"
    tell(ANY, script, wrong_relu(), on_server=True)
    assert "(known)" in capsys.readouterr().err


def test_a_fingerprint_is_that_of_the_failure_not_of_the_place() -> None:
    name = fingerprint(wrong_relu().to_json())
    assert name is not None and name.startswith("wrong_output-")
    elsewhere = Culprit(ops=["aten.relu"], module="encoder.7", source=Source(file="serve.py", line=2))
    assert fingerprint(wrong_relu(culprits=[elsewhere], summary="Other words.").to_json()) == name
    assert fingerprint(wrong_relu(culprits=[Culprit(ops=["aten.gelu"])]).to_json()) != name
    other = Failure(kind=Kind.WRONG_OUTPUT, signature="wrong_output-2")
    assert fingerprint(wrong_relu(failure=other).to_json()) != name
    assert fingerprint(HEALTHY.to_json()) is None


def test_annotations_point_at_the_line_and_are_escaped(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(report: Report, gate: Gate = ANY) -> str:
        tell(gate, script, report, url="https://ci.example/jobs/1")
        return "".join(line for line in capsys.readouterr().err.splitlines() if line.startswith("::"))

    assert said(wrong_relu()) == "", "outside of GitHub nobody reads them"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert said(wrong_relu()) == (
        "::error file=models/train.py,line=25,title=torch.compile%3A wrong_output::torch.compile gives wrong values: "
        "100%25 of them, in aten.relu. See, there: it is. https://ci.example/jobs/1"
    )
    assert said(UNVERIFIED).startswith("::warning file=models/train.py,line=25,")
    assert said(FAILS_IN_EAGER).startswith("::error file=models/train.py,title=torch.compile%3A not judged::")
    assert said(HEALTHY) == ""


def test_paths_are_those_in_the_checkout(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(script.parent)  # as a step with a working-directory does
    elsewhere = tmp_path / "elsewhere"
    for checkout, said in ((tmp_path, "models/train.py"), (elsewhere, "train.py"), ("", "train.py")):
        monkeypatch.setenv("GITHUB_WORKSPACE", str(checkout))
        tell(ANY, Path("train.py"), wrong_relu())
        assert f"::error file={said},line=25," in capsys.readouterr().err, checkout
        tell(Gate("any", None, None, tmp_path / "results.sarif"), Path("train.py"), wrong_relu())
        assert f'"uri": "{said}"' in (tmp_path / "results.sarif").read_text()
        capsys.readouterr()


def test_a_workaround_of_several_lines_can_be_copied() -> None:
    code = 'import torch\nif True:\n    torch._inductor.config.disabled_passes = "a,  b"'
    workaround = Workaround(code=code, verified=True, where="before line 3 (f(x))", what="slower")
    lines = verdict_lines(wrong_relu(workaround=workaround).to_json())
    first = lines.index("workaround insert these lines before line 3 (f(x)):") + 1
    copied = lines[first : first + 3]
    assert all(line.startswith("    ") for line in copied)
    assert textwrap.dedent("\n".join(copied)) == code
    short = wrong_relu(workaround=workaround.model_copy(update={"code": "f = g"})).to_json()
    assert "workaround f = g  # before line 3 (f(x))" in verdict_lines(short)
    diff = "--- a/t.py\n+++ b/t.py\n@@ -3 +3,2 @@\n+f = g\n f(x)"
    changed = verdict_lines(wrong_relu(workaround=workaround.model_copy(update={"diff": diff})).to_json())
    first = changed.index("workaround slower:") + 1
    assert changed[first : first + 5] == [f"    {line}" for line in diff.splitlines()]
    hostile = wrong_relu(workaround=workaround.model_copy(update={"code": "a = 1\x1b[2J\nb = 2"})).to_json()
    assert "    a = 1?[2J" in verdict_lines(hostile)


def test_the_step_summary_is_appended_and_holds_the_repro(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = Path("summary.md")
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    Path("out").mkdir()
    Path("out/repro.py").write_text('print("""```""")\n')
    tell(ANY, script, wrong_relu(), url="https://ci.example/jobs/1")
    text = summary.read_text()
    assert text.startswith("before\n### torch.compile: wrong_output in `models/train.py`")
    assert '````python\nprint("""```""")\n````' in text, "no text can end its own code block"
    assert f"`{fingerprint(wrong_relu().to_json())}`, new" in text
    assert "[The job](https://ci.example/jobs/1)" in text


@pytest.mark.parametrize(
    ("report", "gate", "outcome", "counts"),
    [
        (wrong_relu(summary="a \x00 control"), ANY, "failure", ("1", "0", "0")),
        (UNVERIFIED, ANY, "skipped", ("0", "0", "1")),
        (FAILS_IN_EAGER, ANY, "error", ("0", "1", "0")),
        (HEALTHY, ANY, "system-out", ("0", "0", "0")),
    ],
)
def test_junit(
    script: Path, report: Report, gate: Gate, outcome: str, counts: tuple[str, str, str], tmp_path: Path
) -> None:
    tell(Gate(gate.fail_on, None, Path("results/junit.xml"), None), script, report)
    root = ElementTree.parse(tmp_path / "results" / "junit.xml").getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    (case,) = suite
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == counts
    assert (case.get("name"), case.get("file")) == ("models/train.py", "models/train.py")
    assert float(case.get("time", "-1")) == report.timings.get("total", 0.0)
    assert [child.tag for child in case] == ([outcome])


def test_junit_has_the_stack_of_the_failing_run(script: Path, tmp_path: Path) -> None:
    crash = wrong_relu()
    crash.failure = Failure(kind=Kind.CRASH, traceback='Fatal Python error\n  File "model.py", line 3 in f')
    eager = FAILS_IN_EAGER.model_copy(
        update={"error": ScriptError(exception_type="ValueError", traceback="ValueError: no")}
    )
    unverified = UNVERIFIED.model_copy(update={"failure": crash.failure})
    for report, words in (
        (crash, '\n  File "model.py", line 3 in f'),
        (unverified, '\n  File "model.py", line 3 in f'),
        (eager, "ValueError: no"),
    ):
        tell(Gate("any", None, tmp_path / "junit.xml", None), script, report)
        assert words in ElementTree.parse(tmp_path / "junit.xml").getroot().findtext(".//testcase/*", "")


def test_a_healthy_script_is_told_with_its_coverage_in_terminal_junit_and_step_summary(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "HEALTHY",
        COVERAGE,
        "largest    0.125 in the output of layers.3 (aten.add); eager is as far from float64",
        "left out   184 calls: --steps",
    ]
    assert verdict_lines(HEALTHY.to_json()) == lines
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    tell(Gate("any", None, Path("junit.xml"), None), script, HEALTHY)
    output = ElementTree.parse(tmp_path / "junit.xml").getroot().findtext(".//system-out")
    assert output is not None and output.splitlines() == lines
    assert "\n".join(lines) in (tmp_path / "summary.md").read_text()


def unknown_fields(model: BaseModel) -> set[str]:
    """The properties that the SARIF object model does not have, at any depth."""
    found = set(model.model_extra or ())
    for value in vars(model).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                found |= unknown_fields(item)
    return found


def sarif_run(script: Path, report: Report) -> dict[str, Any]:
    """The one run of the log that is written for this report, a log that the SARIF object model takes."""
    tell(Gate("any", None, None, Path("results.sarif")), script, report, url="https://ci.example/jobs/1")
    text = Path("results.sarif").read_text()
    log = Sarif.model_validate_json(text)
    # The schema has baselineState and columnKind; the model of this library lacks them.
    assert unknown_fields(log) <= {"$schema", "baselineState", "columnKind"}
    raw = json.loads(text)
    assert raw["version"] == "2.1.0" and raw["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = raw["runs"]
    assert run["invocations"] == [{"executionSuccessful": report.status is not Status.FAILED}]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(Kind)
    found: dict[str, Any] = run
    return found


@pytest.mark.parametrize("report", [FAILS_IN_EAGER, HEALTHY])
def test_sarif_without_a_failure_has_no_result(script: Path, report: Report) -> None:
    assert sarif_run(script, report)["results"] == []


@pytest.mark.parametrize(("report", "level"), [(wrong_relu(), "error"), (UNVERIFIED, "warning")])
def test_sarif_of_a_failure(script: Path, report: Report, level: str) -> None:
    run = sarif_run(script, report)
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "wrong_output"
    assert result["partialFingerprints"] == {"minimizerFailure/v1": fingerprint(report.to_json())}
    assert result["level"] == level
    assert result["baselineState"] == "new"
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "models/train.py"}, "region": {"startLine": 25}}


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (Source(file="parts/net.py", line=4), {"uri": "models/parts/net.py", "line": 4}),
        (Source(file="elsewhere/net.py", line=4), {"uri": "models/train.py", "line": None}),
        (Source(file="net.py", line=4), {"uri": "models/train.py", "line": None}),
        (Source(file="layers/net.py", line=4), {"uri": "layers/net.py", "line": 4}),
        (Source(file="train.py", line=4), {"uri": "models/train.py", "line": 4}),
        (Source(file="script.py", line=4), {"uri": "models/train.py", "line": 4}),
        (None, {"uri": "models/train.py", "line": None}),
    ],
    ids=[
        "in the checkout",
        "not there",
        "a module from elsewhere",
        "imported from a folder above",
        "the script",
        "as a service calls it",
        "unknown",
    ],
)
def test_a_place_is_in_the_file_that_holds_the_line_and_none_is_invented(
    script: Path, source: Source | None, place: dict[str, Any]
) -> None:
    for folder in (script.parent / "parts", Path("layers")):
        folder.mkdir()
        (folder / "net.py").write_text("")
    report = wrong_relu(culprits=[Culprit(ops=["aten.relu"], source=source)])
    (result,) = sarif_run(script, report)["results"]
    found = result["locations"][0]["physicalLocation"]
    assert found["artifactLocation"]["uri"] == place["uri"]
    assert found.get("region") == ({"startLine": place["line"]} if place["line"] else None)


def test_sarif_has_uris_whatever_a_file_is_called(script: Path) -> None:
    renamed = script.rename(script.parent / "träin me #2 100%.py")
    report = wrong_relu(culprits=[Culprit(ops=["aten.relu"], source=Source(file=renamed.name, line=4))])
    (result,) = sarif_run(renamed, report)["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "models/tr%C3%A4in%20me%20%232%20100%25.py"
    assert place["region"] == {"startLine": 4}


def other_strides() -> Report:
    failure = Failure(kind=Kind.WRONG_METADATA, stage=Stage.DECOMPOSITION, signature="s-1", layout_only=True)
    return wrong_relu(failure=failure, summary="Values equal, memory layout differs.")


@pytest.mark.parametrize(("gate", "status"), [(NO_GATE, 0), (ANY, 0), (NEW, 0), (LAYOUT, 6)])
def test_another_memory_layout_counts_where_it_is_asked_for(gate: Gate, status: int, script: Path) -> None:
    assert tell(gate, script, other_strides()) == status


def test_what_counts_with_any_counts_with_layout_too(script: Path) -> None:
    assert [tell(LAYOUT, script, report) for report in (wrong_relu(), UNVERIFIED, HEALTHY)] == [6, 0, 0]


@pytest.mark.parametrize(
    ("fail_on", "failures", "level"), [("any", "0", "note"), (None, "0", "note"), ("layout", "1", "error")]
)
def test_ci_formats_say_that_only_the_layout_differs(
    fail_on: Any, failures: str, level: str, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    tell(Gate(fail_on, None, tmp_path / "junit.xml", tmp_path / "sarif.json"), script, other_strides())
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == (failures, str(1 - int(failures)))
    skipped = suite.find(".//skipped")
    assert skipped is None or str(skipped.get("message")).startswith("values equal, memory layout differs: ")
    (result,) = json.loads((tmp_path / "sarif.json").read_text())["runs"][0]["results"]
    assert result["level"] == level
    (annotation,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("::")]
    assert annotation.startswith("::error " if level == "error" else "::notice ")
    assert "title=torch.compile%3A values equal%2C memory layout differs" in annotation


def test_the_terminal_says_that_only_the_layout_differs() -> None:
    lines = verdict_lines(other_strides().to_json())
    assert "failure    wrong_metadata in decomposition (values equal, memory layout differs)" in lines


@pytest.mark.parametrize(
    ("level", "is_done", "said"),
    [("dynamo", True, "68 nodes to 1, 1-minimal,"), ("python", True, "68 nodes to 1, no statement can be taken out,"), ("python", False, "68 nodes to 1,")],
)  # fmt: skip
def test_a_script_is_not_called_minimal(level: Literal["dynamo", "python"], is_done: bool, said: str) -> None:
    done = Reduction(level=level, nodes_before=68, nodes_after=1, trials=10, seconds=4, one_minimal=is_done)
    report = wrong_relu(reduction=done)
    (line,) = (line for line in verdict_lines(report.to_json()) if line.startswith("reduced"))
    assert line == f"reduced    {said} 10 trials of smaller programs in 4 s"

"""An issue that can be filed as it is: PyTorch's form, a title of one line, a link that GitHub takes, and no path of this machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
import sample_reports
from sample_reports import REPRO

from minimizer.report.as_markdown import render
from minimizer.report.culprit import Culprit
from minimizer.report.examined import Health, Version
from minimizer.report.issue import MAX_URL, Issue, issue_of
from minimizer.report.model import Failure, Report, Rung, Verification, Workaround
from minimizer.vocabulary import Kind, Reason, Stage

TITLES = {
    "value": "[inductor] torch.relu returns wrong values on CPU",
    "gradient": "[inductor] torch.relu has a wrong gradient on CPU",
    "compile_error": "[inductor] torch.relu fails to compile: KeyError: 'buf1'",
    "crash": "[inductor] torch.relu crashes (SIGSEGV)",
    "hang": "[inductor] torch.relu never returns",
    "between": "[dynamo] torch.compile loses a change of cache.order",
}


def check_form(issue: Issue) -> None:
    """What PyTorch's form and GitHub ask of an issue."""
    assert 0 < len(issue.title) < 100 and issue.title.isascii() and "\n" not in issue.title
    assert re.match(r"\[(dynamo|aot_autograd|decomp|inductor|cudagraphs|torch\.compile)\] \S", issue.title)
    outside = re.sub(r"(?ms)^(```+)\w*\n.*?^\1$", "", issue.body)
    assert re.findall(r"^### (.+)$", outside, re.MULTILINE) == ["🐛 Describe the bug", "Error logs", "Versions"]
    describe, logs, versions = re.split(r"^### .+\n", issue.body, flags=re.MULTILINE)[1:]
    assert all(part.strip() for part in (describe, logs, versions))
    (code,) = re.findall(r"(?ms)^```python\n(# torch\.compile.*?)^```$", describe)
    ast.parse(code)
    assert "PyTorch version: 2.13.0+cpu" in versions
    assert not re.search(r"(?<![\w.:/])/(?:[\w.+-]+/)+[\w.+-]+", issue.body.replace(code, ""))
    assert len(issue.url) <= MAX_URL
    asked = parse_qs(urlsplit(issue.url).query)
    assert asked == {"title": [issue.title], "body": [issue.body]}
    assert issue.labels[0] == "oncall: pt2"


def issue(report: Report, repro: str = REPRO) -> Issue:
    found = issue_of(report, repro)
    assert found is not None
    return found


@pytest.mark.parametrize("name", sample_reports.ALL)
def test_an_issue_of_every_kind_fits_the_form(name: str) -> None:
    found = issue(sample_reports.ALL[name]())
    check_form(found)
    assert found.title == TITLES[name]


@pytest.mark.parametrize("make", sample_reports.ALL.values())
def test_nothing_of_the_users_program_or_environment_is_in_it(make: Callable[[], Report]) -> None:
    found = issue(make())
    for private in ("/home/ada", "hunter2", "self.act(secret)", "move_to_end", "seconds"):
        assert private not in found.text


def test_what_is_too_long_for_a_link_loses_idle_settings_and_outer_frames_and_says_where_they_are() -> None:
    report = sample_reports.compile_error()
    assert report.failure is not None
    longer = sample_reports.STACK.replace("_the_whole_graph_", "_the_whole_graph_that_dynamo_has_traced_")
    report.failure = report.failure.model_copy(update={"traceback": longer})
    found = issue(report)
    assert "`simdlen = 1`" not in found.body and "`fallback_by_default`" in found.body
    assert "lines before" in found.body and "KeyError: 'buf1'\n```" in found.body
    assert "Attached: `report.md`" in found.body
    assert "Attached" not in issue(sample_reports.value()).body


def test_a_long_repro_is_attached() -> None:
    found = issue(sample_reports.value(), REPRO + "".join(f"assert f(x) is not {n}\n" for n in range(900)))
    assert len(found.url) <= MAX_URL and "`repro.py`, attached" in found.body
    assert "Attached: `repro.py`" in found.body


def test_a_link_is_short_whatever_a_report_holds() -> None:
    report = sample_reports.value()
    report.environment = dict.fromkeys(("torch", "os", "cpu", "gpu", "driver", "device"), "💩" * 500)
    report.workaround = report.workaround.model_copy(update={"code": "é" * 9000}) if report.workaround else None
    found = issue(report)
    assert len(found.url) <= MAX_URL
    assert parse_qs(urlsplit(found.url).query)["body"] == ["The text is in issue.md."]


def test_data_beside_the_repro_is_attached() -> None:
    found = issue(sample_reports.value(), f'{REPRO}data = torch.load("data.pt")\n')
    assert "Attached: `repro.zip` (the reproducer with its `data.pt`)." in found.body


def test_the_file_can_be_pasted_as_it_is() -> None:
    """Title and labels stand in comments, which GitHub does not show, and which no title can end."""
    report = sample_reports.compile_error()
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"message": "KeyError: --> <script> `x` /home/ada/x.py\nmore"})
    found = issue(report)
    first, second, *_ = found.text.splitlines()
    assert first == "<!-- Title: [inductor] torch.relu fails to compile: KeyError: script `x` x.py -->"
    assert second == "<!-- Labels: oncall: pt2, module: inductor, oncall: cpu inductor -->"
    assert found.text.endswith(found.body)


def test_a_further_fault_is_none_of_its_issue() -> None:
    """It has a repro, and an issue, of its own."""
    report = sample_reports.value()
    said = "fails by itself too: repro-2.py"
    other = Culprit(
        module="head",
        nodes=["tanh"],
        ops=["aten.tanh"],
        what=said,
        further=True,
        repro="repro-2.py",
        generated_code=sample_reports.kernel().model_copy(update={"kernel": "cpp_fused_tanh_0"}),
    )
    alone, report.culprits = issue(report), [*report.culprits, other]
    assert issue(report) == alone
    text = render(report, script_name="model.py", repro=REPRO)
    assert "The culprit is `aten.relu` in" in text and said in text
    assert "Of `repro-2.py`: `cpp_fused_tanh_0`, C++ kernel." in text


def test_a_long_title_is_cut() -> None:
    report = sample_reports.compile_error()
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"message": f"KeyError: {'many words ' * 50}"})
    assert len(issue(report).title) < 100 and issue(report).title.endswith(" words...")


def test_a_crash_has_its_label() -> None:
    assert issue(sample_reports.crash()).labels == [
        "oncall: pt2", "module: inductor", "oncall: cpu inductor", "module: crash",
    ]  # fmt: skip


def test_operators_have_the_names_that_the_repro_calls_them_by() -> None:
    report = sample_reports.value()
    report.culprits = [Culprit(nodes=["a"], ops=["aten.relu", "aten.floor_divide", "aten.silu", "aten.add"])]
    found = issue(report, f"{REPRO}torch.nn.functional.silu(x)\n")
    assert "`torch.relu`, `aten.floor_divide`, `torch.nn.functional.silu` and 1 more" in found.body
    assert (
        found.title == "[inductor] a graph of torch.relu, aten.floor_divide and 2 more returns wrong values on CPU"
    ), "as many as there is room for"


def test_nobody_is_offered_what_nobody_should_file() -> None:
    assert issue_of(Report(), REPRO) is None
    assert issue_of(sample_reports.value(), None) is None
    for changes in (
        {"verification": None},
        {"verification": Verification(runs=3, failed_same=2, clean_process=True, passes_with_compiler_off=True)},
        {"reason": Reason.DISPUTED},
        {"failure": Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.CUSTOM_OP)},
        {"failure": Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.CUSTOM_BACKEND)},
    ):
        assert issue_of(sample_reports.value().model_copy(update=changes), REPRO) is None


def test_the_tracker_is_searched_by_operator_kind_and_message() -> None:
    def query(report: Report) -> str:
        return parse_qs(urlsplit(issue(report).search_url).query)["q"][0]

    assert query(sample_reports.value()) == "is:issue torch.compile relu wrong"
    assert query(sample_reports.crash()) == "is:issue torch.compile relu segfault"
    assert query(sample_reports.compile_error()) == "is:issue torch.compile relu KeyError buf"
    assert query(sample_reports.between()) == "is:issue torch.compile dynamo mutation"


def test_no_time_of_this_machine_goes_upstream() -> None:
    report = sample_reports.value()
    report.health = Health(compile_seconds=121.9, eager_seconds=0.5, compiled_seconds=0.25)
    found = issue(report)
    for time in ("121.9", "0.5", "9.0", "3.2"):
        assert time not in found.body


def test_a_compile_error_is_shown_once() -> None:
    text = render(sample_reports.compile_error(), script_name="model.py", repro=REPRO)
    assert text.count("KeyError: 'buf1'") == 1 and "What the reproducer printed" not in text
    assert "expected 1\nactual   2" in render(sample_reports.value(), script_name="model.py", repro=REPRO)


def test_generated_code_is_folded_and_the_first_to_be_left_out() -> None:
    report = sample_reports.value()
    report.generated_code = sample_reports.kernel()
    found = issue(report)
    check_form(found)
    folded = found.body.split("<details><summary>Generated code</summary>")[1].split("</details>")[0]
    assert "cpp_fused_relu_0" in folded and "clamp_min(tmp0, decltype(tmp0)(0));  // <-- the culprit" in folded
    assert "torch.ops.aten.relu.default" in folded and "Attached" not in found.body
    assert "/home/ada" not in found.body

    code = report.generated_code
    code = report.generated_code = code.model_copy(update={"aten": code.aten + "\n# and so on" * 600})
    graphless = issue(report)
    assert "cpp_fused_relu_0" in graphless.body and "torch.ops.aten.relu" not in graphless.body
    assert "Attached: `report.md`" in graphless.body

    code = report.generated_code = code.model_copy(update={"code": code.code + "\n// and so on" * 600})
    excerpt = issue(report)
    check_form(excerpt)
    (kernel,) = re.findall(r"(?s)```cpp\n(.*?)```", excerpt.body)
    assert kernel.count("\n") == 7 and "// <-- the culprit" in kernel and "void" not in kernel

    report.generated_code = code.model_copy(update={"marked": list(range(1, 600))})
    long = issue(report)
    check_form(long)
    assert "Generated code" not in long.body and "Attached: `report.md`" in long.body
    assert "`simdlen = 1`" in long.body, "nothing else is left out for it"


def test_what_is_not_known_is_said() -> None:
    """Whoever triages it looks for a first bad version and for a workaround, and silence answers neither."""
    report = sample_reports.compile_error()
    report.workaround = None
    body = issue(report).body
    assert "Since which version it fails is not known: only 2.13.0+cpu was tried." in body
    assert "#### Workaround\n\nNone was looked for." in body
    assert "Of the script that the reproducer was reduced from:" in body
    report.workaround = Workaround(code="", verified=False, what="None but switching the compiler off.")
    assert "#### Workaround\n\nNone but switching the compiler off." in issue(report).body
    report.versions = [Version(name="nightly", torch="2.14.0", outcome="cannot_run")]
    assert "Since which version it fails is not known: only 2.13.0+cpu could be tried." in issue(report).body


def test_a_script_that_fails_by_several_things_at_once_is_called_a_script() -> None:
    report = sample_reports.crash()
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"message": "the process died by SIGSEGV"})
    report.culprits = [Culprit(what="torch.sgn and ZeroTensor input")]
    found = issue(report)
    assert found.title == "[inductor] a script with torch.sgn and ZeroTensor input crashes (SIGSEGV)"
    assert "A script with torch.sgn and ZeroTensor input crashes the process under" in found.body


def test_what_a_backend_raises_instead_of_the_failure_is_said() -> None:
    report = sample_reports.crash()
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"stage": Stage.AOT_AUTOGRAD})
    error = "RuntimeError: Unable to cast 1 to Tensor"
    report.ladder = [
        Rung(backend="eager", outcome="passes", seconds=1),
        Rung(backend="aot_eager", outcome="runtime_error", seconds=1, raised=error),
    ]
    body = issue(report).body
    assert (
        f'AOTAutograd is the first to fail: with `backend="aot_eager"` the reproducer raises `{error}` instead.' in body
    )
    assert f"| `aot_eager` | raises an error: `{error}` |" in body


def test_a_fault_that_is_injected_is_said_to_be() -> None:
    switch = "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY"
    found = issue(sample_reports.value(), f'{switch} = "accuracy"\n{REPRO}').body
    assert f"The fault is injected: `{switch}` is a switch of PyTorch's own tests" in found
    assert "injected" not in issue(sample_reports.value()).body

"""The Markdown report: complete, honest about what is unknown, and safe whatever a script or a compiler says."""

from __future__ import annotations

import json
import math
import re
from typing import Literal

import pytest
import sample_reports
from hypothesis import given
from hypothesis import strategies as st

from minimizer.report.as_markdown import render
from minimizer.report.culprit import Culprit, Error, Layer, Source, SourceLine
from minimizer.report.examined import Attempt, Checked, Largest
from minimizer.report.instances import Instances
from minimizer.report.model import (
    AlsoSeen,
    Blame,
    Failure,
    Flag,
    HistoryStep,
    Reduction,
    Report,
    Reproducibility,
    Rung,
    ScriptError,
    Verification,
    Witness,
    Workaround,
)
from minimizer.report.safe_markdown import block, code, escape
from minimizer.vocabulary import Kind, Reason, Stage, Status

REPRO = "import torch\n"


def full() -> Report:
    return Report(
        status=Status.MINIMIZED,
        failure=Failure(
            kind=Kind.WRONG_OUTPUT,
            stage=Stage.INDUCTOR,
            message="Tensor-likes are not close!",
            exception_type="AssertionError",
            reproducibility=Reproducibility(failed=3, runs=3),
        ),
        culprits=[
            Culprit(
                module="blocks.7.activation",
                ops=["aten.relu"],
                source=Source(file="/home/me/model.py", line=29, code="self.activation(x)"),
                local_error=Error(max_abs=1.0, mismatched=3, elements=8),
            )
        ],
        layers=[
            Layer(path="blocks.7", **{"class": "Block"}, order=8, local_error=1.0, verdict="bad"),
            Layer(path="blocks.1", order=2, verdict="good"),
        ],
        ladder=[Rung(backend="aot_eager", outcome="passes", seconds=3.2), Rung(backend="inductor", outcome="wrong_output", seconds=9)],
        flags=[Flag(name="fallback_by_default", value="True", outcome="passes")],
        workaround=Workaround(code="torch._dynamo.disable(f)", verified=True),
        reduction=Reduction(
            nodes_before=750, nodes_after=1, lines_before=60, lines_after=14, trials=31, cache_hits=5, seconds=41.4,
            one_minimal=True, history=[HistoryStep(trial=1, seconds=1, nodes=20, by="window")],
        ),
        verification=Verification(runs=3, failed_same=3, clean_process=True, public_api=True, passes_with_compiler_off=True),
        witnesses=[Witness(after="aot", level=4, outcome="no repro", agrees=None)],
        also_seen=[AlsoSeen(kind=Kind.COMPILE_ERROR, signature="compile_error-1", times=2)],
        checked=Checked(frames=1, graphs=1, calls=2, calls_made=16),
        environment={"torch": "2.13.0", "device": "cpu", "HF_TOKEN": "hunter2"},
        notes=["The kernel cache was cold."],
    )  # fmt: skip


def test_the_report_begins_with_two_sentences() -> None:
    first = render(full(), script_name="train.py", repro=REPRO).splitlines()[0]
    assert first == (
        "**The compiled code returns wrong values under `torch.compile` on cpu, in 3 of 3 runs of the script.** "
        "The culprit is `aten.relu` in `blocks.7.activation`, and Inductor is the first part of the compiler to go wrong."
    )


def test_several_operators_are_said_to_fail_together_only_where_that_was_shown() -> None:
    report = full()
    names = {"nodes": ["full", "softmax"], "ops": ["aten.full", "aten._softmax"]}
    report.culprits[0] = report.culprits[0].model_copy(update=names)
    together = (
        "These operations fail only together: `aten.full`, `aten._softmax` in `blocks.7.activation`, and Inductor"
    )
    assert together in render(report, script_name="a.py", repro=REPRO)
    report.reduction = Reduction(nodes_before=750, nodes_after=9)
    assert "The culprits are `aten.full`, `aten._softmax` in" in render(report, script_name="a.py", repro=REPRO)


def test_another_memory_layout_is_the_headline() -> None:
    failure = Failure(kind=Kind.WRONG_METADATA, layout_only=True)
    text = render(full().model_copy(update={"failure": failure}), script_name="train.py", repro=None)
    assert text.startswith("**Values equal, memory layout differs under `torch.compile`")


def test_an_operator_of_the_scripts_own_is_at_fault_and_not_the_compiler() -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.CUSTOM_OP)
    culprit = Culprit(
        ops=["lib.scale"], nodes=["v1"], what="lib::scale, which fails torch.library.opcheck (it was mutated)"
    )
    text = render(full().model_copy(update={"failure": failure, "culprits": [culprit]}), script_name="a.py", repro=None)
    assert "The culprit is `lib.scale`, an operator of the script's own: it is at fault, and not the compiler." in text
    assert "## Labels" not in text


def test_all_that_maintainers_ask_for_is_there() -> None:
    text = render(full(), script_name="train.py", repro=REPRO)
    for expected in (
        "```python\nimport torch\n```",
        "`repro.py` failed in the same way in 3 of 3 runs, and it passes with `TORCHDYNAMO_DISABLE=1`",
        "- `aten.relu`, module `blocks.7.activation`, `model.py` line 29: `self.activation(x)`",
        "error in the repro: max. absolute 1, 3 of 8 elements",
        "| `inductor` | wrong output | 9.0 |",
        "| `fallback_by_default` | `True` | passes |",
        "| call nodes (dynamo graph) | 750 | 1 |",
        "31 trials of smaller programs in 41 s",
        "torch._dynamo.disable(f)",
        "| `aot`, level 4 | no repro | says nothing |",
        "`train.py`: 1 compiled graph, 2 calls compared with eager of 16 that were counted",
        "- torch: `2.13.0`",
    ):
        assert expected in text


def test_only_known_names_of_the_environment_are_shown() -> None:
    text = render(full(), script_name="train.py", repro=REPRO)
    assert "hunter2" not in text and "HF_TOKEN" not in text
    assert "/home/me" not in text


def test_what_only_the_scripts_own_check_says_is_no_wrong_value() -> None:
    report = Report(
        status=Status.PARTIAL,
        reason=Reason.DISPUTED,
        failure=Failure(kind=Kind.WRONG_OUTPUT),
        summary="Within rounding.",
    )
    text = render(report, script_name="a.py", repro=None)
    assert text.startswith(
        "**The script's own check fails, but only by tolerance, timing or the random stream.** Within rounding."
    )
    assert "correctness" not in text


def test_a_failure_that_nothing_explains_is_shown_as_the_script_shows_it() -> None:
    report = Report(
        status=Status.PARTIAL,
        reason=Reason.UNEXPLAINED,
        failure=Failure(
            kind=Kind.WRONG_OUTPUT, message="another dtype", traceback="Traceback\n  assert x\nAssertionError"
        ),
        summary="What takes it away: fallback_random.",
        attempts=[Attempt(what="plain run, compiled", outcome="AssertionError: another dtype", seconds=7.4)],
    )
    text = render(report, script_name="a.py", repro=None)
    assert text.startswith(
        "**Run by itself, the script fails only with the compiler, and nothing shows why.** What takes"
    )
    assert "Traceback\n  assert x\nAssertionError" in text
    assert "plain run, compiled | AssertionError: another dtype | 7" in text


def test_a_script_that_fails_in_eager_is_shown_with_its_stack_and_line() -> None:
    error = ScriptError(
        exception_type="RuntimeError",
        message="shapes",
        traceback='Traceback (most recent call last):\n  File "pkg/net.py", line 4, in forward\nRuntimeError: shapes',
        source=Source(file="pkg/net.py", line=4, code="x @ y", library=SourceLine(file="lib/nn.py", line=9)),
    )
    report = Report(status=Status.FAILED, reason=Reason.FAILS_IN_EAGER, summary="It fails in eager too.", error=error)
    text = render(report, script_name="a.py", repro=None)
    assert "`RuntimeError` at `pkg/net.py` line 4: `x @ y`, which calls `lib/nn.py` line 9" in text
    assert '  File "pkg/net.py", line 4, in forward\nRuntimeError: shapes\n```' in text


def test_why_there_is_no_more_is_said_beside_the_failure() -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, reproducibility=Reproducibility(failed=1, runs=5))
    report = Report(status=Status.PARTIAL, reason=Reason.BUDGET, failure=failure, summary="Stopped: 9 s are over.")
    first = render(report, script_name="a.py", repro=None).splitlines()[0]
    assert "in 1 of 5 runs" in first
    assert first.endswith("Stopped: 9 s are over.")


def test_the_contract_form_is_strict_json() -> None:
    report = full().model_copy(update={"culprits": [Culprit(local_error=Error(max_abs=math.inf, max_rel=math.nan))]})
    assert report.to_json()["culprits"][0]["local_error"]["max_abs"] is None
    json.dumps(report.to_json(), allow_nan=False)


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    text = render(Report(status=Status.PARTIAL, failure=Failure(kind=Kind.CRASH)), script_name="a.py", repro=None)
    assert text.startswith(
        "**The process dies under `torch.compile`, in 1 of 1 run of the script.** The culprit is unknown; the stage to blame is unknown."
    )
    for title in ("Where", "Ablation", "Workaround", "Versions"):
        assert f"## {title}\n\nunknown" in text
    assert "no standalone script" in text


def test_the_part_to_blame_is_named_with_how_it_was_confirmed() -> None:
    report = full()
    report.blame = Blame(
        subsystem="lowerings", items=["lowerings/aten.relu.default"], confirmed=True, confirmed_on_script=True, runs=3,
        what="the lowering of aten.relu.default",
    )  # fmt: skip
    text = render(report, script_name="a.py", repro=REPRO)
    assert "the lowering of aten.relu.default (`lowerings/aten.relu.default`), found in 3 runs." in text
    assert (
        "Turning it off fixes the failure; turning on only this one brings it back. Without it the whole script passes."
        in text
    )


def test_settings_that_change_nothing_are_folded_away() -> None:
    report = full()
    report.flags.append(Flag(name="simdlen", value="1", outcome="fails"))
    text = render(report, script_name="a.py", repro=REPRO)
    assert "| `fallback_by_default` | `True` | passes |" in text
    assert "<summary>The failure stays with each of 1 setting</summary>\n\n`simdlen = 1`\n\n</details>" in text


def test_a_workaround_says_where_it_goes_and_what_it_costs() -> None:
    report = full()
    report.workaround = Workaround(
        code="a = 1", verified=True, where="before line 3 (x = 2)", what="one module runs in eager"
    )
    text = render(report, script_name="a.py", repro=REPRO)
    assert "With this the script passes, before line 3 (`x = 2`):\n\n```python\na = 1\n```" in text
    assert "What it does: one module runs in eager." in text


def test_no_workaround_is_said_plainly() -> None:
    report = full()
    report.workaround = Workaround(code="", verified=False, what="None was found.")
    assert "## Workaround\n\nNone was found.\n" in render(report, script_name="a.py", repro=REPRO)


@pytest.mark.parametrize("reason", [None, *Reason])
def test_every_ending_without_a_failure_has_a_verdict(reason: Reason | None) -> None:
    status = Status.HEALTHY if reason is None else Status.FAILED
    text = render(Report(status=status, reason=reason, summary="Two frames."), script_name="a.py", repro=None)
    assert re.match(r"\*\*[A-Z][^*]+\.\*\* Two frames\\?\.", text)
    assert "eproducer" not in text and "Ablation" not in text


def test_a_healthy_report_begins_with_its_coverage_and_lists_what_was_left_out() -> None:
    sentence = "No difference in the 8 of 192 calls that were compared (1 graph); --steps 200 compares all."
    largest = Largest(module="layers.3", op="aten.add", absolute=0.125, reason="eager is as far from float64")
    checked = Checked(frames=1, graphs=1, calls=8, calls_made=192, largest=largest, not_compared=["184 calls: *why*"])
    report = Report(status=Status.HEALTHY, summary=sentence, checked=checked)
    plain = render(report, script_name="a.py", repro=None).replace("\\", "")
    assert plain.startswith(f"**No failure was found.** {sentence}\n")
    assert "Largest difference: 0.125 in the output of layers.3 (aten.add); eager is as far from float64." in plain
    assert "- not compared: 184 calls: *why*\n" in plain
    assert "*why*" not in render(report, script_name="a.py", repro=None)


def test_a_repro_that_did_not_hold_is_not_called_verified() -> None:
    report = full()
    report.verification = Verification(runs=3, failed_same=1, clean_process=True, passes_with_compiler_off=False)
    text = render(report, script_name="a.py", repro=REPRO)
    assert "**Not verified.**" in text and "1 of 3 runs" in text and "**does not pass**" in text


def test_a_run_that_had_to_be_stopped_is_not_said_to_fail() -> None:
    report = full()
    report.verification = Verification(runs=3, failed_same=1, clean_process=True, stopped=3)
    text = render(report, script_name="a.py", repro=REPRO)
    assert "**Not verified.**" in text and "was not seen to pass" in text and "does not pass" not in text
    assert "3 runs of these 4 had to be stopped: a larger `--budget`" in text


def test_what_only_ran_beside_the_culprit_is_not_named() -> None:
    """Where the script itself was reduced, a hook is at fault, and not the multiplication under it."""
    report = full()
    report.culprits = [Culprit(ops=["aten.mul"], what="register_hook and a graph break")]
    text = render(report, script_name="a.py", repro=REPRO)
    assert "The culprit is register_hook and a graph break" in text.splitlines()[0]
    assert "aten.mul" not in text
    report.culprits[0] = report.culprits[0].model_copy(update={"nodes": ["mul"]})
    assert "The culprit is `aten.mul`" in render(report, script_name="a.py", repro=REPRO).splitlines()[0]


def test_warnings_of_the_machine_are_no_part_of_what_the_repro_says() -> None:
    warning = "/lib/torch/x.py:368: UserWarning: no module named 'numpy' (at a.cpp:84.)\n  cpu = device()\n"
    report = full()
    cuda = (
        "W1126 20:01:02.0 7 torch/utils/cpp_extension.py:178] No CUDA runtime is found, using CUDA_HOME='/usr/local'\n"
    )
    report.verification = Verification(runs=1, failed_same=1, output=f"{warning}{cuda}expected 1\nactual   2\n")
    text = render(report, script_name="a.py", repro=REPRO)
    assert "printed:\n\n```text\nexpected 1\nactual   2\n```" in text
    assert report.failure is not None
    report.failure = report.failure.model_copy(update={"traceback": f"{cuda}Fatal Python error: Segmentation fault"})
    text = render(report, script_name="a.py", repro=REPRO)
    assert "Fatal Python error" in text and "CUDA_HOME" not in text


@given(st.text())
def test_text_never_becomes_markup(text: str) -> None:
    escaped = escape(text)
    assert "<" not in escaped and ">" not in escaped and "\n" not in escaped
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*\[\]|~!]", escaped)
    assert not re.search(r"(?<!\\)(?:\\\\)*(?:(?<![^\W_])_|_(?![^\W_]))", escaped)
    assert not re.search(r"@\w|://", escaped)


def test_text_is_not_escaped_where_it_means_nothing() -> None:
    plain = "compile_error in Decoder() - 1 of 1 + 2 (a_b_c)"
    assert escape(plain) == plain
    assert escape("- __init__ [x](y) #7") == r"\- \_\_init\_\_ \[x\]\(y) \#7"


@given(st.text(alphabet="a`|\n ~", max_size=30))
def test_a_code_span_cannot_be_left(text: str) -> None:
    span = code(text)
    assert "\n" not in span and "|" not in span
    assert bool(span) == bool(text.strip())
    if span:
        fence = re.match("`+", span)
        assert fence and span.endswith(fence[0])
        inner = span[len(fence[0]) : -len(fence[0])]
        assert len(fence[0]) not in map(len, re.findall("`+", inner))


@given(st.text(alphabet="a`\n\r\x00", max_size=40))
def test_a_block_cannot_be_left(text: str) -> None:
    first, *inside, last = block(text, "python").split("\n")
    assert first == f"{last}python" and set(last) == {"`"}
    assert not any(line.strip().startswith(last) for line in inside)


def test_hostile_words_stay_in_their_place_everywhere() -> None:
    evil = "</code><script>alert(1)</script> ``` | @everyone ![](http://x.example/y.png)\n## Fake\n"
    report = full()
    failure = Failure(kind=Kind.COMPILE_ERROR, message=evil, exception_type=evil)
    report = report.model_copy(update={
        "failure": failure,
        "culprits": [Culprit(module=evil, what=evil, source=Source(file=evil, line=1, code=evil))],
        "notes": [evil], "ladder": [Rung(backend=evil, outcome=evil, seconds=1, raised=evil)], "environment": {"device": evil},
        "workaround": Workaround(code=evil, verified=False), "witnesses": [Witness(after="dynamo", level=4, outcome=evil)],
    })  # fmt: skip
    text = render(report, script_name=evil, repro=evil)
    outside = re.sub(r"(?ms)^(````+)\w+\n.*?^\1$", "", text)
    assert "## Fake" in text and "\n## Fake" not in outside
    spans = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert "<script" not in spans and "@everyone" not in spans and "](http" not in spans


def test_what_a_repro_does_is_promised_only_where_it_was_seen() -> None:
    promise = "It exits with 1 while the bug is there"
    report = full()
    assert promise in render(report, script_name="a.py", repro=REPRO)
    assert report.verification is not None
    report.verification = report.verification.model_copy(update={"failed_same": 0})
    assert promise not in render(report, script_name="a.py", repro=REPRO)
    report.verification = None
    assert promise not in render(report, script_name="a.py", repro=REPRO)


def test_one_of_a_kind_is_no_plural() -> None:
    report = full()
    assert report.reduction is not None and report.verification is not None
    report.reduction = report.reduction.model_copy(update={"trials": 1, "cache_hits": 1})
    report.checked = Checked(frames=1, graphs=1, calls=1, calls_made=1, backward=1)
    report.verification = report.verification.model_copy(update={"runs": 1, "failed_same": 1})
    report.culprits[0] = report.culprits[0].model_copy(
        update={"local_error": Error(max_abs=1.0, mismatched=1, elements=1)}
    )
    text = render(report, script_name="a.py", repro=REPRO)
    for said in (
        "1 trial of smaller programs in 41 s, 1 answer from",
        "1 compiled graph, 1 call compared",
        "in 1 of 1 run,",
        "1 of 1 element",
    ):
        assert said in text
    assert "1 more layer is good." in text


def test_equal_modules_are_said_as_a_set_with_what_was_compared() -> None:
    instances = Instances(wrong=["layers.0", "layers.1", "layers.2"], right=["layers.3", "layers.4", "layers.5"])
    culprit = Culprit(module="layers.0.act", nodes=["relu"], ops=["aten.relu"], instances=instances)
    text = render(full().model_copy(update={"culprits": [culprit]}), script_name="a.py", repro=REPRO)
    how = "each in its own calls of the script, compared with eager"
    assert f"  - equal modules: the same in layers 1 and 2, and not in layers 3 to 5 ({how})" in text


def test_the_row_of_the_culprits_layer_is_marked_and_a_number_has_its_class() -> None:
    layers = [
        Layer.model_validate({"path": path, "class": "ReLU", "order": order, "verdict": verdict})
        for order, (path, verdict) in enumerate(
            [("net.0", "good"), ("net.1", "bad"), ("net.2", "propagated"), ("net.1", "bad")]
        )
    ]
    culprit = Culprit(module="net.1", module_class="ReLU", nodes=["relu"], ops=["aten.relu"])
    text = render(full().model_copy(update={"layers": layers, "culprits": [culprit]}), script_name="a.py", repro=None)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "net." in line]
    assert ["`net.1 (ReLU)`, call 1 of 2" in row and "**bad (root), the culprit**" in row for row in rows] == [
        True,
        False,
        False,
    ]
    assert "`net.1 (ReLU)`, call 2 of 2" in rows[1] and "`net.2 (ReLU)`" in rows[2] and "culprit" not in rows[2]


def test_the_generated_code_stands_with_its_marks_beside_the_graph_it_is_made_from() -> None:
    report = full().model_copy(update={"generated_code": sample_reports.kernel()})
    text = render(report, script_name="a.py", repro=None)
    section = text.split("## Generated code\n")[1].split("\n## ")[0]
    assert "`cpp_fused_relu_0`, C++ kernel. 1 line marked: the kernel computes nothing but the culprit." in section
    (kernel,) = re.findall(r"(?s)```cpp\n(.*?)```", section)
    assert [line.strip() for line in kernel.splitlines() if "<-- the culprit" in line] == [
        "auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));  // <-- the culprit"
    ]
    (aten,) = re.findall(r"(?s)```python\n(.*?)```", section)
    assert "torch.ops.aten.relu.default" in aten
    assert "## Generated code" not in render(full(), script_name="a.py", repro=None)


def test_a_kernel_cannot_end_its_block() -> None:
    hostile = sample_reports.kernel().model_copy(update={"code": "```\n</details><script>x</script>", "marked": [1]})
    text = render(full().model_copy(update={"generated_code": hostile}), script_name="a.py", repro=None)
    assert "````cpp\n```  // <-- the culprit\n</details><script>x</script>\n````" in text


@pytest.mark.parametrize(
    ("level", "is_done", "heading", "shown"),
    [
        ("dynamo", True, "Minimal reproducer", "Minimal: removing any one part makes the failure disappear."),
        ("python", True, "Reproducer", "No statement can be taken out: without any one of them, or an argument,"),
        ("dynamo", False, "Reproducer", "It was not shown that nothing more can be taken away."),
        ("python", False, "Reproducer", "It was not shown that nothing more can be taken away."),
    ],
)
def test_minimal_is_said_of_what_was_shown_to_be(
    level: Literal["dynamo", "python"], is_done: bool, heading: str, shown: str
) -> None:
    report = full()
    report.culprits[0] = report.culprits[0].model_copy(update={"ops": ["aten.relu", "aten.sum"]})
    report.reduction = Reduction(level=level, nodes_before=9, nodes_after=2, lines_after=14, one_minimal=is_done)
    text = render(report, script_name="a.py", repro=REPRO)
    assert f"## {heading}\n" in text and shown in text
    assert ("fail only together" in text) == (heading == "Minimal reproducer")

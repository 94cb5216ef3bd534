"""The culprit's kernel and its lines, from traces that torch 2.13 has written (of Triton with a driver that compiles nothing)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from minimizer.engine.output_code.choose import choose
from minimizer.engine.output_code.trace import Graph, graphs_in
from minimizer.report.generated_code import GeneratedCode

TRACES = Path(__file__).parent / "traces"
SAID = """\
CppCompileError: C++ compile error
/tmp/c/i2/ci2amr.main.cpp:15:33: error: 'compile' was not declared in this scope
   15 |                     auto tmp1 = compile error!;
      |                                 ^~~~~~~
/tmp/c/i2/other.cpp:13:1: error: of another file
   13 |     int other = 1;
"""


def graphs(name: str) -> list[Graph]:
    return graphs_in((TRACES / f"{name}.log").read_text())


def found(name: str, *operators: str, **more: Any) -> GeneratedCode:
    chosen = choose(graphs(name), operators, **{"is_backward": False, **more})
    assert chosen is not None
    return chosen


def marked(chosen: GeneratedCode) -> list[str]:
    lines = chosen.code.split("\n")
    return [lines[number - 1].strip() for number in chosen.marked]


def test_graphs_of_a_trace_have_their_code_their_aten_graph_and_what_their_kernels_compute() -> None:
    first, forward, backward = graphs("softmax_and_relu")
    assert [graph.phase for graph in (first, forward, backward)] == ["inference", "forward", "backward"]
    assert first.calls["mm"] == "torch.ops.aten.mm.default" and first.traced["a"] == "torch.mm"
    assert first.computed["extern_kernels.mm"] == {"mm"} and first.became["softmax"] >= {"amax", "exp"}
    assert "threshold_backward" in backward.code and "aten.where" in backward.aten


def test_all_arithmetic_of_a_kernel_of_its_own_is_the_culprits() -> None:
    chosen = found("triton", "aten.gelu")
    assert (chosen.language, chosen.kernel, chosen.phase) == ("triton", "triton_poi_fused_gelu_0", "inference")
    assert chosen.code.startswith("@triton.jit\ndef triton_poi_fused_gelu_0(")
    assert marked(chosen) == [
        "tmp2 = tmp0 * tmp1", "tmp4 = tmp0 * tmp3", "tmp5 = libdevice.erf(tmp4)", "tmp7 = tmp5 + tmp6", "tmp8 = tmp2 * tmp7",
    ]  # fmt: skip
    assert chosen.why_marked == "the kernel computes nothing but the culprit"
    became = [chosen.aten.split("\n")[number - 1].split(":")[0].strip() for number in chosen.aten_marked]
    assert became == ["mul", "mul_1", "erf", "add", "mul_2"]


def test_of_a_fused_kernel_only_what_no_other_operator_is_written_as() -> None:
    chosen = found("triton", "aten.cos")
    assert marked(chosen) == ["tmp1 = tl_math.cos(tmp0)"]
    assert chosen.lines == "1 line marked: written as cos is, and as nothing else in the kernel."

    softmax = found("softmax_and_relu", "aten._softmax")
    assert softmax.kernel == "cpp_fused__softmax_sum_0"
    said = " ".join(marked(softmax))
    assert ".exp()" in said and "tmp0 / tmp2" in said and "tmp0 - tmp2" in said
    assert "tmp_acc0_vec + tmp" not in said, "another sum in the kernel is written so too"


def test_of_a_decomposed_culprit_only_the_operator_whose_lowering_is_to_blame() -> None:
    """Here tanh is lowered as a sigmoid, so that nothing that is written in the kernel is a tanh."""
    chosen = found("wrong_tanh", "aten.gelu", blamed=["tanh"])
    assert marked(chosen) == ["auto tmp10 = decltype(tmp9)(1) / (decltype(tmp9)(1) + std::exp(-tmp9));"]
    assert chosen.why_marked.endswith(
        "none of the other operators, so that it is aten.tanh, whose lowering is to blame"
    )
    graph = chosen.aten.split("\n")
    assert ["aten.tanh.default" in graph[number - 1] for number in chosen.aten_marked] == [True]

    assert "None" not in chosen.aten and "stacktrace" not in chosen.aten

    whole = found("wrong_tanh", "aten.gelu", blamed=["sinh"])
    assert len(whole.marked) == 9 and whole.why_marked == "the kernel computes nothing but the culprit"
    erf = found("triton", "aten.gelu", blamed=["erf"])
    assert marked(erf) == ["tmp5 = libdevice.erf(tmp4)"]


def test_where_one_cannot_tell_no_line_is_marked() -> None:
    graph = Graph(
        code="cpp_fused_erf_special_0 = async_compile.cpp_pybinding(['float*'], r'''\nauto tmp1 = tmp0.erf();\n''')\n",
        aten="erf = torch.ops.aten.erf.default(x)\nodd = torch.ops.aten.odd.default(erf)",
    )
    chosen = choose([graph], ["aten.erf"], is_backward=False)
    assert chosen is not None and chosen.marked == []
    assert chosen.lines == "No line is marked: what computes the culprit cannot be told from the rest of the kernel."


def test_a_wrong_gradient_is_looked_for_in_the_backward() -> None:
    chosen = found("softmax_and_relu", "aten.relu", is_backward=True)
    assert (chosen.phase, marked(chosen)) == ("backward", ["auto tmp3 = tmp0 ? tmp2 : tmp1;"])
    forward = found("softmax_and_relu", "aten.relu")
    assert forward.phase == "forward"
    assert marked(forward) == ["auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));"] * 2


def test_what_a_library_computes_is_told_by_its_call() -> None:
    chosen = found("softmax_and_relu", "aten.mm")
    assert (chosen.language, chosen.kernel, chosen.marked) == ("extern", "extern_kernels.mm", [])
    assert chosen.code == "extern_kernels.mm(arg0_1, arg1_1, out=buf0)" and chosen.lines == ""
    assert chosen.what == "called: Inductor generates no code for it"


def test_lines_that_the_compiler_rejects_are_marked() -> None:
    chosen = found("cpp_error", "aten.relu", output=SAID)
    assert marked(chosen) == ["auto tmp1 = compile error!;"]
    assert chosen.why_marked == "the compiler rejects what is marked"
    assert chosen.code.startswith('extern "C"')


def test_an_operator_that_only_moves_values_is_where_they_are_loaded() -> None:
    code = (
        "triton_poi_fused_flip_0 = async_compile.triton('triton_poi_fused_flip_0', '''\n@triton.jit\n"
        "def triton_poi_fused_flip_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):\n    x0 = xindex\n"
        "    tmp0 = tl.load(in_ptr0 + (7 + ((-1)*x0)), xmask)\n    tl.store(out_ptr0 + (x0), tmp0, xmask)\n''', device_str='cuda')\n"
    )
    chosen = choose([Graph(code)], ["aten.flip"], is_backward=False)
    assert chosen is not None and marked(chosen) == ["tmp0 = tl.load(in_ptr0 + (7 + ((-1)*x0)), xmask)"]


def test_no_kernel_is_taken_for_the_culprits_that_is_another_ones() -> None:
    assert choose(graphs("softmax_and_relu"), ["aten.sort"], is_backward=False) is None
    assert choose([], ["aten.relu"], is_backward=False) is None


def test_no_folder_of_the_machine_is_in_it() -> None:
    chosen = found("softmax_and_relu", "aten._softmax")
    assert "/home/ada" in graphs("softmax_and_relu")[0].aten and "/home" not in chosen.aten + chosen.code


@pytest.mark.parametrize(
    "text",
    [
        "", "V1125 17:02:30.878000 1 a.py:1] {", "V1125 17:02:30.878000 1 a.py:1] {\"artifact\": 3}\n\tx", "\t\n\t\n" * 1000,
        "V1125 17:02:30.878000 1 a.py:1] " + '{"a":' * 50_000, "V1125 17:02:30.878000 1 a.py:1] {\"inductor_output_code\": {}}\n\t\x00'''",
    ],
)  # fmt: skip
def test_what_is_no_trace_has_no_kernel(text: str) -> None:
    assert choose(graphs_in(text), ["aten.relu"], is_backward=False) is None


def test_a_trace_without_end_is_cut() -> None:
    head = 'V1125 17:02:30.878000 1 a.py:1] {"inductor_output_code": {}}\n'
    kernel = (
        "\tcpp_fused_relu_0 = async_compile.cpp_pybinding([], r'''\n"
        + "\tauto tmp1 = tmp0 + 1;\n" * 50_000
        + "\t''')\n"
    )
    read = graphs_in((head + kernel) + head * 1000)
    assert len(read) <= 64
    chosen = choose(read, ["aten.relu"], is_backward=False)
    assert (
        chosen is not None and len(chosen.code) <= 20_000 and max(chosen.marked) <= len(chosen.code.split("\n")) <= 500
    )


@pytest.mark.parametrize(
    "payload",
    [
        "\tcpp_fused_relu_0 = async_compile.cpp([], '''x''')\n" * 40_000,
        "\tcpp_fused_relu_0 = async_compile.cpp([], '''\n" + ("\t" + " " * 3000 + "\n") * 1000 + "\t''')",
        "\ta = async_compile.cpp(''' \"\"\"\n" * 40_000,
    ],
)
def test_what_is_made_to_be_slow_to_read_is_not(payload: str) -> None:
    began = time.process_time()
    choose(
        graphs_in('V1125 17:02:30.878000 1 a.py:1] {"inductor_output_code": {}}\n' + payload),
        ["aten.relu"],
        is_backward=False,
    )
    assert time.process_time() - began < 2

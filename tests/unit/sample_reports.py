"""Reports of six kinds of failure, as jobs leave them: with a repro that holds, and stacks from a machine with folders."""

from __future__ import annotations

from typing import Any

from minimizer.report.culprit import Culprit, Error, Layer, Source
from minimizer.report.examined import Observed
from minimizer.report.generated_code import GeneratedCode
from minimizer.report.model import (
    Blame,
    Failure,
    Flag,
    Reduction,
    Report,
    Reproducibility,
    Rung,
    Verification,
    Workaround,
)
from minimizer.vocabulary import Kind, Stage, Status

REPRO = """# torch.compile computes wrong values for aten.relu.
import torch


def f(x):
    return torch.relu(x)


x = torch.ones(1)
torch.testing.assert_close(torch.compile(f)(x), f(x))
"""
FRAMES = "".join(
    f'  File "/home/ada/env/lib/python3.11/site-packages/torch/_inductor/part_{n}.py", line {n}, in lower_{n}\n'
    f"    return self.lower_the_whole_graph_and_all_of_its_inputs(graph, example_inputs, number={n})\n"
    for n in range(28)
)
STACK = (
    'Traceback (most recent call last):\n  File "/home/ada/work/model.py", line 12, in <module>\n    net(x)\n'
    f"{FRAMES}KeyError: 'buf1'"
)
ENVIRONMENT = {
    "torch": "2.13.0+cpu", "python": "3.11.2", "os": "Debian GNU/Linux 12", "cpu": "EPYC, avx512f", "gcc": "12.2.0",
    "device": "cpu", "HF_TOKEN": "hunter2",
}  # fmt: skip


def report(kind: Kind, **changes: Any) -> Report:
    """A minimized report of a kind of failure in Inductor."""
    failure = {"kind": kind, "stage": Stage.INDUCTOR, "reproducibility": Reproducibility(failed=2, runs=2)}
    failure |= changes.pop("failure", {})
    found = Report(
        status=Status.MINIMIZED,
        failure=Failure(**failure),
        culprits=[
            Culprit(
                module="blocks.4.act",
                nodes=["relu"],
                ops=["aten.relu"],
                source=Source(file="model.py", line=12, code="self.act(secret)"),
            )
        ],
        ladder=[Rung(backend="aot_eager", outcome="passes", seconds=3.2), Rung(backend="inductor", outcome="different", seconds=9)],
        flags=[Flag(name="fallback_by_default", value="True", outcome="passes"), Flag(name="simdlen", value="1", outcome="fails")],
        blame=Blame(subsystem="lowerings", items=["lowerings/aten.relu.default"], confirmed=True, runs=3, what="the lowering"),
        workaround=Workaround(code="torch._dynamo.disable(f)", verified=True, where="before line 12"),
        reduction=Reduction(nodes_before=68, nodes_after=1, lines_before=10, lines_after=14, trials=10, seconds=4, one_minimal=True),
        verification=Verification(
            runs=3, failed_same=3, clean_process=True, public_api=True, passes_with_compiler_off=True,
            output="expected 1\nactual   2\n",
        ),
        environment=ENVIRONMENT,
    )  # fmt: skip
    return found.model_copy(update=changes)


def value() -> Report:
    """Wrong values of a layer that is off by 1.03 in the script, and by 1 in the repro."""
    found = report(
        Kind.WRONG_OUTPUT, failure={"message": "output[0]: value: expected -0.246, got -0.758", "signature": "s"}
    )
    found.culprits[0] = found.culprits[0].model_copy(
        update={"local_error": Error(max_abs=1.0, mismatched=1, elements=1)}
    )
    found.layers = [
        Layer(path="blocks.4.act", order=3, local_error=1.03, propagated_error=1.03, verdict="bad"),
        Layer(path="head", order=4, local_error=0.0, propagated_error=0.51, verdict="propagated"),
    ]
    return found


def kernel() -> GeneratedCode:
    """The kernel of a repro that calls relu."""
    return GeneratedCode(
        language="cpp",
        kernel="cpp_fused_relu_0",
        code=(
            'extern "C"  void  kernel(const float* in_ptr0,\n                       float* out_ptr0)\n{\n'
            "    auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(0L), static_cast<int64_t>(1L));\n"
            "    auto tmp1 = at::vec::clamp_min(tmp0, decltype(tmp0)(0));\n"
            "    tmp1.store(out_ptr0 + static_cast<int64_t>(0L), static_cast<int64_t>(1L));\n}"
        ),
        marked=[5],
        why_marked="the kernel computes nothing but the culprit",
        aten=(
            'class <lambda>(torch.nn.Module):\n    def forward(self, arg0_1: "f32[1][1]cpu"):\n'
            "        # File: /home/ada/repro.py:6 in f, code: return torch.relu(x)\n"
            '        relu: "f32[1][1]cpu" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None\n        return (relu,)'
        ),
        aten_marked=[4],
    )


def gradient() -> Report:
    """A wrong gradient."""
    return report(Kind.WRONG_GRADIENT, failure={"message": "grad[0]: value: expected 1, got 0"})


def compile_error() -> Report:
    """An error of the compiler, with a stack of sixty lines that the repro prints again."""
    failure = {"message": "KeyError: 'buf1'", "exception_type": "KeyError", "traceback": STACK}
    found = report(Kind.COMPILE_ERROR, failure=failure)
    assert found.verification is not None
    found.verification = found.verification.model_copy(update={"output": STACK.replace("model.py", "repro.py")})
    return found


def crash() -> Report:
    """A segmentation fault, with the stacks of all threads."""
    stack = f"Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n{FRAMES}"
    return report(Kind.CRASH, failure={"message": "the process died by SIGSEGV", "traceback": stack})


def hang() -> Report:
    """A compilation that never ends."""
    stack = f"Thread 0x1 (most recent call first):\n{FRAMES}"
    return report(
        Kind.HANG, failure={"message": "stands still in torch/_inductor/scheduler.py:fuse", "traceback": stack}
    )


def between() -> Report:
    """A side effect that Dynamo loses between graphs."""
    failure = {
        "message": "At the end of the script, cache.order: ['b', 'a'] in eager, ['a', 'b'] compiled.",
        "stage": Stage.DYNAMO, "mechanism": "lost_mutation", "object": "cache.order",
        "source": Source(file="model.py", line=8, code="self.order.move_to_end(key)"),
    }  # fmt: skip
    return report(
        Kind.WRONG_OUTPUT,
        failure=failure,
        culprits=[Culprit(what="a change of cache.order that is lost")],
        ladder=[],
        flags=[],
        blame=None,
        observed=[Observed(when="after call 2", line=8, eager="['b', 'a']", compiled="['a', 'b']")],
        reduction=Reduction(level="python", lines_before=31, lines_after=14, one_minimal=True),
    )


ALL = {
    "value": value, "gradient": gradient, "compile_error": compile_error, "crash": crash, "hang": hang, "between": between,
}  # fmt: skip

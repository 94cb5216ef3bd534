"""What is taken for a graph that PyTorch dumped, what becomes of its text, and which of them are refused."""

from __future__ import annotations

import ast

import pytest

from minimizer.pytorch_dump import PyTorchDump, Unusable, read

NAME = "a97eb8da8aa99cf28dfad09ca68ea30c2e56b426"
AOT = f"""
import os
os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/caches'
os.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'
os.environ.pop('TORCHDYNAMO_REPRO_AFTER', None)

import torch
from torch import tensor, device
from torch._dynamo.testing import rand_strided
import torch._inductor.config
torch._inductor.config.trace.enabled = True
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'
isolate_fails_code_str = None
if "__compile_source__" in globals():
    import linecache
torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.reset_table()

class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('_tensor_constant0', tensor(2.0))

    def forward(self, primals_1):
        return (torch.ops.aten.relu.default(primals_1),)

def load_args(reader):
    buf0 = reader.storage('{NAME}', 256)
    reader.tensor(buf0, (8, 8), is_leaf=True)  # primals_1
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    with torch.no_grad():
        run_repro(mod, load_args, accuracy=True, command='minify', save_dir='/tmp/checkpoints', tracing_mode='real', check_str=None)
        # mod, args = run_repro(mod, load_args, accuracy=True, command='get_args', save_dir=None)"""
DYNAMO = AOT.replace("after_aot", "after_dynamo").replace(
    "tracing_mode='real', check_str=None", "autocast=False, backend='aot_eager'"
)
QUOTED = f"""
import torch
TEXT = '''
{AOT.replace("'", '"')}
'''
print(len(TEXT))
"""


def test_sizes_that_were_symbols_are_symbols_again() -> None:
    found = dump(AOT.replace("tracing_mode='real'", "tracing_mode='symbolic'"))
    assert "torch.compile(mod, dynamic=True)" in found.script
    assert "dynamic" not in dump(AOT).script


def test_what_somebody_added_under_a_condition_stays() -> None:
    found = dump(AOT.replace("mod = Repro()", "mod = Repro()\nif True:\n    mod = mod.double()"))
    assert "if True:\n    mod = mod.double()" in found.script
    assert "linecache" not in found.script and "run_repro" not in found.script


@pytest.mark.parametrize("mark", ["\u2028", "\x0c", "\x85"])
def test_marks_that_end_no_line_for_python_end_none_here(mark: str) -> None:
    found = dump(AOT.replace("load_args._version = 0", f"# a{mark}b\nload_args._version = 0"))
    assert ast.parse(found.script) and "run_repro" not in found.script


def test_a_dump_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(Unusable, match="nested too deeply"):
        read(AOT.replace("mod = Repro()", f"y = {'+'.join('1' * 5000)}\nmod = Repro()"))


def dump(text: str) -> PyTorchDump:
    found = read(text)
    assert found is not None
    return found


def test_each_statement_of_the_graph_stays_at_its_line() -> None:
    script = dump(AOT).script
    ast.parse(script)
    before, after = AOT.splitlines(), script.splitlines()
    kept = [number for number, line in enumerate(before) if line in after and line.strip()]
    assert all(after[number] == before[number] for number in kept)
    assert before.index("class Repro(torch.nn.Module):") in kept


def test_only_what_the_tool_needs_is_left_out() -> None:
    script = dump(AOT).script
    for gone in ("os.environ", "config.trace", "run_repro", "__compile_source__", "/tmp/checkpoints"):
        assert gone not in script
    assert "inject_relu_bug_TESTING_ONLY = 'accuracy'" in script
    assert "torch.manual_seed(0); mod = Repro()" in script


def test_the_graph_is_compiled_in_the_mode_it_was_dumped_from() -> None:
    assert "set_grad_enabled(False):\n    torch.compile(mod)(*reader.args)\n" in dump(AOT).script
    assert "set_grad_enabled(True):\n    torch.compile(mod, backend='aot_eager')(" in dump(DYNAMO).script
    cast = DYNAMO.replace("autocast=False", "autocast=True")
    assert "set_grad_enabled(True), torch.autocast('cpu'):" in dump(cast).script
    on_gpu = cast.replace("NAME', 256", "NAME', 256, device=device(type='cuda', index=0)").replace(
        "256)", "256, device=device(type='cuda', index=0))"
    )
    assert "torch.autocast('cuda')" in dump(on_gpu).script


def test_values_that_pytorch_saved_are_told_from_those_it_did_not() -> None:
    found = dump(AOT)
    assert (found.storages, found.save_dir, found.has_own_state) == ((NAME,), "/tmp/checkpoints", False)
    assert dump(AOT.replace(f"'{NAME}'", "None")).storages == (None,)
    assert dump(AOT.replace("save_dir='/tmp/checkpoints'", "save_dir=None")).save_dir is None


@pytest.mark.parametrize(
    "state", ["torch.nn.Linear(8, 8)", "torch.nn.Parameter(torch.randn(8))", "torch.randint(1, (2,))"]
)
def test_parameters_that_are_drawn_anew_are_known(state: str) -> None:
    assert dump(AOT.replace("super().__init__()", f"super().__init__()\n        self.w = {state}")).has_own_state


def test_variables_that_may_matter_are_named_and_those_of_the_tool_are_not() -> None:
    assert dump(AOT).variables == ("TORCHINDUCTOR_MAX_AUTOTUNE",)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.compile(torch.relu)(torch.ones(2))\n",
        "import torch\nclass Repro(torch.nn.Module):\n    pass\nmod = Repro()\ntorch.compile(mod)(torch.ones(2))\n",
        # somebody has made an ordinary script of a dump
        AOT[: AOT.index("if __name__")] + "torch.compile(mod)(rand_strided((8, 8), (8, 1)))\n",
        AOT[: AOT.index("if __name__")] + "with torch.no_grad():\n    print(mod(torch.ones(8, 8)))\n",
        "class Repro(torch.nn.Module):\n    this is no Python",
        QUOTED,
        AOT[: AOT.index("def load_args")] + "def main():\n    torch.compile(Repro())(torch.ones(2))\n\n\nmain()\n",
    ],
)
def test_other_scripts_are_left_alone(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (AOT[: AOT.index("if __name__")], "cut off: its end, a call of run_repro"),
        (AOT[: AOT.index("def load_args")], "cut off: its end, a call of run_repro"),
        (AOT.replace("mod = Repro()\n", ""), "hands mod to run_repro"),
        (AOT.replace("def load_args(", "def other("), "hands load_args to run_repro"),
        (AOT.replace("mod = Repro()", "mod = <lambda>"), "no Python"),
        (AOT.replace("reader.tensor(", "reader.sparse_tensor("), "reader.sparse_tensor, which"),
        (AOT.replace("reader.tensor(buf0, (8, 8), is_leaf=True)", "reader.opaque('x')"), "not kept"),
        (AOT.replace("aten.relu.default(", "prims.inductor_random.default("), "random numbers"),
        (AOT.replace("aten.relu.default(", "higher_order.triton_kernel_wrapper_mutation("), "Triton kernel"),
        (
            AOT.replace("    with torch.no_grad", "    setup_fake_process_groups({})\n    with torch.no_grad"),
            "other ranks",
        ),
    ],
)
def test_a_dump_that_means_nothing_by_itself_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read(text)

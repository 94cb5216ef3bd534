"""Settings that are not as by default, from real runs: in the end, while graphs are compiled, as options, and by variables."""

from __future__ import annotations

from pathlib import Path

from children import script, survey

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Changed, Finished

BY_THE_SCRIPT = """
    import torch
    import torch._inductor.config as inductor

    torch._dynamo.config.cache_size_limit = 256
    inductor.cpp.simdlen = 256
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    torch.compile(torch.sin, dynamic=True, backend="eager")(torch.rand(2))
    print("done", torch.dropout(torch.ones(3), 0.5, True).shape)
"""
FOR_A_WHILE = """
    import torch

    with torch._inductor.config.patch(memory_planning=True):
        torch.compile(lambda x: x + 1, options={"max_fusion_size": 8})(torch.ones(3))
    torch.compile(lambda x: x + 2)(torch.ones(3))
"""
UNTOUCHED = """
    import torch

    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.ReLU()), dynamic=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step)
    for size in (2, 3, 4):
        model(torch.ones(size, 4)).sum().backward()
        step()
    torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.ones(2),))  # torch compiles it under settings of its own
"""
OF_A_BACKEND = """
    import torch

    class Backend:
        config = [1, 2]

        def __call__(self, module, inputs, **kwargs):
            return module.forward

    torch.compile(lambda x: x + 1, backend=Backend())(torch.ones(3))
    torch.compile(lambda x: x + 2, backend=lambda module, inputs, options: module.forward, options={1: object()})(torch.ones(3))
"""
BY_A_VARIABLE = """
    import os

    os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
    os.environ["TORCH_LOGS"] = "recompiles"

    import torch

    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
"""


def ran(child: Executor, folder: Path, text: str, **request: object) -> Finished:
    found = survey(child, script(folder, text), **request).finished
    assert found is not None and found.exception is None
    return found


def changed(child: Executor, folder: Path, text: str, **request: object) -> list[Changed]:
    health = ran(child, folder, text, **request).health
    assert health is not None
    return health.changed


def test_what_the_script_changes_is_told_with_its_defaults(child: Executor, tmp_path: Path) -> None:
    found = ran(child, tmp_path, BY_THE_SCRIPT, values=False, measure=True)

    assert found.health is not None and found.output == "done torch.Size([3])\n"
    assert [(one.name, one.default, one.value) for one in found.health.changed] == [
        ("torch._dynamo.config.recompile_limit", "8", "256"),
        ("torch._inductor.config.cpp.simdlen", "None", "256"),
        ("torch.get_float32_matmul_precision()", "'highest'", "'high'"),
        ("torch.backends.cudnn.conv.fp32_precision", "'tf32'", "'ieee'"),
    ]


def test_a_setting_of_some_compilations_and_an_option_are_told(child: Executor, tmp_path: Path) -> None:
    assert changed(child, tmp_path, FOR_A_WHILE, values=False) == [
        Changed(name="torch._inductor.config.memory_planning", default="False", value="True", is_passing=True),
        Changed(name="max_fusion_size", value="8", by="torch.compile"),
    ]


def test_nothing_is_told_of_a_script_that_changes_nothing(child: Executor, tmp_path: Path) -> None:
    """Neither what `dynamic=True` sets while it compiles, nor what the comparison does, nor the variables that our child is started with."""
    assert changed(child, tmp_path, UNTOUCHED) == []


def test_options_of_any_kind_are_no_failure_of_the_script(child: Executor, tmp_path: Path) -> None:
    assert changed(child, tmp_path, OF_A_BACKEND) == []


def test_variables_are_told_with_the_settings_that_read_them(child: Executor, tmp_path: Path) -> None:
    given = {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}
    assert changed(child, tmp_path, BY_A_VARIABLE, values=False, environ=given) == [
        Changed(
            name="TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",
            value="torch._dynamo.config.capture_scalar_outputs",
            by="environment",
        ),
        Changed(name="TORCHINDUCTOR_MAX_AUTOTUNE", value="torch._inductor.config.max_autotune", by="environment"),
    ]

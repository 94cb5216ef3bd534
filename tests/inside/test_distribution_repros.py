"""Random numbers from another distribution, with the real compiler: which programs show it, and how their repros end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from children import SECONDS

from minimizer.engine.child.executor import Executor
from minimizer.engine.emit import Details, Repro, emit
from minimizer.engine.emit.distribution_idiom import FIGURES, asserts
from minimizer.engine.emit.header import OF_RUNS
from minimizer.engine.levels.distribution import DrawsOracle
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.inside.referee.distributions import DISTINCT, figures_of
from minimizer.report.model import Failure, Reproducibility
from minimizer.vocabulary import Kind

SKEWED = """\
from torch._inductor import inductor_prims
from torch._inductor.lowering import lowerings, mul

plain = lowerings[inductor_prims.random]


def random(size, seed, mode, **kwargs):
    return mul(plain(size, seed, mode, **kwargs), 0.75)


lowerings[inductor_prims.random] = random
"""
SAME = SKEWED.replace("0.75", "0.0")
"""Lowerings of Inductor's own uniform numbers: too small ones, and one that draws nothing."""


def program(*operators: str, setup: str = SKEWED, size: int = 64) -> Program:
    names = ["x", *(f"v{i}" for i in range(len(operators)))]
    nodes = [
        Node(name, operator, (Ref(before),))
        for before, name, operator in zip(names, names[1:], operators, strict=False)
    ]
    return Program(
        inputs=(Input("x", TensorMeta((size,), "torch.float32"), code=f"torch.ones({size})"),),
        nodes=tuple(nodes),
        outputs=(names[-1],),
        setup=tuple(setup.split("\n\n\n")) if setup else (),
    )


RAND, DROPOUT, UNIFORM = "torch.rand_like", "torch.nn.functional.dropout", ".exponential_"


@pytest.mark.fault_behind("random_replaced")
def test_a_program_that_draws_otherwise_is_told_from_one_that_does_not(child: Executor) -> None:
    oracle = DrawsOracle(Oracle(child, cast(Any, None), ()))
    assert oracle.aim(program(RAND, "torch.exp"))
    # Another size where the lowering is another one: Inductor's cache on disk does not tell lowerings apart.
    others = [program("torch.exp"), program(RAND, setup="", size=65), program("torch.no_such")]
    assert oracle.check([program(RAND), *others]) == [True, False, False, False]
    assert oracle.is_cured(program(RAND)), "eager's operators are drawn by another kernel"
    assert oracle.trials == 6


def test_a_program_that_draws_the_same_numbers_each_time_is_seen(child: Executor) -> None:
    found = DrawsOracle(Oracle(child, cast(Any, None), ())).apart(program(RAND, setup=SAME, size=66))
    assert found is not None and (found.figure, found.compiled) == (DISTINCT, 1)


def repro(*operators: str, setup: str, details: Details) -> Repro:
    return emit(
        program(*operators, setup=setup),
        Failure(kind=Kind.WRONG_OUTPUT),
        [],
        environment={},
        rate=Reproducibility(failed=2, runs=2),
        details=details,
    )


@pytest.mark.quality("slow")
@pytest.mark.parametrize(
    ("operator", "setup", "details", "status"),
    [
        (RAND, SKEWED, {"figure": "mean", "apart": 0.05}, 1),
        (RAND, "", {"figure": "mean", "apart": 0.05}, 0),
        (RAND, SAME, {"figure": DISTINCT, "apart": 50}, 1),
        (RAND, "", {"figure": DISTINCT, "apart": 50}, 0),
        (UNIFORM, "", {"figure": "square", "apart": 0.1, "writes": ["x"]}, 0),
        ("torch.no_such", "", {"figure": "zeros", "apart": 0.1}, 125),
    ],
)
def test_a_repro_ends_with_1_while_it_draws_otherwise(
    operator: str, setup: str, details: Details, status: int, tmp_path: Path
) -> None:
    made = repro(operator, setup=setup, details=details)
    (tmp_path / "repro.py").write_text(made.source)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, tmp_path / "repro.py"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    assert ended.returncode == status, ended.stderr
    assert (made.evidence in ended.stderr) is (status == 1)
    assert OF_RUNS.partition(":")[0] in made.source


def test_each_figure_of_a_trial_can_be_asserted_in_a_repro() -> None:
    import torch

    assert set(FIGURES) == {*figures_of(torch.ones(3).double()), DISTINCT}


@pytest.mark.parametrize(
    ("metas", "does"),
    [
        ([TensorMeta((64,), "torch.float32")], True),
        ([TensorMeta((64,), "torch.complex64")], False),
        ([None], False),  # several tensors in one
        ([TensorMeta((64,), "torch.float32")] * 2, False),
    ],
)
def test_a_repro_asserts_of_one_real_tensor(metas: list[TensorMeta | None], does: bool) -> None:
    nodes = tuple(Node(f"v{index}", RAND, (), meta=meta) for index, meta in enumerate(metas))
    assert asserts(Program(inputs=(), nodes=nodes, outputs=tuple(node.name for node in nodes))) is does

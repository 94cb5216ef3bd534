"""Triton kernels of modules beside the script, as definitions of a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import LAUNCH, Body, Input, Node, Program
from minimizer.engine.survey.own_kernels import with_own_kernels
from minimizer.script_text import MAX_SCRIPT_BYTES

MODULE = """import secrets
import triton
import triton.language as tl

TWICE = 2


@triton.jit
def helper(value):
    return value * TWICE


@triton.jit
def scale(values, BLOCK: tl.constexpr):
    tl.store(values, helper(tl.load(values)))
"""


def launching(kernel: str, *setup: str) -> Program:
    return Program(
        inputs=(Input("x", code="torch.ones(1)"),),
        nodes=(Node("launch", LAUNCH, (Code(f"{kernel}[4, 1]"),), (("values", Ref("x")),)),),
        outputs=("x",),
        setup=setup,
    )


def test_a_kernel_comes_with_what_it_needs_and_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "scaling.py").write_text(MODULE)
    program = with_own_kernels(
        launching("ops.scaling.scale", "import triton", "import ops.scaling", "torch.set_num_threads(1)"), tmp_path
    )
    assert program.kernels == {"scale"}
    assert [line.splitlines()[0] for line in program.setup] == [
        "import triton",
        "import triton.language as tl",
        "TWICE = 2",
        "@triton.jit",
        "@triton.jit",
        "torch.set_num_threads(1)",
    ]


@pytest.mark.parametrize(
    ("kernel", "setup"),
    [
        ("scale", ()),
        ("liger.ops.scale", ("import liger.ops",)),
        ("scaling.gone", ("import scaling",)),
        ("scaling.scale", ("import scaling", "TWICE = 3")),
    ],
    ids=["of the script itself", "of an installed package", "not defined there", "beside another thing of that name"],
)
def test_other_kernels_stay_as_they_are(kernel: str, setup: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(MODULE)
    program = launching(kernel, *setup)
    assert with_own_kernels(program, tmp_path) == program


@pytest.mark.parametrize("name", ["../outside", "/{}/outside", "link"])
def test_no_file_outside_of_the_folder_is_read(name: str, tmp_path: Path) -> None:
    """The name comes from the script's process, and what is read stands in the repro."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside.py").write_text(MODULE)
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    program = launching(f"{name.format(tmp_path)}.scale")
    assert with_own_kernels(program, folder) == program


@pytest.mark.parametrize("text", ["def scale(:\n", "x = " + "(" * 10_000, "\0", "# " + "x" * MAX_SCRIPT_BYTES])
def test_a_module_that_cannot_be_read_is_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(text)
    program = launching("scaling.scale", "import scaling")
    assert with_own_kernels(program, tmp_path) == program


def test_kernels_in_bodies_are_renamed_too(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(MODULE)
    body = Body("inner", ("x",), launching("scaling.scale").nodes, Ref("x"))
    program = Program(
        inputs=(Input("x", code="torch.ones(1)"),),
        nodes=(Node("made", "torch.ops.higher_order.cond", (Code("inner"), Ref("x"))),),
        outputs=("made",),
        setup=("import scaling",),
        bodies=(body,),
    )
    found = with_own_kernels(program, tmp_path)
    assert found.kernels == {"scale"}
    assert "import scaling" not in found.setup


def test_an_import_that_another_kernel_needs_stays(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(f"{MODULE}\n\n@triton.jit\ndef other(values):\n    pass\n")
    program = launching("scaling.scale", "import scaling", "def other(): pass")
    both = replace(program, nodes=(*program.nodes, *launching("scaling.other").nodes))
    found = with_own_kernels(both, tmp_path)
    assert found.kernels == {"scale", "scaling.other"}
    assert "import scaling" in found.setup


@pytest.mark.parametrize("line", ["from .helpers import TWICE", "from consts import TWICE", "import consts"])
def test_a_kernel_that_needs_another_module_of_the_folder_is_left_alone(line: str, tmp_path: Path) -> None:
    (tmp_path / "consts.py").write_text("TWICE = 2\n")
    text = MODULE.replace("TWICE = 2\n", f"{line}\n").replace(
        "* TWICE", "* consts.TWICE" if line[0] == "i" else "* TWICE"
    )
    (tmp_path / "scaling.py").write_text(text)
    program = launching("scaling.scale", "import scaling")
    assert with_own_kernels(program, tmp_path) == program


@pytest.mark.parametrize(
    ("text", "setup"),
    [(MODULE.replace("    return value", "    global value\n    return value"), ""), (MODULE, "def (")],
    ids=["a module that symtable refuses", "a setup that is no Python"],
)
def test_what_is_no_python_harms_nobody(text: str, setup: str, tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text(text)
    program = launching("scaling.scale", "import scaling", setup)
    assert with_own_kernels(program, tmp_path) == program

"""What a program has of the user's modules, under the names of the linked script."""

from __future__ import annotations

import pytest

from minimizer.engine.program.arguments import Code, Ref
from minimizer.engine.program.model import LAUNCH, Input, Node, Program
from minimizer.engine.survey.linked_names import under_linked_names

NAMES = {"own.backends.drop": "drop", "drop_it": "drop", "passes.Fuse": "passes_Fuse", "kernels.scale": "scale"}


def compiled(*setup: str, **kwargs: str) -> Program:
    return Program(
        inputs=(Input("x", code="torch.ones(1)"),),
        nodes=(Node("launch", LAUNCH, (Code("kernels.scale[4, 1]"),), (("values", Ref("x")),)),),
        outputs=("x",),
        setup=setup,
        compile_kwargs=tuple(kwargs.items()),
    )


@pytest.mark.parametrize(
    ("value", "new"),
    [
        ("own.backends.drop", "drop"),
        ("drop_it", "drop"),
        ("'own.backends.drop'", "'own.backends.drop'"),
        ("{'a.b': passes.Fuse, 'c': [1]}", "{'a.b': passes_Fuse, 'c': [1]}"),
        ("no python (", "no python ("),
    ],
)
def test_arguments_of_the_compiler_are_renamed_where_they_are_linked(value: str, new: str) -> None:
    program = under_linked_names(compiled("torch.set_num_threads(1)", backend=value), NAMES)
    assert program.compile_kwargs == (("backend", new),)
    assert program.setup == ("torch.set_num_threads(1)",)


def test_what_is_not_linked_is_imported() -> None:
    program = under_linked_names(compiled(backend="elsewhere.backends.fuse", options="{'dtype': torch.float32}"), NAMES)
    assert dict(program.compile_kwargs)["backend"] == "elsewhere.backends.fuse"
    assert program.setup == ("import elsewhere.backends",)


def test_kernels_are_renamed_and_their_modules_not_imported() -> None:
    program = under_linked_names(compiled("import kernels", "import triton"), NAMES)
    assert program.kernels == {"scale"}
    assert program.setup == ("import triton",)

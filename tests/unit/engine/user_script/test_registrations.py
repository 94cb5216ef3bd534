"""The line in which a script registers an operator."""

from __future__ import annotations

import pytest

from minimizer.engine.user_script.own_operators import registration


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (
            'import torch\n\n@torch.library.register_fake("lib::scale")\ndef _(x): ...\n\n'
            '@torch.library.custom_op("lib::scale", mutates_args=())\ndef scale(x): ...\n',
            6,
        ),
        ('custom_op(name="lib::scale", fn=scale, mutates_args=())', 1),
        ('torch.library.define("lib::scale", "(Tensor x) -> Tensor")', 1),
        ('if True:\n    library.define("scale.out(Tensor x) -> Tensor")', 2),
        ('library.impl("scale", f, "CPU")', 1),
        ('torch.library.custom_op("lib::scaled", mutates_args=())(f)', None),
        ('torch.library.custom_op("other::scale", mutates_args=())(f)', None),
        ('print("scale")', None),
        ("def f(:", None),
    ],
    ids=["custom_op first", "by keyword", "define", "of a library", "implementation", "longer name", "namespace", "no registration", "no Python"],
)  # fmt: skip
def test_the_line_of_a_registration(script: str, line: int | None) -> None:
    assert registration(script, "lib::scale") == line

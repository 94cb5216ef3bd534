"""A script as one text, and where the user has each of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.engine.reduce.python import Source
from minimizer.engine.user_script.bundle import bundle

MAIN = """\
# A comment that no syntax tree keeps.
from __future__ import annotations

from net.layers import Layer

layer = Layer(
    "relu",
)
print(layer)
"""
LAYERS = """\
# Another one.
from .sizes import WIDTH


@str
class Layer:
    # And one more.
    def forward(self, x):
        \"\"\"What it does,

        in words.
        \"\"\"
        if x:
            return x * (
                WIDTH + 1
            )
        raise ValueError(x)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "layers.py").write_text(LAYERS)
    (tmp_path / "net" / "sizes.py").write_bytes(b"# -*- coding: latin-1 -*-\nWIDTH = 3  # \xe4\n")
    (tmp_path / "train.py").write_text(MAIN)
    return tmp_path / "train.py"


@pytest.mark.parametrize("args", [(), ("--width", "3")])
def test_each_line_is_that_of_the_users_file(script: Path, args: tuple[str, ...]) -> None:
    whole = bundle(script, args)
    rows = {row.strip(): whole.lines.get(number) for number, row in enumerate(whole.text.splitlines(), 1)}
    assert rows["WIDTH = 3"] == ("net/sizes.py", 2, "WIDTH = 3  # \u00e4")
    assert rows["@str"] == ("net/layers.py", 5, "@str")
    assert rows["class Layer:"] == ("net/layers.py", 6, "class Layer:")
    assert rows["return x * (WIDTH + 1)"] == ("net/layers.py", 14, "return x * (")
    assert rows["raise ValueError(x)"] == ("net/layers.py", 17, "raise ValueError(x)")
    assert rows["layer = Layer('relu')"] == ("train.py", 6, "layer = Layer(")
    assert rows["print(layer)"] == ("train.py", 9, "print(layer)")
    assert rows.get("import sys") is None, "the statements that set the arguments are ours"


def test_a_script_alone_keeps_its_lines_behind_arguments_as_well(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('"""What it is."""\nimport sys\nprint( 1 )\n')
    assert bundle(tmp_path / "train.py").lines[3] == ("train.py", 3, "print( 1 )")
    whole = bundle(tmp_path / "train.py", ["3"])
    assert whole.lines[whole.text.splitlines().index("print( 1 )") + 1] == ("train.py", 3, "print( 1 )")
    assert whole.text.replace(whole.arguments, "") == (tmp_path / "train.py").read_text()


@pytest.mark.parametrize("args", [(), ("--width", "3")])
def test_a_candidate_as_it_is_run_keeps_the_lines(script: Path, args: tuple[str, ...]) -> None:
    (script.parent / "alone.py").write_text("# A comment.\n\nimport sys\n\nprint( 1 )  # Another.\n")
    whole = bundle(script.parent / "alone.py", args).rewritten()
    assert whole.text == Source.parse(whole.text).text
    assert whole.lines[whole.text.splitlines().index("print(1)") + 1] == ("alone.py", 5, "print( 1 )  # Another.")
    whole = bundle(script, args).rewritten()
    line = whole.text.splitlines().index("        raise ValueError(x)") + 1
    assert whole.lines[line] == ("net/layers.py", 17, "raise ValueError(x)")


def test_a_stack_of_the_text_has_the_users_files_and_lines(script: Path) -> None:
    whole = bundle(script, ["3"])
    line = whole.text.splitlines().index("        raise ValueError(x)") + 1
    stack = (
        f'  File "train.py", line {line}, in forward\n    raise ValueError(x)\n  File "torch/a.py", line {line}, in f\n'
    )
    said = whole.in_users_lines(stack, "train.py")
    assert said.splitlines()[0] == '  File "net/layers.py", line 17, in forward'
    assert f'"torch/a.py", line {line}, in f' in said
    dump = whole.in_users_lines(f'  File "train.py", line {line} in forward', "train.py")
    assert dump == '  File "net/layers.py", line 17 in forward'
    assert 'File "<made of train.py>", line 999,' in whole.in_users_lines('File "train.py", line 999, in f', "train.py")

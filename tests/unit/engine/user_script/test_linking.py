"""Scripts with modules beside them, linked into one text: it prints what the script prints, in a folder with nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minimizer.engine.user_script.bundle import bundle

LAYERS = """\
\"\"\"Layers.\"\"\"
import math

__all__ = ["Layer", "area"]
WIDTH = 3


class Layer:
    def forward(self, x):
        return x * WIDTH


def area(x):
    return math.floor(helper(x))


def helper(x):
    return x + 0.5


if __name__ == "__main__":
    print("never")
"""
LINKED = {
    "a module as a whole": {"train.py": "import layers\nprint(layers.Layer().forward(2), layers.area(1))"},
    "under another name": {"train.py": "import layers as l\nprint(l.Layer().forward(2), l.WIDTH)"},
    "names under other names": {"train.py": "from layers import Layer as L, area as a\nprint(L().forward(2), a(3))"},
    "all names": {"train.py": "from layers import *\nprint(Layer().forward(2), area(3))"},
    "all names, and no list of them": {"train.py": "from sizes import *\nprint(A)", "sizes.py": "A = 1\n_B = 2\n"},
    "a name that the script has for something else": {
        "train.py": "import layers\n\ndef helper(x):\n    return -x\n\nprint(layers.area(3), helper(3))"
    },
    "a name that the script assigns the result to": {"train.py": "import layers\narea = layers.area(3)\nprint(area)"},
    "a name that is local where it is used": {
        "train.py": "import layers\n\ndef f(x):\n    area = layers.area(x)\n    return area\n\nprint(f(3))"
    },
    "a name that another module has for something else": {
        "train.py": "import layers\nimport losses\nprint(layers.area(1), losses.loss(1))",
        "losses.py": "def helper(x):\n    return x * 100\n\n\ndef loss(x):\n    return helper(x)\n",
    },
    "a name of Python itself": {
        "train.py": "import ops\nprint(ops.max(3), max(1, 2))",
        "ops.py": "def max(x):\n    return -x\n",
    },
    "packages by the same name": {
        "train.py": "import json as j\nimport ops\nprint(j.dumps(1), ops.f())",
        "ops.py": "import math as j\n\n\ndef f():\n    return j.floor(1.5)\n",
    },
    "the same package by two statements": {
        "train.py": "import os.path as p\nimport ops\nprint(p.basename('a/b'), ops.f())",
        "ops.py": "from os import path as p\n\n\ndef f():\n    return p.basename('c/d')\n",
    },
    "a package with relative imports": {
        "train.py": "from net import Net\nimport net.sizes\nprint(Net().width, net.sizes.WIDTH)",
        "net/__init__.py": "print('net')\nfrom .model import Net\n",
        "net/model.py": "from .sizes import WIDTH as W\nfrom . import sizes\n\n\nclass Net:\n    width = W + sizes.WIDTH\n",
        "net/sizes.py": "WIDTH = 4\n",
    },
    "a folder of modules": {
        "train.py": "import net.sizes as s\nimport net.deep.more\nfrom net.deep import more\nprint(s.WIDTH, net.deep.more.A, more.A)",
        "net/sizes.py": "WIDTH = 4\n",
        "net/deep/more.py": "A = 5\n",
    },
    "a module that is reached through another": {
        "train.py": "import a\nprint(a.b.VALUE)",
        "a.py": "import b\n",
        "b.py": "VALUE = 1\n",
    },
    "a module that is run where it is imported": {
        "train.py": "print(1)\nimport a\nprint(3)",
        "a.py": "from __future__ import annotations\nprint(2)\n",
    },
    "modules that import each other": {
        "train.py": "import a\nprint(a.f())",
        "a.py": "import b\nX = 1\n\n\ndef f():\n    return b.g()\n",
        "b.py": "import a\n\n\ndef g():\n    return a.X\n",
    },
    "a setting of a module": {
        "train.py": "import a\na.SCALE = 5\nprint(a.f(2))",
        "a.py": "SCALE = 1\n\n\ndef f(x):\n    return x * SCALE\n",
    },
    "a counter of a module": {
        "train.py": "import a\nfrom a import count\ncount()\ncount()\nn = 7\nprint(a.n, n)",
        "a.py": "n = 0\n\n\ndef count():\n    global n\n    n += 1\n",
    },
    "an import for the type checker": {
        "train.py": "import a\nprint(a.f(1))",
        "a.py": "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import B\n\n\ndef f(x: B) -> B:\n    return x\n",
        "b.py": "B = int\n",
    },
    "a declared encoding": {
        "train.py": "import a\nprint(a.TEXT)",
        "a.py": "# -*- coding: latin-1 -*-\nTEXT = '\u00e4'\n",
    },
    "an empty module": {"train.py": "import a\nimport layers\nprint(layers.area(1))", "a.py": ""},
}
IMPORTED = {
    "used as an object": ("a", {"train.py": "import a\nprint(len(vars(a)) > 3)"}),
    "imported in a function": ("a", {"train.py": "def f():\n    import a\n    return a.f\n\nprint(f() is not None)"}),
    "imported under a condition": (
        "a",
        {"train.py": "try:\n    import a\nexcept ImportError:\n    a = None\nprint(a.V)"},
    ),
    "set in a function": ("a", {"train.py": "import a\n\ndef f():\n    a.V = 3\n\nf()\nprint(a.V)"}),
    "bound twice, by a list of all names": (
        "a",
        {"train.py": "from a import *\n\ndef f():\n    return 1\n\nprint(f(), V)"},
    ),
    "bound elsewhere first": ("a", {"train.py": "from math import e as f\nfrom a import f\nprint(f())"}),
    "bound elsewhere later": ("a", {"train.py": "from a import f\nfrom math import e as f\nprint(f)"}),
    "bound twice": ("a", {"train.py": "from a import f\nfrom b import f\nprint(f())"}),
    "without the name": ("a", {"train.py": "import a\ntry:\n    a.gone\nexcept AttributeError:\n    print('gone')"}),
    "of the name of a local variable": ("a", {"train.py": "import a\n\ndef g(a):\n    return a.x\n\nprint(a.V)"}),
    "dependent on where it lies": (
        "net.sizes",
        {
            "train.py": "import net.sizes\nprint(net.sizes.HERE)",
            "net/sizes.py": "from pathlib import Path\n\nHERE = Path(__file__).parent.name\n",
        },
    ),
    "without end in its names": (
        "a" * 300,
        {"train.py": f"try:\n    import {'a' * 300}\nexcept ImportError:\n    print(1)"},
    ),
    "run before it has what it is asked for": (
        "a",
        {
            "train.py": "try:\n    import a\nexcept ImportError:\n    import b\n    print(b.V)",
            "a.py": "from b import V\nfrom c import X\n",
            "b.py": "V = 1\n",
            "c.py": "import a\nfrom a import X\n",
        },
    ),
    "no Python": ("broken", {"train.py": "try:\n    import broken\nexcept SyntaxError:\n    print('no')"}),
}


def written(files: dict[str, str], folder: Path) -> Path:
    beside = {
        "layers.py": LAYERS,
        "broken.py": "def (",
        "a.py": "V = 1\n\n\ndef f():\n    return 'a'\n",
        "b.py": "def f():\n    return 'b'\n",
    }
    for name, text in {**beside, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="latin-1" if "latin-1" in text else "utf-8")
    return folder / "train.py"


def printed(script: Path) -> str:
    result = subprocess.run(
        [sys.executable, script.name], cwd=script.parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("files", LINKED.values(), ids=LINKED)
def test_a_linked_script_needs_no_module_beside_it(files: dict[str, str], tmp_path: Path) -> None:
    script = written(files, tmp_path / "whole")
    (alone := tmp_path / "alone" / "train.py").parent.mkdir()
    alone.write_text(bundle(script).text)
    assert printed(alone) == printed(script) != ""


@pytest.mark.parametrize(("name", "files"), IMPORTED.values(), ids=IMPORTED)
def test_a_module_stays_imported_where_linking_it_would_make_another_program(
    name: str, files: dict[str, str], tmp_path: Path
) -> None:
    script = written(files, tmp_path)
    before = printed(script)
    text = bundle(script).text
    assert f"import {name}" in text or f"from {name} import" in text
    script.write_text(text)
    assert printed(script) == before


def test_modules_of_python_are_never_those_beside_the_script(tmp_path: Path) -> None:
    """They are there before the script is run."""
    script = written({"train.py": "import random\nimport a\nprint(a.V)\n", "random.py": "1 / 0"}, tmp_path)
    text = bundle(script).text
    assert "import random" in text and "1 / 0" not in text and "V = 1" in text


def test_what_a_module_that_stays_imports_stays_too(tmp_path: Path) -> None:
    """It would be there twice, and register its operators twice."""
    files = {
        "train.py": "import a, b, c\nprint(vars(a)['V'], b.count, c.C)",
        "a.py": "from pkg.low import V\n",
        "b.py": "from pkg.low import count\n",
        "c.py": "C = 1\n",
        "pkg/__init__.py": "",
        "pkg/low.py": "print('once')\nV, count = 1, 2\n",
    }
    script = written(files, tmp_path)
    before = printed(script)
    text = bundle(script).text
    assert "C = 1" in text and "print('once')" not in text
    script.write_text(text)
    assert printed(script) == before


def test_an_import_within_a_package_is_written_from_its_root_where_it_stays(tmp_path: Path) -> None:
    files = {
        "train.py": "from pkg.top import f\nprint(f())",
        "pkg/top.py": "from .low import V\n\n\ndef f():\n    return V\n",
        "pkg/low.py": "def g():\n    import pkg.low\n\n\nV = 1\n",
    }
    script = written(files, tmp_path)
    before = printed(script)
    script.write_text(bundle(script).text)
    assert "from pkg.low import V" in script.read_text()
    assert printed(script) == before


def test_lines_and_names_are_those_of_the_modules(tmp_path: Path) -> None:
    files = {"train.py": "import layers\n\ndef helper():\n    pass\n\nprint(\n  layers.area(2)\n)\n"}
    whole = bundle(written(files, tmp_path))
    rows = {row.strip(): whole.lines.get(number) for number, row in enumerate(whole.text.splitlines(), 1)}
    assert rows["print(area(2))"] == ("train.py", 6, "print(")
    assert rows["return math.floor(layers_helper(x))"] == ("layers.py", 14, "return math.floor(helper(x))")
    assert whole.names["layers.helper"] == "layers_helper"
    assert whole.names["layers.area"] == "area"


@pytest.mark.parametrize("link", ["outside.py", "folder"])
def test_no_file_outside_of_the_folder_is_read(link: str, tmp_path: Path) -> None:
    """What is read stands in the repro."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("KEY = 'hunter2'\n")
    script = written({"train.py": "import secret_link\nimport linked.secret\n"}, tmp_path / "whole")
    (script.parent / "secret_link.py").symlink_to(outside / "secret.py")
    (script.parent / "linked").symlink_to(outside)
    assert bundle(script).text == script.read_text()


def test_modules_that_ask_each_other_for_what_neither_has_are_left_alone(tmp_path: Path) -> None:
    files = {
        "train.py": "import a\n",
        "a.py": "import c\nfrom b import X\n",
        "b.py": "X = 1\n",
        "c.py": "from a import X\n",
    }
    assert bundle(written(files, tmp_path)).text == "import a\n"


@pytest.mark.parametrize("beside", ["", "import a\n"])
def test_a_script_that_is_nested_too_deeply_stays_as_it_is(beside: str, tmp_path: Path) -> None:
    script = written({"train.py": f"{beside}x = {' + '.join(['1'] * 5000)}\n"}, tmp_path)
    assert bundle(script).text == script.read_text()


def test_modules_are_read_up_to_a_bound_for_all_together(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(6)]
    large = "# " + "x" * 999_000 + "\nA = 1\n"
    script = written({"train.py": f"import {', '.join(names)}\n", **{f"{name}.py": large for name in names}}, tmp_path)
    assert bundle(script).text.count("A = 1") < 6


@pytest.mark.parametrize("text", ["x = " + "(" * 10_000, "a;" * 500_000, "\0"], ids=["deep", "costly", "no text"])
def test_a_module_that_is_no_script_is_not_parsed(text: str, tmp_path: Path) -> None:
    script = written({"train.py": "import a\nprint(a.V)\n", "a.py": text}, tmp_path)
    assert bundle(script).text == script.read_text()

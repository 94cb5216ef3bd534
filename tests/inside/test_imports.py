"""What is read off a script's text: modules that certainly are imported and cannot be found."""

from __future__ import annotations

from importlib.machinery import all_suffixes
from pathlib import Path

import pytest

from minimizer.inside import imports


def missing(folder: Path, files: dict[str, str], main: str = "main.py") -> list[tuple[str, str, int, bool]]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return imports.scan(str(folder / main))


def test_all_that_is_missing_is_found_at_once_with_its_place(tmp_path: Path) -> None:
    files = {
        "main.py": "import torch\nimport net.model, no_such_a\n",
        "net/__init__.py": "from . import model\nfrom .blocks import Block\n",
        "net/model.py": "import os.path\nfrom layers.act import act\n",
        "net/blocks.py": "\nimport no_such_b.sub as b\n",
        "layers/act.py": "from no_such_c import act\nimport no_such_a\n",
        "unused.py": "import no_such_d\n",
    }
    assert sorted(missing(tmp_path, files)) == [
        ("no_such_a", "main.py", 2, True),
        ("no_such_b", "net/blocks.py", 2, True),
        ("no_such_c", "layers/act.py", 1, True),
    ]


@pytest.mark.parametrize(
    ("before", "is_certain"),
    [
        ('"""What it is for."""\nimport os\nos.environ["A"] = "1"\nSIZE = 4\n', True),
        ("def f():\n    print(1)\n\nclass A:\n    x = 1\n", True),
        ("try:\n    import also_missing\nexcept ImportError:\n    A = None\n", True),
        ("import subprocess\nsubprocess.run(['pip', 'install', 'no_such'])\n", False),
        ("with open('no_such.py', 'w') as file:\n    file.write('x = 1')\n", False),
    ],
)
def test_what_comes_after_something_was_done_is_not_certain(tmp_path: Path, before: str, is_certain: bool) -> None:
    files = {"main.py": f"{before}import no_such\nimport later\n", "later.py": "import no_such_either\n"}
    assert [(name, certain) for name, _, _, certain in missing(tmp_path, files)] == [
        ("no_such", is_certain),
        ("no_such_either", is_certain),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import no_such\nexcept ImportError:\n    pass\n",
        "if False:\n    import no_such\n",
        "def f():\n    import no_such\n",
        "import torch, json, xml.etree\nfrom __future__ import annotations\n",
        "import data, native\n",
        "def broken(:\n",
    ],
)
def test_what_need_not_be_imported_or_is_there_is_not_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()  # a package of files that are no Python
    (tmp_path / "native.cpython-311-x86_64-linux-gnu.so").touch()
    assert missing(tmp_path, {"main.py": text}) == []


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.path.insert(0, 'lib')\n",
        "import sys\nsys.modules['no_such'] = sys\n",
        "from sys import path\npath.append('lib')\n",
        "import site\nsite.addsitedir('lib')\n",
    ],
)
def test_a_script_that_changes_how_modules_are_found_leaves_it_open(tmp_path: Path, text: str) -> None:
    files = {"main.py": "import paths, no_such\n", "paths.py": text}
    assert missing(tmp_path, files) == [("no_such", "main.py", 1, False)]


def test_the_folder_is_that_of_the_script(tmp_path: Path) -> None:
    files = {"train/run.py": "import beside, above\n", "train/beside.py": "", "above.py": ""}
    assert missing(tmp_path, files, "train/run.py") == [("above", "run.py", 1, True)]


def test_versions_are_those_that_are_installed() -> None:
    found = imports.versions(["torch", "no-such-distribution"])
    assert found["no-such-distribution"] is None and found["torch"]


@pytest.mark.parametrize(
    ("beside", "is_module"),
    [
        ("no_such.out", False),
        ("no_such.txt", False),
        ("no_such.cpython-39-x86_64-linux-gnu.so", False),
        ("no_such", False),
        (f"no_such{all_suffixes()[-1]}", True),
        ("no_such.pyc", True),
        ("no_such/any.txt", True),
    ],
)
def test_only_what_this_python_imports_is_a_module_beside_the_script(
    tmp_path: Path, beside: str, is_module: bool
) -> None:
    found = missing(tmp_path, {beside: "", "main.py": "import no_such\n"})
    assert found == ([] if is_module else [("no_such", "main.py", 1, True)])

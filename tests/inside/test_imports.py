"""What is read off a script's text: modules that certainly are imported and cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimizer.inside import imports


def missing(folder: Path, files: dict[str, str], main: str = "main.py") -> tuple[list[tuple[str, str, int]], bool]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = imports.scan(str(folder / main))
    assert isinstance(found["missing"], list)
    return [tuple(one) for one in found["missing"]], bool(found["sure"])


def test_all_that_is_missing_is_found_at_once_with_its_place(tmp_path: Path) -> None:
    files = {
        "main.py": "import torch\nimport net.model, no_such_a\n",
        "net/__init__.py": "from . import model\nfrom .blocks import Block\n",
        "net/model.py": "import os.path\nfrom layers.act import act\n",
        "net/blocks.py": "\nimport no_such_b.sub as b\n",
        "layers/act.py": "from no_such_c import act\nimport no_such_a\n",
        "unused.py": "import no_such_d\n",
    }
    found, sure = missing(tmp_path, files)
    assert sure and sorted(found) == [
        ("no_such_a", "main.py", 2),
        ("no_such_b", "net/blocks.py", 2),
        ("no_such_c", "layers/act.py", 1),
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
    assert missing(tmp_path, {"main.py": text}) == ([], True)


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
    assert missing(tmp_path, {"main.py": "import paths, no_such\n", "paths.py": text}) == (
        [("no_such", "main.py", 1)],
        False,
    )


def test_the_folder_is_that_of_the_script(tmp_path: Path) -> None:
    files = {"train/run.py": "import beside, above\n", "train/beside.py": "", "above.py": ""}
    assert missing(tmp_path, files, "train/run.py")[0] == [("above", "run.py", 1)]


def test_versions_are_those_that_are_installed() -> None:
    found = imports.versions(["torch", "no-such-distribution"])
    assert found["no-such-distribution"] is None and found["torch"]

"""A module and a test of pytest's, started by a driver as Python and pytest start them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from minimizer.cli import drivers
from minimizer.cli.drivers import Program, is_test, of_module, of_notebook, of_test
from minimizer.errors import InvalidScript

TRAIN = """
import sys
from pathlib import Path

from . import layers

if __name__ == "__main__":
    print(layers.WIDTH, sys.argv[1:], Path(sys.argv[0]).name, __package__, Path("data.txt").read_text())
"""
TESTS = """
import pytest


class TestModel:
    @pytest.mark.parametrize("width", [1, 2])
    def test_wide(self, width, given):
        assert given == width, f"{given} is not {width}"


def test_right(given):
    print("ran with", given)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project: a package with modules, data in its top folder, and tests with a fixture."""
    package = tmp_path / "home" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise_if_imported = None\n")
    (package / "train.py").write_text(TRAIN)
    (package / "layers.py").write_text("WIDTH = 8\n")
    (tmp_path / "home" / "data.txt").write_text("data")
    tests = tmp_path / "home" / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text("import pytest\n\n\n@pytest.fixture\ndef given():\n    return 1\n")
    (tests / "test_model.py").write_text(TESTS)
    return tmp_path / "home"


def ran(program: Program, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The driver, run as the sandbox runs it: in a folder that shows what lies next to it."""
    command = [sys.executable, str(program.script), *arguments]
    return subprocess.run(command, cwd=program.script.parent, capture_output=True, text=True, check=False)


def test_a_module_runs_as_by_python_m(home: Path) -> None:
    with of_module("package.train", home) as program:
        done = ran(program, "--lr", "1")
    assert done.stdout == "8 ['--lr', '1'] train.py package data\n", done.stderr
    assert (program.source, program.name, program.read) == (home / "package" / "train.py", "package.train", (home,))


def test_a_package_runs_by_its_main_module(home: Path) -> None:
    (home / "package" / "__main__.py").write_text("from .layers import WIDTH\nprint('main', WIDTH)\n")
    with of_module("package", home) as program:
        assert ran(program).stdout == "main 8\n"
    assert program.source == home / "package" / "__main__.py"


def test_what_a_driver_was_made_of_is_left_as_it_was(home: Path) -> None:
    before = sorted(home.rglob("*"))
    with of_module("package.train", home) as program:
        folder = program.script.parent
        assert folder.is_dir()
    assert not folder.exists()
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("package.trian", "no module of this name below .*go to the folder from which `python -m package.trian` works"),
        ("pakage.train", "no module of this name"),
        ("package.layers.deep", "no module of this name"),
        ("package.", "no module of this name"),
        ("package", "a package without __main__.py cannot be run; name one of its modules"),
    ],
)
def test_a_module_that_is_not_there_says_what_to_do(home: Path, module: str, why: str) -> None:
    with pytest.raises(InvalidScript, match=why), of_module(module, home):
        pass


def test_a_folder_with_more_than_is_shown_shows_what_is_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "MOST_ENTRIES", 2)
    for number in range(5):
        (home / f"a{number}.log").touch()
    (home / "zoo.py").write_text("print(1)\n")
    with of_module("zoo", home) as program:
        assert (program.script.parent / "zoo.py").exists()


@pytest.mark.parametrize("name", ["test_right[\\Name]", 'test_right["""]', "test_right['a']"])
def test_a_name_is_data_in_the_driver(home: Path, name: str) -> None:
    (home / "test_some.py").write_text("def test_right(given):\n    pass\n")
    with of_test(f"test_some.py::{name}", home) as program:
        assert repr(f"test_some.py::{name}") in ast.unparse(ast.parse(program.script.read_text()))


def test_to_look_for_a_module_runs_nothing_of_its_packages(home: Path) -> None:
    (home / "package" / "__init__.py").write_text("raise SystemExit('imported')\n")
    with of_module("package.train", home) as program:
        assert program.source.name == "train.py"


def test_a_test_that_fails_raises_what_it_raises(home: Path) -> None:
    with of_test("tests/test_model.py::TestModel::test_wide[2]", home) as program:
        done = ran(program)
    assert done.returncode == 1
    assert "AssertionError: 1 is not 2" in done.stderr
    assert (program.source, program.name) == (home / "tests" / "test_model.py", "test_model-TestModel")


def test_a_test_that_passes_ends_well_with_its_fixtures_and_further_arguments(home: Path) -> None:
    with of_test("tests/test_model.py::test_right", home) as program:
        done = ran(program, "-q")
    assert done.returncode == 0, done.stderr
    assert "ran with 1" in done.stdout


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("tests/test_modle.py::test_right", "is no file: a test is named as pytest does"),
        (
            "tests/test_model.py::test_wrong",
            "has no test test_wrong; `pytest --collect-only -q tests/test_model.py` lists",
        ),
        ("../other.py::test_right", "is no file|does not lie below"),
    ],
)
def test_a_test_that_is_not_there_says_what_to_do(home: Path, test: str, why: str) -> None:
    with pytest.raises(InvalidScript, match=why), of_test(test, home):
        pass


def test_a_test_that_only_pytest_can_miss_says_so_when_it_is_run(home: Path) -> None:
    with of_test("tests/test_model.py::TestModel::test_wide[3]", home) as program:
        done = ran(program)
    assert done.returncode == 1
    assert "pytest finds no test tests/test_model.py::TestModel::test_wide[3]" in done.stderr


def test_the_name_of_a_test_is_told_from_that_of_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "a::b.py").write_text("")
    assert is_test("tests/test_model.py::test_right")
    assert not is_test("package/train.py") and not is_test("a::b.py")


def test_a_notebook_runs_in_its_folder(home: Path) -> None:
    cells = [
        "!ls",
        "import sys\nfrom package import layers",
        "print(layers.WIDTH, sys.argv[1:], open('data.txt').read())",
    ]
    notebook = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4}
    (home / "train.ipynb").write_text(json.dumps(notebook))
    with of_notebook(home / "train.ipynb") as program:
        assert ran(program, "7").stdout == "8 ['7'] data\n"
        assert program.cells == program.script.read_text()
        assert (program.name, program.read) == ("train", (home,))

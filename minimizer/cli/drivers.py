"""Programs other than plain scripts: a module (``python -m``) and a pytest test, each run by a small driver script, and
a notebook.

Such a driver is in a separate folder that mirrors the working directory, so that imports and files are found as from
there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from minimizer.errors import InvalidScript
from minimizer.notebook import script_of

MOST_ENTRIES = 1000
"""Entries of the working directory that the driver's folder shows; the sandbox lays out as many."""
OF_MODULE = '''\
"""A module, run as ``python -m`` does, as a script."""

import runpy

runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
'''
OF_TEST = '''\
"""A test of pytest's as a script: it raises what the test raises."""

import sys

import pytest


class Watch:
    error = None

    def pytest_exception_interact(self, call):
        self.error = call.excinfo.value


watch = Watch()
arguments = ["-s", "-x", "-p", "no:cacheprovider", "-o", "addopts=", {test!r}]
status = pytest.main([*arguments, *sys.argv[1:]], plugins=[watch])
if watch.error is not None:
    raise watch.error
if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
    raise SystemExit({unfound!r})
'''


@dataclass(frozen=True)
class Program:
    """The program of a job.

    ``script`` is the executed file, ``source`` the file named by the user in any way, ``name`` the name for the
    results' folder, and ``read`` are folders that the script may read. ``cells``: the script made from a notebook's
    cells; None for others.
    """

    script: Path
    source: Path
    name: str
    read: tuple[Path, ...] = ()
    cells: str | None = None


def is_test(name: str) -> bool:
    """Whether a name is that of a test in pytest's form: ``FILE::TEST``."""
    return "::" in name and not Path(name).exists()


@contextmanager
def of_module(module: str, home: Path) -> Iterator[Program]:
    """The program that ``python -m MODULE`` runs in the folder ``home``.

    Raises:
        InvalidScript: there is no such module below that folder, or it is a package that cannot be run.
    """
    source = _source(module, home)
    with _driver(home, f"run-{module}.py", module.partition(".")[0], OF_MODULE.format(module=module)) as script:
        yield Program(script, source, module, (home,))


@contextmanager
def of_test(test: str, home: Path) -> Iterator[Program]:
    """The program that ``pytest FILE::TEST`` runs in the folder ``home``.

    Raises:
        InvalidScript: there is no such file below that folder, or nothing of this name in it.
    """
    file, _, inside = test.partition("::")
    source = home / file
    listed = f"`pytest --collect-only -q {file}` lists the tests there are"
    if not source.is_file():
        raise InvalidScript(f"{file} is no file: a test is named as pytest does from the working directory, FILE::TEST")
    if not source.resolve().is_relative_to(home.resolve()):
        raise InvalidScript(
            f"{file} does not lie below the working directory: go to the folder that its tests are run from"
        )
    text = source.read_text("utf-8", "replace")
    first = inside.partition("::")[0].partition("[")[0]
    if not first.isidentifier() or (first not in text and "import *" not in text):
        raise InvalidScript(f"{file} has no test {first}; {listed}")
    unfound = f"pytest finds no test {test}; {listed}"
    below = source.resolve().relative_to(home.resolve())
    name = f"{source.stem}-{first}"
    with _driver(
        home, f"run-{name}.py", below.parts[0], OF_TEST.format(test=f"{below}::{inside}", unfound=unfound)
    ) as script:
        yield Program(script, source, name, (home,))


@contextmanager
def of_notebook(path: Path) -> Iterator[Program]:
    """The program that the cells of a notebook make, run in its folder.

    Raises:
        InvalidScript: it cannot be read, or has no code.
    """
    text = script_of(path.read_bytes(), path.name)
    home = path.resolve().parent
    with _driver(home, f"{path.stem}-notebook.py", "", text) as script:
        yield Program(script, path, path.stem, (home,), text)


@contextmanager
def _driver(home: Path, file: str, needed: str, text: str) -> Iterator[Path]:
    """A script with this text in a new folder, with links to the content of ``home``; the dash in its name keeps it
    from hiding a module.

    If there are too many, ``needed`` and Python files come first.
    """
    with tempfile.TemporaryDirectory(prefix="minimizer-driver-") as new:
        folder = Path(new).resolve()
        script = folder / file
        entries = sorted(
            home.resolve().iterdir(),
            key=lambda entry: (entry.name.partition(".")[0] != needed.partition(".")[0], entry.suffix != ".py", entry),
        )
        for entry in entries[:MOST_ENTRIES]:
            if entry.name != script.name:
                (folder / entry.name).symlink_to(entry)
        script.write_text(text)
        yield script


def _source(module: str, home: Path) -> Path:
    """The file of a module, found as Python finds it but without running the packages around it."""
    where = f"-m {module}: there is no module of this name below {home}"
    advice = f"go to the folder from which `python -m {module}` works, or give the path of a script"
    path = [str(home)]
    *packages, last = module.split(".")
    for package in packages:
        spec = PathFinder.find_spec(package, path)
        if spec is None or spec.submodule_search_locations is None:
            raise InvalidScript(f"{where}; {advice}")
        path = [*spec.submodule_search_locations]
    spec = PathFinder.find_spec(last, path) if last else None
    if spec is None:
        raise InvalidScript(f"{where}; {advice}")
    if spec.submodule_search_locations is not None:
        spec = PathFinder.find_spec("__main__", [*spec.submodule_search_locations])
        if spec is None:
            raise InvalidScript(f"-m {module}: a package without __main__.py cannot be run; name one of its modules")
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise InvalidScript(f"-m {module}: it has no Python file; {advice}")
    return Path(spec.origin)

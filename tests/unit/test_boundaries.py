"""The import contracts of pyproject.toml hold what they promise: each one breaks on an import that it forbids."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from checkout import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINTER = PROJECT["tool"]["importlinter"]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"

FORBIDDEN = [
    ("torch lives in minimizer.inside only", "minimizer/report/model.py", "import torch"),
    ("torch lives in minimizer.inside only", "web/filters.py", "import torch.nn"),
    ("nobody imports minimizer.inside: it runs in the child", "minimizer/cli/run.py", "import minimizer.inside.wire"),
    (
        "the rooms of minimizer, the highest first; inside imports nothing of ours",
        "minimizer/inside/wire.py",
        "import minimizer.errors",
    ),
    (
        "the rooms of minimizer, the highest first; inside imports nothing of ours",
        "minimizer/engine/journal.py",
        "import minimizer.store",
    ),
    (
        "the rooms of minimizer, the highest first; inside imports nothing of ours",
        "minimizer/newcomer.py",
        "import minimizer.errors",
    ),
    (
        "minimizer imports neither worker nor web, but for the command line",
        "minimizer/engine/journal.py",
        "import web.filters",
    ),
    (
        "minimizer imports neither worker nor web, but for the command line",
        "minimizer/inside/wire.py",
        "import worker.lease",
    ),
    ("the engine knows no database and no broker", "minimizer/engine/emit/header.py", "import sqlalchemy"),
    ("the engine knows no database and no broker", "minimizer/sandbox/cgroup.py", "import celery"),
    ("the store reaches no engine, worker, web", "minimizer/store/tables/bounds.py", "import minimizer.engine.emit"),
    ("the store reaches no engine, worker, web", "minimizer/store/tables/bounds.py", "import minimizer.service.broker"),
    ("the service reaches no engine", "minimizer/service/logs.py", "import minimizer.engine.journal"),
    ("web reaches neither the engine nor the worker", "web/filters.py", "import minimizer.engine.program.model"),
    ("web reaches neither the engine nor the worker", "web/filters.py", "import minimizer.api"),
    ("worker reaches no web", "worker/lease.py", "import web.filters"),
    (
        "the engine is a one-way street, the story first",
        "minimizer/engine/emit/header.py",
        "import minimizer.engine.verify.clean_runs",
    ),
    ("the engine is a one-way street, the story first", "minimizer/engine/newcomer.py", "import minimizer.errors"),
    ("inside is a one-way street, the tasks first", "minimizer/inside/values/elements.py", "from ..graph import names"),
    ("inside is a one-way street, the tasks first", "minimizer/inside/newcomer.py", "import torch"),
    ("no circles, in any package", "minimizer/store/errors.py", "import minimizer.store.store"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python files of all root packages, and the contracts, in a folder of their own."""
    folder = tmp_path_factory.mktemp("copy")
    for package in LINTER["root_packages"]:
        for path in (ROOT / package).rglob("*.py"):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


def broken(folder: Path) -> set[str]:
    """The contracts that the linter finds broken."""
    ended = subprocess.run([sys.executable, "-c", LINT], cwd=folder, capture_output=True, text=True)
    verdicts = re.findall(r"^(.+) (KEPT|BROKEN)\b.*$", ended.stdout, re.MULTILINE)
    assert len(verdicts) == len(LINTER["contracts"]), ended.stdout + ended.stderr
    return {name for name, verdict in verdicts if verdict == "BROKEN"}


def test_all_contracts_hold(copy: Path) -> None:
    assert broken(copy) == set()


@pytest.mark.parametrize(("contract", "file", "line"), FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(contract: str, file: str, line: str, copy: Path) -> None:
    path = copy / file
    before = path.read_text() if path.exists() else None
    try:
        path.write_text(f"{before or ''}\n{line}\n")
        assert contract in broken(copy)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)


def test_every_contract_has_an_import_that_breaks_it() -> None:
    assert {contract["name"] for contract in LINTER["contracts"]} == {contract for contract, _, _ in FORBIDDEN}

"""The import contracts of pyproject.toml forget no module; `make lint` checks the contracts themselves."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["name"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}


def modules_of_minimizer() -> set[str]:
    found = {path.stem for path in (ROOT / "minimizer").glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in (ROOT / "minimizer").glob("*/__init__.py")}
    return {f"minimizer.{name}" for name in found}


@pytest.mark.parametrize(
    ("contract", "side", "free"),
    [
        ("torch lives in minimizer.inside only, and nobody imports that", "source_modules", {"minimizer.inside"}),
        (
            "inside imports nothing of ours: it runs in the user's Python",
            "forbidden_modules",
            {"minimizer.inside", "minimizer.__main__"},
        ),
    ],
)
def test_contracts_name_every_module(contract: str, side: str, free: set[str]) -> None:
    listed = set(CONTRACTS[contract][side])
    assert modules_of_minimizer() - free <= listed
    assert {"worker", "web", "migrations"} <= listed

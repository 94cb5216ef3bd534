"""Tests of the package that runs in the user's Python, with torch in this process.

torch warns where it imports itself (numpy is missing, its own deprecated decorators). That is no concern of tests that turn
warnings into errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import executor

from minimizer.engine.child.executor import Executor

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scripts are."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Executor]:
    """A started executor that reads ``home``."""
    with executor(tmp_path_factory.mktemp("scratch"), home) as started:
        yield started

"""Tests of the package that runs in the user's Python, with torch in this process.

torch warns where it imports itself (numpy is missing, its own deprecated decorators). That is no concern of tests that turn
warnings into errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from children import executor, script

from minimizer.engine.child.executor import Executor
from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scripts are."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    """A started executor that reads what tests write; all files share it, since a warm child is made to serve many tasks."""
    scratch = tmp_path_factory.mktemp("job") / "shared"
    scratch.mkdir()
    with executor(scratch, tmp_path_factory.getbasetemp()) as started:
        yield started


@pytest.fixture
def triage(child: Executor, home: Path) -> Callable[..., Case | Settled]:
    """``triage(text, *args)``: what a script with this text comes to, after all surveys that it needs."""

    def run(text: str, *args: str) -> Case | Settled:
        surveys = Surveys(child, script(home, text), args=list(args), steps=None, hang_after=200, values=True)
        return Triage(surveys, on_note=lambda _: None).run()

    return run

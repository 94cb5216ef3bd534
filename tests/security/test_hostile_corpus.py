"""The corpus of hostile scripts (`hostile.cases`): each held as it says, and each that is no harm shown to work without the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from checkout import ROOT
from hostile.cases import CASES, Case, Free
from hostile.world import BOUNDS, World, is_held, world

from minimizer.sandbox import Bubblewrap, Unconfined

WORKS_OUTSIDE = [case for case in CASES if case.free is Free.ANYONE or (case.free is Free.ROOT and os.geteuid() == 0)]


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as laid:
        yield laid


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_script_is_held(case: Case, laid: World) -> None:
    text = laid.run(case, Bubblewrap(bounds=BOUNDS))
    assert is_held(case, text), text


@pytest.mark.parametrize("case", WORKS_OUTSIDE, ids=lambda case: case.name)
def test_it_would_work_without_the_sandbox(case: Case, laid: World) -> None:
    assert "escaped" in laid.run(case, Unconfined())


def test_the_page_has_all_of_them() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = [f"| {number} | {case.name} | {case.finds} | held |" for number, case in enumerate(CASES, 1)]
    assert [row for row in rows if row not in page] == []

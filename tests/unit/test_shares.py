"""Which scripts of a long table a commit runs."""

from __future__ import annotations

import pytest
from shares import commit, share

ROWS = [f"script {number}" for number in range(30)]


@pytest.fixture(autouse=True)
def a_share_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHOLE_CORPUS", raising=False)


def test_a_commit_has_the_same_share_whatever_the_order_of_the_table() -> None:
    assert share(ROWS, 3, str, "one") == sorted(share(ROWS[::-1], 3, str, "one"), key=ROWS.index)
    assert len(share(ROWS, 3, str, "one")) == 3


def test_a_row_that_is_added_takes_the_place_of_one_at_most() -> None:
    before, after = share(ROWS, 3, str, "one"), share([*ROWS, "a new one"], 3, str, "one")
    assert len(set(after) - set(before)) <= 1


def test_all_rows_have_their_turn() -> None:
    commits = [f"commit {number}" for number in range(200)]
    assert {row for each in commits for row in share(ROWS, 3, str, each)} == set(ROWS)


def test_the_whole_table_is_run_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLE_CORPUS", "1")
    assert share(ROWS, 3, str, commit()) == ROWS

"""Which real reductions a commit runs."""

from __future__ import annotations

import pytest
from shares import DRAWN, commit, drawn, drawn_examples

CORPUS = [f"script {number}" for number in range(30)]
TESTS = dict.fromkeys(CORPUS, "corpus")


@pytest.fixture(autouse=True)
def a_share_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHOLE_CORPUS", raising=False)


def test_a_commit_has_the_same_share_whatever_the_order_of_the_tests() -> None:
    assert drawn(TESTS, "one") == drawn(dict.fromkeys(CORPUS[::-1], "corpus"), "one")
    assert len(drawn(TESTS, "one")) == DRAWN["corpus"]


def test_a_test_that_is_added_takes_the_place_of_one_at_most() -> None:
    before, after = drawn(TESTS, "one"), drawn({**TESTS, "a new one": "corpus"}, "one")
    assert len(set(after) - set(before)) <= 1


def test_all_tests_have_their_turn() -> None:
    commits = [f"commit {number}" for number in range(200)]
    assert {name for each in commits for name in drawn(TESTS, each)} == set(CORPUS)


def test_each_share_has_its_own_number_and_the_longest_come_first() -> None:
    assert [name.partition(" of ")[2] for name in drawn(one_share_each(max(DRAWN.values())), "one")] == [
        share for share, count in DRAWN.items() for _ in range(count)
    ]


def test_a_test_that_is_named_alone_is_run() -> None:
    assert drawn({"this one": "jumps"}, "one") == ["this one"]


def test_a_share_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such thing: no share of docs"):
        drawn({"a test": "no such thing"}, "one")


def test_all_are_run_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLE_CORPUS", "1")
    tests = one_share_each(max(DRAWN.values()))
    assert sorted(drawn(tests, commit())) == sorted(tests)


EXAMPLES = {f"a.py::test_one[{number}]": 3 for number in range(12)} | {"a.py::test_one_more[0]": 2, "b.py::test_two": 1}


def test_a_commit_runs_as_many_examples_of_each_test_as_that_says() -> None:
    run = drawn_examples(EXAMPLES, "one")
    assert run == drawn_examples(dict(reversed(EXAMPLES.items())), "one")
    assert sum(name.startswith("a.py::test_one[") for name in run) == 3
    assert {"a.py::test_one_more[0]", "b.py::test_two"} <= run


def test_all_examples_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set().union(*(drawn_examples(EXAMPLES, str(number)) for number in range(200))) == EXAMPLES.keys()
    monkeypatch.setenv("WHOLE_CORPUS", "1")
    assert drawn_examples(EXAMPLES, "one") == EXAMPLES.keys()


def test_an_example_that_is_named_alone_is_run() -> None:
    (name, *_) = EXAMPLES
    assert drawn_examples({name: 3}, "one") == {name}


def one_share_each(count: int) -> dict[str, str]:
    return {f"{number} of {share}": share for number in range(count) for share in DRAWN}

"""What a user may ask for."""

from __future__ import annotations

import pytest
from pydantic import Field

from minimizer.cli.options import options_from
from minimizer.engine.child.prepare import plan_of
from minimizer.errors import InvalidOption, MissingTool
from minimizer.options import Options, parse_options
from minimizer.vocabulary import Kind


def test_an_argument_that_no_program_can_be_given_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"'args': .* NUL"):
        parse_options({"args": ["fine", "a\0b"]})
    stored = parse_options({"args": ["fine"]}).model_dump() | {"args": ["a\0b"]}
    assert Options.model_validate(stored).args == ["a\0b"], "a job that is stored stays readable"


@pytest.mark.parametrize("given", [{"drive": "python client.py"}, {"ready": "8000", "nproc": 2}])
def test_a_script_that_cannot_be_driven_as_asked_is_refused(given: dict[str, object]) -> None:
    options = parse_options(given)
    assert options.undrivable
    with pytest.raises(MissingTool, match=f"cannot be driven: {options.undrivable}"):
        plan_of(options)
    with pytest.raises(InvalidOption):
        options_from(given)


def test_only_a_script_that_needs_nobody_else_stands_alone() -> None:
    assert parse_options({}).stands_alone
    assert not parse_options({"ready": "8000", "drive": "python client.py"}).stands_alone
    assert not parse_options({"nproc": 2}).stands_alone


@pytest.mark.parametrize("name", ["A\0", "A\n", "A=B", "1A", ""])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="'env"):
        parse_options({"env": [name]})


class Newer(Options):
    """The options of a later version."""

    budget: int = 60
    new: list[int] = Field(default_factory=lambda: [1])


def test_a_new_option_is_stored_where_it_is_asked_for() -> None:
    """Or no older worker could do any job of a newer version."""
    assert Newer(budget=900).to_store() == Options().to_store()
    assert Newer(new=[2]).to_store()["new"] == [2]
    assert not Options.understands(Newer(new=[2]).to_store())


def test_another_default_changes_no_job_that_is_there() -> None:
    assert Newer.from_store(Options().to_store()).budget == Options().budget


@pytest.mark.parametrize(
    "stored", [{"new": 1}, {"budget": "long"}, {"args": ["--fast", 1]}, {"device": "mps", "new": 1}]
)
def test_what_is_not_understood_is_left_at_its_default(stored: dict[str, object]) -> None:
    assert not Options.understands(stored)
    assert Options.from_store({**stored, "nproc": 2}) == Options(nproc=2)


@pytest.mark.parametrize(
    ("expect", "finding", "compares"),
    [
        ("auto", None, True),
        ("accuracy", None, True),
        ("hang", None, False),
        ("recompiles", Kind.RECOMPILES, False),
        ("graph-break", Kind.GRAPH_BREAK, False),
        ("compile-time", Kind.COMPILE_TIME, False),
        ("memory", Kind.MEMORY, False),
        ("slow", Kind.SLOW, False),
    ],
)
def test_a_finding_may_be_asked_for_as_a_failure(expect: str, finding: Kind | None, compares: bool) -> None:
    options = parse_options({"expect": expect})
    assert (options.expected_finding, options.compares_values) == (finding, compares)


@pytest.mark.parametrize("expect", ["graph_break", "compile_time", "settings", "bias"])
def test_what_cannot_be_reduced_is_not_expected(expect: str) -> None:
    with pytest.raises(InvalidOption, match=r"'expect': .*'compile-time', 'memory' or 'slow'"):
        parse_options({"expect": expect})

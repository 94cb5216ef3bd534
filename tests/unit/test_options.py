"""What a user may ask for."""

from __future__ import annotations

import pytest

from minimizer.errors import InvalidOption
from minimizer.options import Options, parse_options


def test_an_argument_that_no_program_can_be_given_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"'args': .* NUL"):
        parse_options({"args": ["fine", "a\0b"]})
    stored = parse_options({"args": ["fine"]}).model_dump() | {"args": ["a\0b"]}
    assert Options.model_validate(stored).args == ["a\0b"], "a job that is stored stays readable"


@pytest.mark.parametrize("name", ["A\0", "A\n", "A=B", "1A", ""])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="'env"):
        parse_options({"env": [name]})

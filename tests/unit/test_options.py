"""What a user may ask for, and what is taken as a script."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from minimizer.errors import InvalidOption, InvalidScript
from minimizer.options import Options, check_script, parse_options


def nested(levels: int) -> bytes:
    """A block in a block, each of which the compiler writes out twice: for the way without an error, and for that with one."""
    lines = [f"{' ' * level}try: pass\n{' ' * level}finally:" for level in range(levels)]
    return "\n".join([*lines, " " * levels + "pass"]).encode()


def test_a_script_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code doubles with every level: a hundred of them would fill the memory."""
    flags: list[int] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        flags.append(arguments[3])
        return compile(*arguments, **options)

    monkeypatch.setattr("minimizer.options.compile", spy, raising=False)
    assert check_script(nested(19), "a.py")
    assert flags and all(flag & ast.PyCF_ONLY_AST for flag in flags)


def test_what_is_not_python_is_refused() -> None:
    with pytest.raises(InvalidScript, match=r"a\.py is not Python: .* \(line 2\)"):
        check_script(b"x = 1\ndef f(:\n", "a.py")


def test_an_argument_that_no_program_can_be_given_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"'args': .* NUL"):
        parse_options({"args": ["fine", "a\0b"]})
    stored = parse_options({"args": ["fine"]}).model_dump() | {"args": ["a\0b"]}
    assert Options.model_validate(stored).args == ["a\0b"], "a job that is stored stays readable"


@pytest.mark.parametrize("name", ["A\0", "A\n", "A=B", "1A", ""])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="'env"):
        parse_options({"env": [name]})

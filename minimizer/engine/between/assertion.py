"""Assertions for a difference of exact runs: a Python expression, and its value without the compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from minimizer.engine.between.difference import Change
from minimizer.engine.program.tensor_attributes import SUFFIXES

OUT, OUTS = "out", "outs"
"""The names in a repro for the result of its last call, and for a list of results collected inside a function."""
LINE = 88
"""Most characters of an assertion whose message repeats the expected value, which its condition already states."""
LONGEST = 160
MEMBER = ".<member>["
"""The separator between the path of a set and one of its members."""
DIGITS = 7
"""Most decimal digits of a norm; float32 has no more."""
FLAGS = ("True", "False")
SPELLED_OUT = ("int", "float", "bool", "str", "NoneType", "bytes", "complex", "process")
"""Types whose value is logged in full."""


@dataclass(frozen=True)
class Claim:
    """An expression, its ``expected`` value without the compiler and its ``actual`` one with it, as Python source.

    ``unrounded``: the expression with all digits, if it is rounded to as few as distinguish these two values.
    """

    expression: str
    expected: str
    actual: str
    unrounded: str = ""

    @property
    def compared(self) -> str:
        """The expression for a script that runs both sides itself, on other random numbers than those that chose the
        digits.
        """
        return self.unrounded or self.expression

    @property
    def test(self) -> str:
        """The condition that holds without the compiler."""
        if self.expected in FLAGS:
            return self.expression if self.expected == "True" else f"not {self.expression}"
        return f"{self.expression} == {self.expected}"

    @property
    def statement(self) -> str:
        """The ``assert`` statement; its message shows the actual value."""
        message = ast.JoinedStr(
            values=[
                ast.Constant(value=f"expected {self.expected}, actual "),
                ast.FormattedValue(value=ast.parse(self.expression, mode="eval").body, conversion=-1),
            ]
        )
        try:
            full = f"assert {self.test}, {ast.unparse(ast.fix_missing_locations(message))}"
        except ValueError:  # it already contains all types of quotes
            full = ""
        return full if full and len(full) <= LINE else f"assert {self.test}, {self.expression}"


def claims(changes: tuple[Change, ...]) -> Iterator[Claim]:
    """Claims about changes that a script sees at its end, the most readable first."""
    for change in sorted(changes, key=lambda c: c.rank):
        for claim in _of_member(change) or _of_path(change):
            texts = (claim.expression, claim.expected)
            if claim.expected != claim.actual and all(map(_is_python, texts)) and len(claim.test) <= LONGEST:
                yield claim


def _of_path(change: Change) -> list[Claim]:
    path = python_path(change.path)
    return list(_claims(path, change)) if path is not None else []


def _of_member(change: Change) -> list[Claim]:
    """The claim that a set has a member, or lacks it; empty for other changes."""
    path, mark, member = change.path.partition(MEMBER)
    holder = python_path(path)
    if not mark or holder is None:
        return []
    return [Claim(f"{member.removesuffix(']')} in {holder}", str(bool(change.eager)), str(bool(change.compiled)))]


def python_path(path: str) -> str | None:
    """A path of the walk, as an expression valid at the end of the script; None if it is unreachable from there."""
    path = path.replace(".__wrapped__", "")
    if "<" in path or path.startswith(("result", "args[", "kwargs[", "compiled")) or path == "raised":
        return None
    return path if _is_python(path) else None


def draw_from(change: Change) -> str:
    """An expression that draws from a random generator whose state differs; empty for other changes."""
    path = python_path(change.path)
    if path is None or change.field != "state":
        return ""
    return {"Random": f"{path}.random()", "Generator": f"torch.rand(1, generator={path}).item()"}.get(change.kind, "")


def _claims(path: str, change: Change) -> Iterator[Claim]:
    eager, compiled = change.eager, change.compiled
    if not eager or not compiled:
        yield from _of_presence(path, str(bool(eager)), str(bool(compiled)))
    elif "alias" in change.fields:
        told = eager.get("alias") or compiled.get("alias", "")
        if (other := python_path(told)) is not None:
            yield Claim(f"({path} is {other})", *(str(side.get("alias") == told) for side in (eager, compiled)))
    else:
        for name in change.fields:
            one, two = eager.get(name), compiled.get(name)
            if one is not None and two is not None:
                yield from _of_field(path, change, name, one, two)


def _of_presence(path: str, eager: str, compiled: str) -> Iterator[Claim]:
    """A claim about an attribute or an entry that one side lacks."""
    parent, dot, name = path.rpartition(".")
    keyed = re.fullmatch(r"(.*?)\[('.*'|\".*\")\]", path)
    if dot and name.isidentifier():
        yield Claim(f"hasattr({parent}, {name!r})", eager, compiled)
    elif keyed is not None:
        yield Claim(f"{keyed[2]} in {keyed[1]}", eager, compiled)


def _of_field(path: str, change: Change, name: str, one: str, two: str) -> Iterator[Claim]:
    """The claims about one field that differs between the sides and that both have."""
    if name in ("items", "keys"):
        yield from _of_items(path, change, name, one, two)
    elif name == "length":
        yield Claim(f"len({path})", one, two)
    elif name == "value" and change.kind in SPELLED_OUT:
        yield Claim(path, one, two)
    elif name == "values":
        yield from _of_values(path, one, two)
    elif name == "norm" and "not finite" not in change.eager:
        yield from _of_norm(path, one, two)
    elif name == "shape":
        yield Claim(f"list({path}.shape)", one, two)
    elif name in ("dtype", "requires_grad", "layout"):
        yield Claim(path + SUFFIXES[name], one, two)
    elif name == "device":
        yield Claim(f"str({path}{SUFFIXES[name]})", repr(one), repr(two))
    elif name == "type":
        yield Claim(f"type({path}).__name__", repr(one), repr(two))


def _of_values(path: str, one: str, two: str) -> Iterator[Claim]:
    """Claims about the elements of a tensor, if they are finite and few enough to be logged."""
    if "#" in one + two or "nan" in one or "inf" in one:
        return
    single = re.fullmatch(r"\[([^\[\],]+)\]", one), re.fullmatch(r"\[([^\[\],]+)\]", two)
    if not one.startswith("["):
        yield Claim(f"{path}.item()", one, two)
    elif single[0] and single[1]:
        yield Claim(f"{path}.item()", single[0][1], single[1][1])
    else:
        yield Claim(f"{path}.tolist()", one, two)
        yield from _of_one_element(path, one, two)


def _of_items(path: str, change: Change, name: str, one: str, two: str) -> Iterator[Claim]:
    is_dict = "keys" in change.eager
    if name == "keys" and is_dict:
        yield Claim(f"list({path})", one, two)
        return
    if is_dict and _sorted(one) == _sorted(two):
        return  # only the order differs; the claim about the keys covers it
    kind = change.kind
    if kind in ("deque", "tuple", "set", "frozenset"):
        yield Claim(f"list({path})" if kind in ("deque", "tuple") else f"set({path})", one, two)
    else:
        yield Claim(path, one, two)


def _of_norm(path: str, one: str, two: str) -> Iterator[Claim]:
    """A claim about the norm of a tensor with too many elements to log, with as few digits as distinguish the sides."""
    for digits in range(DIGITS):
        expected, actual = (round(float(side), digits) for side in (one, two))
        if abs(expected - actual) > 1.5 * 10**-digits:  # neither is within half a digit of the other's rounding
            norm = f"{path}.double().norm().item()"
            yield Claim(f"round({norm}, {digits})", repr(expected), repr(actual), unrounded=norm)
            return


def _of_one_element(path: str, one: str, two: str) -> Iterator[Claim]:
    """A claim about the first element that differs between two tensors too large to write out."""
    place: list[int] = []
    expected, actual = _literal(one), _literal(two)
    while isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        at = next((i for i, (a, b) in enumerate(zip(expected, actual, strict=True)) if a != b), None)
        if at is None:
            return
        place.append(at)
        expected, actual = expected[at], actual[at]
    if place:
        yield Claim(f"{path}[{', '.join(map(str, place))}].item()", repr(expected), repr(actual))


def _literal(text: str) -> object:
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return None
    return value


def _sorted(text: str) -> object:
    value = _literal(text)
    return (
        value if isinstance(value, dict) else sorted(value, key=repr) if isinstance(value, list | set | tuple) else text
    )


def _is_python(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return "#" not in text

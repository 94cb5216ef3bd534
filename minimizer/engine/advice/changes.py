"""What changes from call to call, in words: the guards that failed, what they have in common, and what would end it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from minimizer.engine.advice.guards import MISMATCH, TENSOR, Changing, Kind, whole

MOST_VALUES, MOST_SUBJECTS = 4, 3
"""Most named values or guards of a subject, and most named subjects of a finding."""
MOST_OF_A_VALUE, MOST_OF_A_GUARD = 60, 100
"""Most characters of a value, and of a guard."""
MODULE = re.compile(r"\._modules\['(?P<name>[^']+)'\]")
HANDED_ON = re.compile(r"___stack\d+")
"""Matches Dynamo's name for a value at a graph break that is handed on to the rest of the function."""
CLASS = re.compile(r"type=<(?:class|enum) '(?:[^']*\.)?(?P<name>\w+)'")
WORDS: Mapping[Kind, str] = {
    "function": "the function `{}` is another one, or carries other values",
    "keys": "the keys of `{}` change",
    "length": "the length of `{}` changes",
    "presence": "`{}` is None in some calls only",
    "identity": "`{}` is another object{of} for each version",
    "type": "the type of `{}` changes",
    "value": "`{}` changes",
}
ADVICE: Mapping[Kind, str] = {
    "function": "one function for all calls, to which what differs is given as a tensor",
    "keys": "the same keys in every call, in the same order, such as with zeros for what is absent",
    "length": "a tensor of a fixed size in the place of what grows or shrinks",
    "presence": "a tensor in every call, such as zeros or an empty one, in the place of None",
    "identity": "one object for all calls, or a choice among them outside of what is compiled",
}
"""What an expert would change, by what changes; there is none for plain values."""


def reasons(changing: Sequence[Changing], *, values: bool) -> str:
    """What changes, as a clause; ``values``: with its first values, or the guards that failed."""
    told = [_reason(one) + (_examples(one) if values else "") for one in changing[:MOST_SUBJECTS]]
    told = [*dict.fromkeys(told), *(["more"] if len(changing) > MOST_SUBJECTS else [])]
    return " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told) or "its guards failed"


def advice(changing: Sequence[Changing]) -> str:
    """What would end it, as a sentence that says that it was not tried; empty if that is unknown."""
    ways = list(dict.fromkeys(ADVICE[one.kind] for one in changing if one.kind in ADVICE))
    return f" Not tried: {'; '.join(ways)}." if ways else ""


def _reason(changing: Changing) -> str:
    """What changes about one subject."""
    if tensor := TENSOR.search(changing.subject):
        dimension = f" in dimension {tensor['index']}" if tensor["index"] else ""
        return f"the {tensor['what']} of `{tensor['name']}` changes{dimension}"
    found = next(filter(None, map(CLASS.search, changing.values)), None)
    of = f" of `{found['name']}`" if found is not None else ""
    if HANDED_ON.fullmatch(changing.subject):
        return "a Python value changes that the part before a graph break hands on"
    return WORDS[changing.kind].format(MODULE.sub(_step, changing.subject), of=of)


def _step(module: re.Match[str]) -> str:
    """A step to a submodule, as in the source of a program."""
    return f"[{module['name']}]" if module["name"].isdigit() else f".{module['name']}"


def _examples(changing: Changing) -> str:
    """The first values of one subject, or the guards on it where they look at several properties."""
    guards = list(dict.fromkeys(whole(one.guard) for one in changing.found))
    if len(changing.guards) == 1 and changing.kind != "keys":
        return _shown(list(filter(None, map(_value, guards))))
    return _shown([f"`{guard[:MOST_OF_A_GUARD]}`" for guard in guards], "guards that failed: ")


def _shown(values: Sequence[str], before: str = "") -> str:
    more = " and so on" if len(values) > MOST_VALUES else ""
    return f" ({before}{', '.join(values[:MOST_VALUES])}{more})" if values else ""


def _value(guard: str) -> str:
    """The value that a guard expects; empty if it is no comparison with one."""
    mismatch = MISMATCH.match(guard)
    return mismatch["expected"] if mismatch else guard.partition(" == ")[2].strip()[:MOST_OF_A_VALUE]

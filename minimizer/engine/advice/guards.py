"""Failed guards as Dynamo words them: what each one looks at, and what those of one function have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal

from minimizer.engine.child.compilations import Recompile

Kind = Literal["function", "keys", "length", "presence", "identity", "type", "value"]

REPEATED = 3
"""Number of values of one expression that make a finding.

Automatic dynamic shapes take one, and a size of 1 another. A switch has two values, however often it is toggled.
"""
MANY = 5
"""Number of recompiles of a function by whatever guards, apart from `EXPECTED`: of the default limit of eight, six
versions are used up.
"""
GUARD = re.compile(r"\d+/\d+: (?P<what>.*?)(?:\s+#.*)?$", re.DOTALL)
MISMATCH = re.compile(r"(?P<what>.*mismatch.*?)[.,]? expected (?P<expected>.+?)(?:, actual .+)?$")
TENSOR = re.compile(r"tensor '(?P<name>.+)' (?P<what>[\w ]+) mismatch(?: at index (?P<index>\d+))?")
EXPECTED = re.compile(
    r"(?:size|stride|requires_grad|dispatch key set) mismatch|\.(?:size|stride|storage_offset)\(\)|GLOBAL_STATE|___check_global_state|\.training\b"
)
"""Matches guards that fail in healthy programs: sizes that become dynamic, and switches of training and autograd."""
PATH = r"(?:[LG]\[[^\]]*\]|(?!\d)\w+)(?:\.\w+|\[[^\]]*\])*"
"""A variable, plain or in the local or global scope, with attributes and items."""
SUBJECTS = {
    "function": re.compile(r"(?P<of>[\w.\[\]']+?)\.__(?:defaults|kwdefaults|closure|code)__"),
    "keys": re.compile(rf"dict\.keys\((?P<of>{PATH})\)"),
    "key": re.compile(rf"___dict_contains\([^,]+, (?P<of>{PATH})\)"),
    "length": re.compile(rf"len\((?P<of>{PATH})\)"),
    "emptiness": re.compile(rf"not (?P<of>{PATH})$"),
    "identity": re.compile(rf"___check_obj_id\((?P<of>{PATH})"),
    "presence": re.compile(rf"(?P<of>{PATH}) is (?:not )?None$|expected type of '(?P<is>.+?)' to be .*\bNoneType\b"),
    "type": re.compile(rf"___check_type_id\((?P<of>{PATH})|expected type of '(?P<is>.+?)' to be"),
    "value": re.compile(rf"^(?P<of>{PATH})(?: |$)|(?:[<>=]) (?P<than>{PATH})$"),
}
"""Patterns of guards by the property that they look at, with the expression that has it."""
KINDS: Mapping[Kind, frozenset[str]] = {
    "function": frozenset({"function"}),
    "length": frozenset({"length", "emptiness"}),
    "keys": frozenset({"keys", "key", "length", "emptiness"}),
    "presence": frozenset({"presence"}),
    "identity": frozenset({"identity"}),
    "type": frozenset({"type"}),
}
"""What changes, by the properties that its guards look at."""
STEP = re.compile(r"^(?:[LG]\[[^\]]*\]|\w+)|\.\w+|\[[^\]]*\]")


@dataclass(frozen=True)
class Changing:
    """Recompiles of a function by guards on one subject. ``subject``: an expression, or a whole guard on a tensor."""

    subject: str
    found: Sequence[Recompile]

    @property
    def values(self) -> set[str]:
        """The distinct guards that failed, each with the value that it expects."""
        return {whole(one.guard) for one in self.found}

    @property
    def guards(self) -> list[str]:
        """The distinct guards without their values, the most frequent first."""
        found = [guard_of(one.guard) for one in self.found]
        return sorted(dict.fromkeys(found), key=found.count, reverse=True)

    @property
    def kind(self) -> Kind:
        """What changes about the subject; plain values where the guards look at several expressions of it."""
        looked = {_property(guard) for guard in self.values}
        kinds = (kind for kind, properties in KINDS.items() if looked <= properties)
        return next(kinds, "value") if len(self._by_expression) == 1 else "value"

    @property
    def is_repeated(self) -> bool:
        """Whether one expression had `REPEATED` values, and is no switch."""
        return any(len(values) >= REPEATED for values in self._by_expression.values())

    @property
    def _by_expression(self) -> Mapping[str, set[str]]:
        """The distinct guards of each expression."""
        found: dict[str, set[str]] = {}
        for one in self.found:
            found.setdefault(subject_of(one.guard), set()).add(whole(one.guard))
        return found

    @property
    def is_expected(self) -> bool:
        """Whether a healthy program has them too."""
        return all(EXPECTED.search(guard) for guard in self.guards)


def whole(said: str) -> str:
    """The guard in Dynamo's message with the value that it expects, without the number of its compiled code."""
    first = (said.splitlines() or [""])[0]
    found = GUARD.match(first)
    return found["what"] if found else first


def guard_of(said: str) -> str:
    """The guard in Dynamo's message for a recompile, without the expected value: equal if the same thing changes again."""
    what = whole(said)
    if mismatch := MISMATCH.match(what):
        return mismatch["what"]
    return what.partition(" == ")[0].strip() if " == " in what else re.sub(r"\d+", "#", what).strip()


def subject_of(said: str) -> str:
    """The expression that a guard looks at; the guard itself where it is on a tensor, or has another form."""
    what = whole(said)
    if TENSOR.search(what) or EXPECTED.search(what):
        return guard_of(said)
    found = SUBJECTS[name].search(what) if (name := _property(what)) else None
    return next(filter(None, found.groupdict().values())) if found else guard_of(said)


def _property(what: str) -> str:
    """The property that a guard looks at; empty for a guard on a tensor, or of another form."""
    if TENSOR.search(what):
        return ""
    return next((name for name, pattern in SUBJECTS.items() if pattern.search(what)), "")


def changed(found: Sequence[Recompile], *, is_refused: bool) -> list[Changing]:
    """The changing subjects that make the recompiles of one function a finding, the most frequent first; empty if none.

    ``is_refused``: whether the recompile limit was reached.
    """
    groups = sorted(_by_root(found), key=lambda one: -len(one.found))
    telling = [one for one in groups if one.is_repeated]
    others = [one for one in groups if one not in telling and not one.is_expected]
    if telling or sum(len(one.found) for one in others) >= MANY:
        return telling + others
    return groups if is_refused else []


def _by_root(found: Sequence[Recompile]) -> Iterator[Changing]:
    """Recompiles by the variable or attribute that their guards begin with; its longest common path is the subject."""
    rooted = sorted(((_root(subject_of(one.guard)), one) for one in found if one.guard), key=itemgetter(0))
    for _, group in groupby(rooted, key=itemgetter(0)):
        of_root = [one for _, one in group]
        yield Changing(_common([subject_of(one.guard) for one in of_root]), of_root)


def _root(subject: str) -> str:
    """A variable, or an attribute of ``self`` or of one of its modules; a guard on a tensor is one by itself."""
    if not re.fullmatch(PATH, subject):
        return subject
    first, *steps = STEP.findall(subject)
    modules = [number for number, step in enumerate(steps) if step == "._modules"]
    begin = modules[-1] + 2 if modules else 0
    return "".join([first, *steps[: begin + 1]]) if modules or first in ("self", "L['self']") else first


def _common(subjects: Sequence[str]) -> str:
    """The longest common path of expressions."""
    first, *others = dict.fromkeys(subjects)
    paths = [STEP.findall(other) for other in others]
    steps = STEP.findall(first) if others else [first]
    same = (number for number, step in enumerate(steps) if any(path[number : number + 1] != [step] for path in paths))
    return "".join(steps[: next(same, len(steps))])

"""Effects of ``torch.compile``'s wrappers on a script that looks at them, while all compiled code is right.

Two exact runs without the compiler, one with its wrappers and one without, are compared at the script's end. Names, and
the wrapper itself, do not count as a difference; numbers, tensors, sizes of containers and the number of backwards do.
The difference must recur in another pair of runs, and disappear if one line sees through the wrapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from minimizer.engine.between.difference import COURSE, end_of
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.between.noise import upwards
from minimizer.engine.between.script_runs import ALL
from minimizer.engine.between.words import object_at
from minimizer.engine.child.exact_log import Entry, ExactLog, Glance
from minimizer.inside.questions import Plan

WRAPPER = re.compile(r"\._orig_mod(?=[.\[]|$)|\b_orig_mod\.")
"""Matches what a wrapper adds to paths below it, and to names."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]*\w)")
FLOATING = re.compile(r"^torch\.(float|bfloat)")
FAR = 1e-3
"""Relative tolerance of floating-point numbers: a smaller difference may be another computation that is as right."""
FURTHER = 0.05
"""The same if the script asks whether it is compiled, in order to compute in another way."""
NAMES, CLASS, ASKED = "names", "class", "is_compiling"
SORTS = {
    NAMES: "names of parameters and modules begin with `_orig_mod.` there. Give it the module itself (`model._orig_mod`), or compile that "
    "in place (`model.compile()`).",
    CLASS: "it is an `OptimizedModule`, and no instance of the module's class. Give it the module itself (`model._orig_mod`), or compile "
    "that in place (`model.compile()`).",
    ASKED: "it asks whether it is compiled, and does something else then. Do the same in both cases, or outside of what is compiled.",
}
"""The ways in which a script looks at a wrapper, what it sees, and the cure."""
MOST_LINES = 7
"""Most lines that are tried one by one."""
MOST_SHOWN = 80
"""Most characters of a value in the verdict."""
PRINTED, NORM = "printed text", "norm "


@dataclass(frozen=True)
class Side:
    """Both values of one object, as text; ``apart``: their relative distance, if they are floating-point numbers."""

    bare: str
    wrapped: str
    apart: float = float("inf")


@dataclass(frozen=True)
class Effect:
    """The first difference, by its path, and the look at the wrapper that causes it."""

    path: str
    side: Side
    glance: Glance


def wrapper_effect(runs: ExactRuns, text: str) -> Effect | None:
    """The effect of the wrappers on the script that exact runs compared last; None if there is none, or it is unknown.

    A script that looked at no wrapper in those runs cannot depend on them, and is not run again.
    """
    if not runs.looked_at_wrappers:
        return None
    sides = Plan(bare=True), Plan(eager=ALL, through=())
    bare, wrapped = runs.ends(text, *sides)
    if bare is None or wrapped is None or not wrapped.glances:
        return None
    seen = differences(bare, wrapped)
    if not seen:
        return None
    again = runs.ends(text, *(replace(side, moved=True) for side in sides), is_live=True)
    if again[0] is None or again[1] is None:
        return None
    once_more = differences(again[0], again[1])
    steady = {path: side for path, side in seen.items() if once_more.get(path) == side}
    for glance in _to_blame(runs, text, bare, wrapped.glances, steady):
        enough = FURTHER if glance.sort == ASKED else FAR
        far = [path for path, side in steady.items() if side.apart > enough]
        if far:
            path = min(far, key=lambda one: _reads_badly(one, steady[one]))
            return Effect(path, steady[path], glance)
    return None


def told(effect: Effect, place: str, code: str) -> str:
    """The effect in words, and its usual cure. ``place`` and ``code``: the line that looks at the wrapper."""
    what = "the course of the script" if effect.path == COURSE else object_at(effect.path)
    side, line = effect.side, f"{place} ({code})" if code else place
    return (
        f"All that was compiled is right, but {line} looks at the wrapper of torch.compile: {SORTS[effect.glance.sort]} "
        f"At the end of the script {what} is {_brief(side.wrapped, side.bare)}, and {_brief(side.bare, side.wrapped)} without torch.compile."
    )


def _brief(value: str, other: str) -> str:
    """An excerpt of a long value around its first difference from the other value."""
    if len(value) <= MOST_SHOWN:
        return value
    same = next((at for at, (one, two) in enumerate(zip(value, other, strict=False)) if one != two), 0)
    begin = max(0, same - MOST_SHOWN // 4)
    shown = value[begin : begin + MOST_SHOWN]
    return f"{'...' if begin else ''}{shown}{'...' if begin + MOST_SHOWN < len(value) else ''}"


def _reads_badly(path: str, side: Side) -> tuple[bool, bool, int, int]:
    return side.bare.startswith(NORM), path.startswith(PRINTED), path.count(".") + path.count("["), len(path)


def _to_blame(
    runs: ExactRuns, text: str, bare: ExactLog, glances: list[Glance], steady: Mapping[str, Side]
) -> Iterator[Glance]:
    """The looks without which each of these differences disappears: single ones, else the first, if only all together
    do.
    """
    if not steady:
        return
    tried = glances[:MOST_LINES]
    keys = [*([glance.key] for glance in tried), [glance.key for glance in glances]]
    logs = runs.ends(text, *(Plan(eager=ALL, through=key) for key in keys))
    cured = [log is not None and not steady.keys() & differences(bare, log).keys() for log in logs]
    yield from (glance for glance, is_cured in zip(tried, cured, strict=False) if is_cured)
    if cured[-1] and not any(cured[:-1]):
        yield glances[0]


def differences(bare: ExactLog, wrapped: ExactLog) -> dict[str, Side]:
    """The differences at the end of a script between runs without and with wrappers, by path, apart from the wrappers'
    mere presence.
    """
    one, two = (_without_wrapper(end_of(log)) for log in (bare, wrapped))
    found: dict[str, Side] = {}
    if bare.backwards != wrapped.backwards:
        found[COURSE] = Side(f"{bare.backwards} backwards", f"{wrapped.backwards} backwards")
    resized = {path for path in one.keys() & two.keys() if one[path].get("length") != two[path].get("length")}
    for path in one.keys() & two.keys():
        if any(above in resized for above in upwards(path) if above != path):
            continue  # its items have moved to other places
        side = _side(path, one[path], two[path], wrapped.wrappers)
        if side is not None and side.apart > FAR:
            found[path] = side
    return found


def _without_wrapper(state: Mapping[str, Entry]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path, entry in state.items():
        found.setdefault(WRAPPER.sub("", path), entry)
    return found


def _side(path: str, bare: Entry, wrapped: Entry, wrappers: int) -> Side | None:
    """The difference between two entries of one path; None if they are equal, or differ only by names."""
    if bare == wrapped or bare.get("type") != wrapped.get("type"):
        return None
    one, two = (WRAPPER.sub("", side.get("value", side.get("values", ""))) for side in (bare, wrapped))
    if path.startswith(PRINTED):
        return _of_words(one, two, wrappers)
    if "length" in bare and bare["length"] != wrapped.get("length"):
        return _of_numbers(bare["length"], wrapped.get("length", ""), wrappers)
    if bare.get("dtype") != wrapped.get("dtype") or bare.get("shape") != wrapped.get("shape"):
        return None
    if FLOATING.match(bare.get("dtype", "")):
        return _of_tensors(bare, wrapped)
    if "dtype" in bare:
        return Side(one, two) if one != two else None
    return _of_numbers(one, two, wrappers) if bare.get("type") in ("int", "float") else None


def _of_tensors(bare: Entry, wrapped: Entry) -> Side | None:
    names = [name for name in ("values", "norm", "lean") if not bare.get(name, "#").startswith("#")]
    parts = [(NUMBER.findall(bare[name]), NUMBER.findall(wrapped.get(name, ""))) for name in names]
    apart = max((_apart(one, two) for one, two in parts), default=0.0)
    shown = "values" if "values" in names else "norm"
    one, two = (f"{'' if shown == 'values' else NORM}{side.get(shown, '')}" for side in (bare, wrapped))
    return Side(one, two, apart) if apart else None


def _of_words(one: str, two: str, wrappers: int) -> Side | None:
    """Two printed lines with equal words and different numbers."""
    if NUMBER.sub("", one) != NUMBER.sub("", two):
        return None
    pairs = zip(NUMBER.findall(one), NUMBER.findall(two), strict=False)
    sides = [side for pair in pairs if (side := _of_numbers(*pair, wrappers)) is not None]
    return Side(one, two, max(side.apart for side in sides)) if sides else None


def _of_numbers(one: str, two: str, wrappers: int) -> Side | None:
    """Two numbers; a count off by at most the number of wrappers has counted them."""
    if one == two:
        return None
    if one.lstrip("-").isdecimal() and two.lstrip("-").isdecimal():
        return Side(one, two) if abs(int(one) - int(two)) > wrappers else None
    return Side(one, two, _apart([one], [two]))


def _apart(one: list[str], two: list[str]) -> float:
    """The distance of numbers, relative to the largest of them."""
    if len(one) != len(two):
        return 0.0
    pairs = [(float(a), float(b)) for a, b in zip(one, two, strict=True) if a != b]
    largest = max((abs(float(value)) for value in (*one, *two)), default=0.0)
    return max((abs(a - b) / largest for a, b in pairs), default=0.0) if largest else 0.0

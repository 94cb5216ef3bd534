"""Decides whether other arithmetic of a call's graphs explains a difference: redraws their roundings, element by
element.

Dynamo may write other operators into a graph than Python called, with other roundings (functions of NumPy, optimizers).
Then the difference is about as large as the movement of the same element when the roundings of that call alone are
redrawn. For a wrong constant or a lost update it is not.
"""

from __future__ import annotations

import array
import base64
from collections.abc import Sequence
from math import isfinite, isnan

from minimizer.engine.between.difference import Change, Difference, states_at
from minimizer.engine.child.exact_log import Entry, ExactLog

SEEDS = range(1, 9)
"""Seeds of the runs in which the roundings of a call are redrawn."""
REACH = 4.0
"""Most distance of an element, relative to the furthest redrawn one: redrawn values are samples, not bounds."""


def is_shown(difference: Difference, eager: ExactLog, compiled: ExactLog, redrawn: Sequence[ExactLog]) -> bool:
    """Whether redrawn roundings of the compiled call move each element that differs by about as much.

    All logs keep the elements of tensors at the look of the difference.
    """
    logs = (eager, compiled, *redrawn)
    if not difference.is_arithmetic or any(len(log.looks) <= difference.index for log in logs):
        return False
    states = [states_at(log, difference.index) for log in logs]
    return all(_is_moved_so(change, logs, states) for change in difference.changes)


def _is_moved_so(change: Change, logs: Sequence[ExactLog], states: Sequence[dict[str, Entry]]) -> bool:
    sides = [_elements(log, state.get(change.path, {})) for log, state in zip(logs, states, strict=True)]
    if any(side is None or len(side) != len(sides[0] or ()) for side in sides):
        return False
    return all(_is_within(*parts) for parts in zip(*(side for side in sides if side is not None), strict=True))


def _is_within(eager: float, compiled: float, *redrawn: float) -> bool:
    if eager == compiled or (isnan(eager) and isnan(compiled)):
        return True
    if not (isfinite(eager) and isfinite(compiled) and all(map(isfinite, redrawn))):
        return False
    return abs(eager - compiled) <= REACH * max(abs(one - compiled) for one in redrawn)


def _elements(log: ExactLog, entry: Entry) -> Sequence[float] | None:
    """The logged elements of a tensor, or a Python number; None if unknown."""
    try:
        if "whole" in entry:
            return array.array("d", base64.b64decode(log.whole[int(entry["whole"])], validate=True))
        if entry.get("type") == "float":
            return [float(entry["value"])]
        if entry.get("type") == "complex":
            number = complex(entry["value"])
            return [number.real, number.imag]
    except (ValueError, IndexError, KeyError):
        return None
    return None

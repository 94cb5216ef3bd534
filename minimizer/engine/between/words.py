"""Words for the difference between two exact runs, for the report."""

from __future__ import annotations

import re
from collections.abc import Callable

from minimizer.engine.between.answer import Found
from minimizer.engine.between.difference import COURSE, WRITTEN_OUT, Change, Difference
from minimizer.engine.child.exact_log import Entry, Look
from minimizer.engine.program.tensor_attributes import SUFFIXES
from minimizer.report.examined import Observed
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind, counted

MOST_ROWS, SHOWN = 8, 200
PART = re.compile(r"\.<(?:items|keys|members?|rest|hook)>(?:\[.*?\](?=\.|$))?")
"""Matches the part of a container, or a member of a set, in a path."""
OUTSIDE = re.compile(r"^(.*)\[(\d+)\]$")
MECHANISMS = {
    "lost_mutation": "a change of {what} that is lost",
    "stale_guard": "a call that reuses stale compiled code because a guard is missing ({what})",
    "leaked_state": "{what}, which is not put back",
    "wrong_order": "{what}, which is put in another order",
    "skipped_handler": "an exception handler that is skipped",
    "missed_hook": "a hook that does not run ({what})",
    "late_read": "state that backward reads, frozen at the time of the forward ({what})",
    "lost_gradient": "a gradient that is lost ({what})",
    "wrong_constant": "a value of Python that is computed otherwise ({what})",
}

EXTRA_CHANGE = "a change of {what} that only compiled code makes"


def kind_of(difference: Difference) -> Kind:
    """The failure kind of a difference."""
    raised = next((c for c in difference.changes if c.path == "raised"), None)
    if raised is not None:
        return Kind.RUNTIME_ERROR if raised.compiled.get("value") else Kind.MISSING_ERROR
    if ".grad" in difference.first.path or is_gradient(difference):
        return Kind.WRONG_GRADIENT
    if difference.first.field in SUFFIXES:  # other values follow from another shape or dtype
        return Kind.WRONG_METADATA
    return Kind.WRONG_OUTPUT


def is_gradient(difference: Difference) -> bool:
    """Whether it is a gradient returned by a backward: by ``torch.autograd.grad``, since ``backward()`` returns
    nothing.
    """
    return difference.look.event == "backward exit" and difference.first.is_result


def object_in(difference: Difference) -> str:
    """The object that differs first, by a name that a reader of the script knows."""
    named = object_of(difference.first)
    return named.replace("the call returns", "torch.autograd.grad returns", 1) if is_gradient(difference) else named


def object_of(change: Change) -> str:
    """The object that differs, by such a name."""
    return object_at(change.path)


def object_at(path: str) -> str:
    """The object at a path, by such a name."""
    path = path.replace(".__wrapped__", "").replace("compiled.__self__", "self")
    path = re.sub(r"^(\w[\w.]*)\.<locals>\.", "", path)
    path = path.replace(".<closure>.", ": ").replace("compiled: ", "")
    if path == COURSE:
        return "the course of the script"
    if path.startswith(WRITTEN_OUT):
        return (
            OUTSIDE.sub(r"line \2 of \1", path)
            .replace("printed text", "what the script prints")
            .replace("files written", "the file ")
        )
    path = PART.sub("", path)
    if path == "raised":
        return "the exception that the call raises"
    return "what the call returns" + path.removeprefix("result") if path.startswith("result") else path


def what(failure: Failure) -> str:
    """A fault with a known mechanism, in a few words."""
    form = EXTRA_CHANGE if failure.extra_change else MECHANISMS[failure.mechanism or ""]
    return form.format(what=failure.object)


def message(found: Found) -> str:
    """The failure's message: moment, object, and its value in eager and compiled."""
    difference = found.difference
    change, more = difference.first, len(difference.changes) - 1
    also = f"; {counted(more, 'other thing')} differ{'s' if more == 1 else ''} too" if more else ""
    when = moment(difference.look)
    lengths = [side.get("length", "") for side in (change.eager, change.compiled)]
    if all(length.isdecimal() for length in lengths) and lengths[0] != lengths[1]:
        one, two = (counted(int(length), "entry").replace("entrys", "entries") for length in lengths)
        return f"{when[0].upper()}{when[1:]} the {change.kind} {object_in(difference)} has {one} in eager, {two.split()[0]} compiled{also}."
    one, two = shown(change.eager, change.field), shown(change.compiled, change.field)
    return f"{when[0].upper()}{when[1:]}, {object_in(difference)}: {one} in eager, {two} compiled{also}."


def moment(look: Look) -> str:
    """The moment of a look, in words."""
    event, _, side = look.event.partition(" ")
    return "at the end of the script" if event == "end" else f"{'after' if side == 'exit' else 'before'} {look.named}"


def observed(found: Found, line_of: Callable[[Look], int]) -> list[Observed]:
    """The values of the differing path in both runs, at each change, up to the first look at which they differ.

    At most the last `MOST_ROWS` rows. ``line_of``: the line of the user's script at a look, 0 for none.
    """
    path, field, rows = found.difference.first.path, found.difference.first.field, list[Observed]()
    pairs = zip(found.eager.states(), found.compiled.states(), strict=False)
    for index, ((look, eager), (_, compiled)) in enumerate(pairs):
        if index > found.difference.index:
            break
        one, two = eager.get(path, {}), compiled.get(path, {})
        is_last = index == found.difference.index
        if not is_last and (path not in eager or (rows and rows[-1].eager == shown(one, field))):
            continue
        rows.append(
            Observed(when=moment(look), line=line_of(look), eager=shown(one, field), compiled=shown(two, field))
        )
    return rows[-MOST_ROWS:]


def shown(entry: Entry, field: str = "") -> str:
    """An object's entry in short: its value, items or type, at most `SHOWN` characters; for a tensor, the differing
    ``field`` first.
    """
    if not entry:
        return "missing"
    if field in SUFFIXES and field in entry:
        return f"{field} {entry[field]}"
    if entry.get("type") == "exception":
        return entry.get("value") or "no exception"
    if "values" in entry and not entry["values"].startswith("#"):
        dtype = entry.get("dtype", "torch.float32")
        return f"{entry['values']}{'' if dtype == 'torch.float32' else f' ({dtype})'}"[:SHOWN]
    if "values" in entry:
        return f"{entry.get('type', '')} {entry.get('shape', '')} {entry.get('dtype', '')} norm {entry.get('norm', 'unknown')}"
    names = ("items", "value", "keys", "state", "code", "attributes", "alias", "length", "type")
    is_ordered = entry.get("type") == "OrderedDict" and "keys" in entry
    name = "keys" if is_ordered else next((name for name in names if entry.get(name)), "")
    return entry.get(name, entry.get("type", ""))[:SHOWN]

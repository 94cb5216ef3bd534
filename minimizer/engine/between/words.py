"""The words for what differs between two exact runs."""

from __future__ import annotations

import re

from minimizer.engine.between.difference import Change, Difference
from minimizer.engine.between.exact_runs import Found
from minimizer.vocabulary import Kind, counted

METADATA = {"dtype", "shape", "stride", "requires_grad", "device", "layout"}
MECHANISMS = {
    "lost_mutation": "a change of {what} that is lost",
    "stale_guard": "compiled code that is used again although what it was compiled for has changed ({what})",
    "leaked_state": "{what}, which is not put back",
    "wrong_order": "{what}, which is put in another order",
    "skipped_handler": "an exception handler that is skipped",
    "missed_hook": "a hook that does not run ({what})",
    "late_read": "state that backward reads, frozen at the time of the forward ({what})",
    "wrong_constant": "a value of Python that is computed otherwise ({what})",
}


def kind_of(difference: Difference) -> Kind:
    """The kind of failure that it is."""
    raised = next((c for c in difference.changes if c.path == "raised"), None)
    if raised is not None:
        return Kind.RUNTIME_ERROR if raised.compiled.get("value") else Kind.MISSING_ERROR
    if ".grad" in difference.first.path:
        return Kind.WRONG_GRADIENT
    if all(set(c.fields) <= METADATA for c in difference.changes):
        return Kind.WRONG_METADATA
    return Kind.WRONG_OUTPUT


def object_of(change: Change) -> str:
    """What differs, by a name that a reader knows."""
    path = change.path.replace(".__wrapped__", "").replace("compiled.__self__", "self")
    path = re.sub(r"^(\w[\w.]*)\.<locals>\.", "", path)
    path = path.replace(".<closure>.", ": ").replace("compiled: ", "")
    if path == "raised":
        return "the exception that the call raises"
    return "what the call returns" + path.removeprefix("result") if path.startswith("result") else path


def what(mechanism: str, change: Change) -> str:
    """The fault in a few words."""
    return MECHANISMS[mechanism].format(what=object_of(change))


def message(found: Found) -> str:
    """What a reader of both runs sees."""
    difference = found.difference
    look, change = difference.look, difference.first
    event, _, side = look.event.partition(" ")
    when = (
        "at the end of the script"
        if event == "end"
        else f"{'after' if side == 'exit' else 'before'} {event} {look.number}"
    )
    one, two = _side(change.eager, change), _side(change.compiled, change)
    more = len(difference.changes) - 1
    also = f"; {counted(more, 'other thing')} differ{'s' if more == 1 else ''} too" if more else ""
    return f"{when[0].upper()}{when[1:]}, {object_of(change)}: {one} in eager, {two} compiled{also}."


def _side(entry: dict[str, str], change: Change) -> str:
    if not entry:
        return "missing"
    shown = [f"{name} {entry[name]}" for name in change.fields if name in entry and name not in ("norm", "lean")]
    text = shown[0] if shown else entry.get("type", "")
    return (text.removeprefix("value ").removeprefix("items ").removeprefix("values ") or "no exception")[:200]

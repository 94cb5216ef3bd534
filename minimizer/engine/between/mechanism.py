"""How a fault between graphs came about: by what differs, and by experiments on the script itself."""

from __future__ import annotations

import ast

from minimizer.engine.between.difference import Change, states_at
from minimizer.engine.between.exact_runs import ExactRuns, Found
from minimizer.report.model import Mechanism

HOOKS = {"skip_nnmodule_hook_guards": False}
"""A setting of Dynamo with which it looks at the hooks of modules before each call."""


def mechanism_of(found: Found, runs: ExactRuns, text: str) -> Mechanism:
    """The mechanism, the first that an experiment or the difference itself shows."""
    difference = found.difference
    named = difference.first
    if any(change.path == "raised" for change in difference.changes):
        return "skipped_handler"
    if named.kind == "process":
        return "leaked_state"
    if difference.look.event == "backward exit":
        return "late_read"
    if found.is_reused and runs.cures(text, found, _plan(found), config=HOOKS):
        return "missed_hook"
    state = [change for change in difference.changes if _is_data(change)]
    if not state:
        if found.is_reused:
            return "stale_guard"
        return "stale_guard" if _shares_a_region(text) else "wrong_constant"
    if any(_is_reordered(change, found) for change in state):
        return "wrong_order"
    if all(change.kind == "Tensor" or change.field == "state" for change in state):
        return "stale_guard" if found.is_reused or _shares_a_region(text) else "lost_mutation"
    return "lost_mutation"


def _plan(found: Found) -> dict[str, object]:
    units = sorted({look.unit for look in found.compiled.looks if look.full})
    return {"full": units}


def _shares_a_region(text: str) -> bool:
    return "nested_compile_region" in text


def _is_data(change: Change) -> bool:
    """Whether it is something that the script keeps, and not what a call gives back."""
    return (
        not change.is_result and not change.path.startswith("raised") and change.kind not in ("stream", "environment")
    )


def _is_reordered(change: Change, found: Found) -> bool:
    """Whether both sides have moved the same things, each otherwise."""
    name = "keys" if "keys" in change.fields else "items"
    one, two = _literal(change.eager.get(name, "")), _literal(change.compiled.get(name, ""))
    if not isinstance(one, list) or not isinstance(two, list) or sorted(map(repr, one)) != sorted(map(repr, two)):
        return False
    before = states_at(found.compiled, found.difference.index - 1).get(change.path, {})
    return before.get(name) != change.compiled.get(name)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None

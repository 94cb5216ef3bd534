"""Names the mechanism of a fault between graphs, from the difference and from experiments on the script."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from minimizer.engine.between.answer import Found
from minimizer.engine.between.difference import Change, states_at
from minimizer.engine.between.exact_runs import ExactRuns
from minimizer.engine.child.exact_log import Entry
from minimizer.report.model import Mechanism

OF_PROCESS = ("os.environ[", "args[", "kwargs[")
ITEM = re.compile(r"\[\d+\]$")
"""Matches the index in the path of a list's item."""
HOOKS = {"skip_nnmodule_hook_guards": False}
"""The Dynamo setting that makes it guard on the hooks of modules."""


def mechanism_of(found: Found, runs: ExactRuns, text: str) -> Mechanism:
    """The first mechanism shown by the difference itself or by an experiment; if none is, a wrong constant."""
    difference = found.difference
    named = difference.first
    if any(change.path == "raised" for change in difference.changes):
        return "skipped_handler"
    if named.kind == "process":
        return "leaked_state"
    if (
        found.conditions.aot
        and difference.look.event == "backward exit"
        and named.eager
        and not _is_given(named.compiled)
    ):
        return "lost_gradient"
    if difference.look.event == "backward exit":
        return "lost_mutation" if _is_data(named) and named.lacks else "late_read"
    if found.is_reused and runs.cures(text, found, replace(found.plan, config=HOOKS)):
        return "missed_hook"
    state = [change for change in difference.changes if _is_data(change)]
    is_held = any(change.kind != "Tensor" and change.field != "state" for change in state)
    # A call may know of its own lost mutation. If a name refers to another object, and another result is returned as
    # well, the call took another branch.
    is_other = named.field == "alias" and any(change.is_result for change in difference.changes)
    takes_other_way = not is_held or is_other
    if found.is_reused and found.is_cured_by_reset and takes_other_way:
        return "stale_guard"
    if "nested_compile_region" in text and runs.cures(text, found, replace(found.plan, regions=False)):
        return "stale_guard"
    if any(_is_reordered(change, found) for change in state):
        return "wrong_order"
    return "lost_mutation" if state or _moves_items(found) else "wrong_constant"


def makes_extra_change(found: Found) -> bool:
    """Whether eager leaves what differs as it was at the look before, so that only compiled code has changed it."""
    difference, before = found.difference, None
    for index, (look, state) in enumerate(found.eager.states()):
        if index >= difference.index:
            break
        if look.full == difference.look.full:
            before = state.get(difference.first.path, before)
    return before is not None and before == difference.first.eager


def _moves_items(found: Found) -> bool:
    """Whether the call changes the contents of a container of the script in eager."""
    states = {
        look.event.rpartition(" ")[2]: dict(state)
        for look, state in found.eager.states()
        if look.full and look.event.startswith("call") and look.number == found.call
    }
    before, after = states.get("entry", {}), states.get("exit", {})
    names = ("items", "keys", "length")
    return any(
        (path in after and any(entry.get(n) != after[path].get(n) for n in names))
        or (path.endswith("]") and entry.get("value") != after.get(path, {}).get("value"))
        for path, entry in before.items()
        if not path.startswith(OF_PROCESS)
    )


def _is_given(entry: Entry) -> bool:
    return entry.get("type", "NoneType") != "NoneType"


def _is_data(change: Change) -> bool:
    """Whether it is state that the script keeps: not a result, exception, random stream or environment variable."""
    return (
        not change.is_result and not change.path.startswith("raised") and change.kind not in ("stream", "environment")
    )


def _is_reordered(change: Change, found: Found) -> bool:
    """Whether both sides hold the same items in another order, and the compiled call changed them."""
    if ITEM.search(change.path):
        return _is_item_reordered(ITEM.sub("", change.path), found)
    one, two = _literal(change.eager.get("keys", "")), _literal(change.compiled.get("keys", ""))
    if not isinstance(one, list) or not isinstance(two, list) or sorted(map(repr, one)) != sorted(map(repr, two)):
        return False
    before = states_at(found.compiled, found.difference.index - 1).get(change.path, {})
    return before.get("keys") != change.compiled.get("keys")


def _is_item_reordered(path: str, found: Found) -> bool:
    """The same for the items of a list, which are separate entries."""
    index = found.difference.index
    logs = ((found.eager, index), (found.compiled, index), (found.compiled, index - 1))
    one, two, before = (_items(states_at(log, at), path) for log, at in logs)
    return one != two and sorted(one) == sorted(two) and two != before


def _items(state: dict[str, Entry], path: str) -> list[str]:
    """The items of a list, in order, as far as they are separate entries."""
    items: list[str] = []
    while (entry := state.get(f"{path}[{len(items)}]")) is not None:
        items.append(str(sorted(entry.items())))
    return items


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):  # TypeError: an unhashable key
        return None

"""Why a confirmed difference of exact runs is no fault between graphs; each reason is shown by further runs."""

from __future__ import annotations

from dataclasses import replace

from minimizer.engine.between import other_arithmetic
from minimizer.engine.between.answer import Found
from minimizer.engine.between.difference import agree_at, states_at
from minimizer.engine.between.script_runs import ALL, ScriptRuns
from minimizer.engine.child.exact_log import Entry, ExactLog
from minimizer.engine.child.outcome import Ending
from minimizer.report.excused import excused

ARITHMETIC, OF_BACKEND = excused("exact_arithmetic").rule, excused("exact_backend").rule
REQUIRES_GRAD = "requires_grad"
PRINTED = "printed text"
"""The prefix of the paths of printed text."""


def why_no_fault(runs: ScriptRuns, found: Found) -> str:
    """The rule by which a confirmed difference is no fault between graphs; empty if it is one."""
    if _is_of_backend(runs, found):
        return OF_BACKEND
    return ARITHMETIC if _is_other_arithmetic(runs, found) else ""


def is_by_library(runs: ScriptRuns, found: Found) -> bool:
    """Whether eager returns another result there once torch's own modules take their compiled branch."""
    if not found.difference.is_of_results:
        return False
    as_compiled = replace(runs, conditions=replace(runs.conditions, library=True))
    log = as_compiled.log(replace(found.plan, eager=ALL))
    return log is not None and not agree_at(found.eager, log, found.difference)


def is_reordered(runs: ScriptRuns, found: Found) -> bool:
    """Whether only the order of printed lines differs, and equals eager's when no logging function is moved after its
    graph.
    """
    difference = found.difference
    if not all(change.path.startswith(PRINTED) for change in difference.changes):
        return False
    if _lines(found.eager, difference.index) != _lines(found.compiled, difference.index):
        return False
    in_order = replace(runs, conditions=replace(runs.conditions, in_order=True))
    log = in_order.log(found.plan)
    return log is not None and agree_at(found.eager, log, difference)


def _lines(log: ExactLog, index: int) -> list[list[tuple[str, str]]]:
    """What is printed by the look with this index, independent of the order of lines."""
    state = states_at(log, index)
    return sorted(sorted(entry.items()) for path, entry in state.items() if path.startswith(PRINTED))


def _is_of_backend(runs: ScriptRuns, found: Found) -> bool:
    """Whether the backend ``eager`` alone shows what differs: an error that a call raises, or which tensors require gradients."""
    changes = found.difference.changes
    if any(change.path == "raised" for change in changes):
        return _raises_on_eager_alone(runs, found)
    if not all(change.fields == (REQUIRES_GRAD,) for change in changes):
        return False
    log = runs.log(replace(found.plan, own_backend=True))
    own = _state_at(log, found) if log is not None else {}
    return all(own.get(change.path, {}).get(REQUIRES_GRAD) == change.eager[REQUIRES_GRAD] for change in changes)


def _raises_on_eager_alone(runs: ScriptRuns, found: Found) -> bool:
    """Whether a call raises an error on the backend ``eager``, and none on the script's own.

    Eager's kernel for an operator of the graph raises it, outside of the script's handler for it; the script's own
    backend accepts that operator, or does not get that far: comparing the graph shows what is wrong there.
    """
    raised = next(change for change in found.difference.changes if change.path == "raised")
    if not raised.compiled.get("value"):
        return False
    (outcome,) = runs.ask(replace(found.plan, own_backend=True))
    if outcome.exact is None:
        return outcome.ending is not Ending.TIMEOUT
    own = _state_at(outcome.exact, found).get("raised", raised.eager)
    return own == raised.eager or "of" in own


def _state_at(log: ExactLog, found: Found) -> dict[str, Entry]:
    """The state of another run at the moment of the difference, by path; empty if it does not get there."""
    moment = found.difference.look.moment
    return dict(next((state for look, state in log.states() if look.moment == moment), {}))


def _is_other_arithmetic(runs: ScriptRuns, found: Found) -> bool:
    """Whether redrawn roundings of the blamed calls' graphs explain exactly the elements that differ."""
    difference = found.difference
    if not difference.is_arithmetic or (found.is_reused and not found.shown):
        return False  # code whose earlier calls were bitwise equal computes like eager
    whole = 0 if difference.look.event == "end" else difference.look.unit
    plan = replace(found.plan, whole=whole)
    units = sorted(_units(found) | {difference.look.unit})
    asked = [replace(plan, eager=ALL), plan]
    asked += [replace(plan, redrawn={"seed": seed, "units": units}) for seed in other_arithmetic.SEEDS]
    eager, compiled, *redrawn = runs.logs(*asked)
    logs = [log for log in redrawn if log is not None]
    if eager is None or compiled is None or len(logs) < len(redrawn):
        return False
    return other_arithmetic.is_shown(difference, eager, compiled, logs)


def _units(found: Found) -> set[int]:
    """The units of the blamed calls: their numbers among calls and backwards."""
    looks = found.compiled.looks
    return {look.unit for look in looks if look.event == "call exit" and found.call <= look.number <= found.until}

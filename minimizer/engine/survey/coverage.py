"""The sentence of a healthy verdict: calls compared of calls made, and the option that compares more."""

from __future__ import annotations

from dataclasses import dataclass

from minimizer.engine.child import protocol
from minimizer.report import examined
from minimizer.vocabulary import counted

Counts = protocol.Checked | examined.Checked


@dataclass(frozen=True)
class Extent:
    """How far a survey of the script got.

    Args:
        most_calls: calls of the module and size called most often.
        all_fits: all of those can be compared in time.
        is_planned: a coverage plan compares as many calls as time allows; otherwise only as many as ``--steps``
            requests.
        stopped_after: seconds after which the run was stopped; None if it reached its end.
        budget: a budget in seconds with which it would have reached its end, if known.
    """

    most_calls: int = 0
    all_fits: bool = True
    is_planned: bool = False
    stopped_after: float | None = None
    budget: int | None = None


def healthy(checked: Counts, extent: Extent) -> str:
    """The sentence for a run without a fault: what was compared, how to compare more, and which side is right where
    they differ.
    """
    compared = f"No difference in {_compared(checked, extent)}{_stopped(extent)}{_more(checked, extent)}."
    right = examined.Largest.model_validate(checked.largest.model_dump()).who_is_right if checked.largest else ""
    return f"{compared} {right}".rstrip()


def uncompared(checked: Counts, extent: Extent) -> str:
    """The sentence for a run without a failure in which values were not compared (``--expect`` other than ``auto``)."""
    ran = f"{counted(checked.graphs, 'compiled graph')} ran in {_made(checked, extent)} calls"
    return f"No crash: {ran}{_stopped(extent)}; values were not compared: --expect auto compares them."


def _compared(checked: Counts, extent: Extent) -> str:
    passes = f"{checked.backward:,} backward pass{'' if checked.backward == 1 else 'es'}"
    backward = f", nor in {passes}" if checked.backward else ""
    calls = f"the {checked.calls:,} of {_made(checked, extent)} calls that were compared"
    return f"{calls}{backward} ({counted(checked.graphs, 'graph')})"


def _made(checked: Counts, extent: Extent) -> str:
    """The number of calls; "at least" for a stopped run, which would have made more."""
    return f"{'' if extent.stopped_after is None else 'at least '}{checked.calls_made:,}"


def _stopped(extent: Extent) -> str:
    return "" if extent.stopped_after is None else f"; the run was stopped after {extent.stopped_after:.0f} s"


def _more(checked: Counts, extent: Extent) -> str:
    """The option that compares more calls, as the end of the sentence; empty if there is none."""
    is_stopped = extent.stopped_after is not None
    if extent.is_planned and not is_stopped:
        return _rest(checked, extent)
    if checked.planned < checked.calls_made:
        is_all = checked.calls == checked.planned and extent.all_fits and not is_stopped
        return f"; --steps {rounded_up(extent.most_calls)} compares {'all' if is_all else 'more'}"
    if is_stopped and extent.budget is not None:
        return f"; --budget {extent.budget} lets it run longer"
    if is_stopped:
        return f"; --steps {rounded_up(2 * extent.most_calls)} lets it run longer"
    return "; the others were not" if checked.calls < checked.planned else ""


def _rest(checked: Counts, extent: Extent) -> str:
    """Why a complete plan left calls uncompared, and the option that compares them."""
    if checked.calls >= checked.calls_made:
        return ""
    if extent.all_fits:
        return "; the others could not be"
    which = "as many as there was time for, the first of each module and size among them"
    return f": {which}; --steps {rounded_up(extent.most_calls)} compares all"


def rounded_up(number: int) -> int:
    """The next round number, easy to type: 10 for 9, 200 for 192, 1300 for 1234."""
    step: int = 10 ** max(1, len(str(number)) - 2)
    return -(-number // step) * step

"""Tries remedies: makes each in the text of the script, runs it once, and measures it against the run without it."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from minimizer.engine.advice import reordered
from minimizer.engine.advice.edits import Edit, edits
from minimizer.engine.advice.memory import kept
from minimizer.engine.advice.printed import difference, is_in_another_order, varying
from minimizer.engine.advice.rules import Cause, breaks_per_call, causes, compiling, left_to_eager, recompiles, refused
from minimizer.engine.advice.settings import PutBack
from minimizer.engine.budget.patience import REMEDIES, REMEDIES_SHARE
from minimizer.engine.child.protocol import Finished, Health
from minimizer.engine.diagnose.paste import diff
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys, TimedRun
from minimizer.errors import BudgetExceeded
from minimizer.report.finding import Finding, Remedy

VARIES = "What the script prints varies from run to run, and could not be compared."
VARIES_IN_PART = "Lines that the script prints otherwise in every run were not compared."
ENDS_OTHERWISE = "With it the script does not come to its end."
UNMEASURED = "It was not tried: the script does not come to its end with an empty cache."
NOTHING_COMPILED = "With it nothing is compiled."
SILENT = "The script prints nothing by which its results could be compared."
GIVEN_UP = "With it a function runs in eager as a whole."
REORDERED = "What it prints is the same, in another order."
MEASURES: dict[str, Callable[[Health], float]] = {
    "graph breaks per call": breaks_per_call,
    "functions left to eager": left_to_eager,
    "recompiles": recompiles,
    "functions past the limit": refused,
    "s of compiling": compiling,
    "MB kept for the backward": kept,
}
MOST_LEFT = {"s of compiling": 0.75, "MB kept for the backward": 0.75}
"""Most share of a figure left by a remedy, for figures that are no counts.

Compile times of two runs differ by a tenth, and a remedy with a price must gain something.
"""
UNCOUNTED = "With it not every graph could be asked what it keeps."
AGAIN = "The backward computes again what is not kept: what that takes was not measured."
SLOWER, SLOWER_SECONDS = 1.2, 1.0
"""Allowed slowdown of the rest of the script with a remedy: a factor, and seconds of variation."""


class Run(Protocol):
    """Runs a text, or the script's own; None if it does not complete. ``cold``: with an empty cache."""

    def __call__(self, text: str | None = None, *, cold: bool = False) -> Finished | None: ...


def advise(
    run: TimedRun, surveys: Surveys, script: Path, journal: Journal, keep: Callable[[list[Finding]], None]
) -> None:
    """Find advice for a timed run of the script, and try remedies; ``keep`` takes the findings so far.

    Raises:
        BudgetExceeded: another limit than time is used up.
    """
    found, base, text = _causes(run.health, surveys, script, journal), run.finished, _text(script)
    keep([cause.finding for cause in found])
    if not found or base is None or base.exception is not None or base.stopped:
        return
    with suppress(BudgetExceeded), journal.clock.within(REMEDIES_SHARE * journal.clock.left):
        Trial(base, surveys.timed, text, script.name, journal).of_all(found, keep)
    journal.watch()


def known_of(surveys: Surveys, script: Path, journal: Journal) -> list[Finding]:
    """The findings from the metrics of an earlier run, without call counts and times."""
    return (
        [one.finding for one in _causes(surveys.first, surveys, script, journal)] if surveys.first is not None else []
    )


def _causes(health: Health, surveys: Surveys, script: Path, journal: Journal) -> list[Cause]:
    """All findings, from the metrics of a run and from what is known of the job."""
    text, put_back = _text(script), PutBack.of(journal.fault, journal.repro)
    moved = reordered.finding(journal.report.checked, text, script.name)
    found = causes(health, text, script.name, surveys.crowding, put_back)
    return [*found, *([Cause(moved)] if moved is not None else [])]


def _text(script: Path) -> str:
    """The text of the script; empty, and so unchangeable, if it is gone or not decodable as Python source."""
    with suppress(OSError, SyntaxError, UnicodeDecodeError), tokenize.open(script) as file:
        return file.read()
    return ""


@dataclass
class Trial:
    """Runs of a script with remedies. ``base``: the run without any."""

    base: Finished
    run: Run
    text: str
    name: str
    journal: Journal
    runs: int = 0
    again: str | None = None
    """The output of a second run without any remedy; None until one was needed."""
    cold_base: Finished | None = None
    """A run without any remedy and with an empty cache; None until one was needed."""

    def of_all(self, found: Sequence[Cause], keep: Callable[[list[Finding]], None]) -> None:
        """Try the remedies of each cause until one helps, at most `REMEDIES` runs in all."""
        findings = [cause.finding for cause in found]
        for place, cause in enumerate(found):
            tried: list[Remedy] = []
            for edit in edits(self.text, cause, self.name):
                if self.runs >= REMEDIES:
                    return
                tried.append(self.remedy(edit))
                findings[place] = cause.finding.model_copy(update={"remedies": [*tried]})
                keep(findings)
                if tried[-1].helped:
                    break

    def remedy(self, edit: Edit) -> Remedy:
        """Make a change, run the script with it, and measure the effect."""
        self.runs += 1
        self.journal.log(f"remedy: {edit.what}")
        is_cold = edit.lowers == "s of compiling"
        before = self._cold_run() if is_cold else self.base
        if before is None:
            return Remedy(what=edit.what, diff=diff(self.text, edit.text, self.name), unit=edit.lowers, note=UNMEASURED)
        finished = self.run(edit.text, cold=is_cold)
        measure, base = MEASURES[edit.lowers], before.health
        assert base is not None
        remedy = Remedy(
            what=edit.what,
            diff=diff(self.text, edit.text, self.name),
            before=measure(base),
            unit=edit.lowers,
        )
        if finished is None or finished.health is None:
            return remedy.model_copy(update={"note": ENDS_OTHERWISE})
        if not finished.checked.graphs:
            return remedy.model_copy(update={"note": NOTHING_COMPILED})
        if edit.lowers == "MB kept for the backward" and len(finished.health.kept) < len(base.kept):
            return remedy.model_copy(update={"note": UNCOUNTED})
        after, note, keeps = measure(finished.health), *self._printed(finished.output or "", edit)
        if edit.but or _given_up(finished.health) > _given_up(base):
            note, keeps = edit.but or GIVEN_UP, False
        if edit.lowers == "MB kept for the backward":
            note = f"{AGAIN} {note}".strip()
        most = MOST_LEFT.get(edit.lowers, 1.0) * measure(base)
        if is_cold and keeps:
            rest, rest_after = _rest(base), _rest(finished.health)
            keeps = rest_after <= SLOWER * rest + SLOWER_SECONDS
            note = f"Without compiling, the script takes {rest:.1f} s before and {rest_after:.1f} s with it. {note}".strip()
        if after >= measure(base):
            note = f"{edit.if_useless} {note}".strip()
        return remedy.model_copy(update={"after": after, "note": note, "helped": keeps and after < most})

    def _cold_run(self) -> Finished | None:
        """A run without any remedy and with an empty cache; None if it does not complete."""
        if self.cold_base is None:
            unchanged = self.run(cold=True)
            self.cold_base = unchanged if unchanged is not None and unchanged.health is not None else None
            self.again = unchanged.output or "" if unchanged is not None else self.again
        return self.cold_base

    def _printed(self, printed: str, edit: Edit) -> tuple[str, bool]:
        """A note on the printed output with a change, and whether the results seem unchanged.

        For a change that may compute otherwise, only if some of the output could be compared.
        """
        before, is_safe = self.base.output or "", not edit.computes_otherwise
        if is_in_another_order(before, printed):
            return REORDERED, edit.reorders
        differs = difference(before, printed)
        if not differs:
            return ("", True) if before else (SILENT, is_safe)
        if self.again is None:
            unchanged = self.run()
            self.again = unchanged.output or "" if unchanged is not None else before
        chance = varying(before, self.again)
        if chance is None or len(chance) == len(before.splitlines()):
            return VARIES, is_safe
        differs = difference(before, printed, chance)
        return (f"It does not keep the results: {differs}.", False) if differs else (VARIES_IN_PART, True)


def _rest(health: Health) -> float:
    """Seconds of the script without its compilations."""
    return max(0.0, health.seconds - compiling(health))


def _given_up(health: Health) -> int:
    """Functions that Dynamo leaves to eager as a whole: fewer breaks and recompiles of theirs are no gain."""
    return sum(one.is_whole for one in health.broken) + refused(health) + len(health.failed)

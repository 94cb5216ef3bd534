"""Diagnosis: the part of the compiler to blame, and a workaround. Runs on a verified repro; the verdict stays.

``find_part`` switches parts of the failing stage off and the sweep changes settings, both on the minimal program. A
change that removes the failure becomes a workaround if the user's own script passes with it. If the time ends first,
the findings so far stay in the report.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from minimizer.engine.diagnose.effect import Effect
from minimizer.engine.diagnose.knobs import (
    Turned,
    advised,
    default_of,
    groups,
    named_in,
    names,
    put_back,
    set_in,
    turned,
    with_headers,
)
from minimizer.engine.diagnose.paste import diff
from minimizer.engine.diagnose.sets import Answer, Asker, Seen, Setting, flips
from minimizer.engine.diagnose.stages import find_part
from minimizer.engine.diagnose.trials import Trials
from minimizer.engine.diagnose.workaround import NONE, Change, Tried, changes, first_that_helps
from minimizer.engine.journal import Journal
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.report.culprit import Culprit
from minimizer.report.model import Blame, Flag, Workaround

DIAGNOSE_SECONDS = 90.0
"""Most seconds for a diagnosis on a machine with idle cores; a tenth of the budget if that is less."""


class Original(Protocol):
    """Runs the user's own script with a change."""

    def run(self, text: str) -> Tried:
        """Run it with a changed text."""

    def effect(self, text: str) -> Effect | None:
        """Measure the effect of a changed text on what is compiled; None if it cannot be measured."""

    def passes_without(self, parts: list[str]) -> bool:
        """Whether it passes unchanged, with these parts of the compiler off."""


@dataclass(frozen=True)
class Patient:
    """The patient of a diagnosis: trials of the minimal program, and the script that it came from.

    ``repeats``: passes in a row that count as one pass, for a flaky failure.
    """

    trials: Trials
    original: Original
    script: Path
    repeats: int = 1


def diagnose(patient: Patient, journal: Journal, *, seconds: float) -> None:
    """Fill in ``blame``, ``flags`` and ``workaround`` of the report, and nothing else, for up to ``seconds``."""
    try:
        with journal.clock.within(seconds):
            _Diagnosis(patient, journal).run()
    except BudgetExceeded:
        journal.note(f"The diagnosis ran out of its time ({seconds:.0f} s at most): what it found until then holds.")
    except SyntaxError:
        journal.note(f"No workaround was tried on the script: {UNPARSED}.")
    except (ChildFailed, OSError) as error:  # a script may have removed itself
        journal.note(f"The diagnosis was cut short: {error}")


class _Diagnosis:
    def __init__(self, patient: Patient, journal: Journal) -> None:
        self._patient, self._journal, self._report = patient, journal, journal.report
        self._helped: Change | None = None

    def run(self) -> None:
        """Take every step in order; each writes its findings to the report."""
        report, patient = self._report, self._patient
        assert report.failure is not None
        with self._half():
            report.blame = find_part(patient.trials, report.failure.stage, repeats=patient.repeats)
        self._tell_blame()
        culprit = report.culprits[0] if report.culprits else Culprit()
        with tokenize.open(patient.script) as file:  # knows the encoding that the script declares
            text = file.read()
        found = self._sweep(text)
        script = patient.script.name
        self._try(
            text,
            changes(text, culprit=culprit, blame=report.blame, flips=found, ladder=report.ladder, script=script),
        )
        if report.blame is not None and report.blame.items:
            report.blame.confirmed_on_script = patient.original.passes_without(report.blame.items)
        if report.workaround is None:
            report.workaround = Workaround(code="", verified=False, what=NONE)
        elif self._helped is not None and (effect := patient.original.effect(self._helped.pasted.text)) is not None:
            effect.tell(report.workaround, culprit.module)

    @contextmanager
    def _half(self) -> Iterator[None]:
        """Limit a search to half of the time left: a workaround is worth more than a complete answer."""
        with suppress(BudgetExceeded), self._journal.clock.within(self._journal.clock.left / 2):
            yield

    def _tell_blame(self) -> None:
        report = self._report
        if report.blame is None:
            self._journal.note(
                "Ran out of time looking for the part of the compiler to blame: a larger --budget may find it."
            )
            return
        if report.culprits and report.blame.items:
            _tell(report.culprits[0], report.blame)
        self._journal.event("blame", blame=report.blame.model_dump(mode="json"))

    def _sweep(self, text: str) -> list[Turned]:
        """Change each setting, and return those that remove the failure."""
        trials, report = self._patient.trials, self._report
        knobs = self._knobs(text)
        by_line = {knob.line: knob for knob in knobs}
        found: list[Turned] = []

        def ask(settings: Sequence[Setting]) -> list[Seen]:
            return trials([with_headers(setting, knobs) for setting in settings])

        def tell(line: str, answer: Answer) -> None:
            knob = by_line[line]
            report.flags.append(Flag(name=knob.knob.name, value=knob.value, outcome=OUTCOMES[answer]))
            if answer is Answer.PASSES:
                found.append(knob)

        with self._half():
            flips(Asker(ask, self._patient.repeats), groups(knobs), tell)
        return found

    def _knobs(self, text: str) -> list[Turned]:
        """What is turned: settings of the stage, then those that the error names, then those that the script has changed."""
        failure, trials = self._report.failure, self._patient.trials
        assert failure is not None
        named, own = named_in(f"{failure.message}\n{failure.traceback}"), set_in(text)
        values = trials.values([*names(), *named, *own, *map(default_of, own)])
        device = self._report.environment.get("device", "cpu")
        read = [*advised(named, values), *put_back(own, values)]
        lines = {knob.line for knob in read}
        return [*(knob for knob in turned(values, device, failure.stage) if knob.line not in lines), *read]

    def _try(self, text: str, candidates: Iterator[Change]) -> None:
        report = self._report
        self._helped = first_that_helps(candidates, self._patient.original.run)
        if self._helped is not None:
            pasted = self._helped.pasted
            report.workaround = Workaround(
                code=pasted.code,
                verified=True,
                where=pasted.where,
                diff=diff(text, pasted.text, self._patient.script.name),
                what=self._helped.what,
            )
            self._journal.event("workaround", workaround=report.workaround.model_dump(mode="json"))


def _tell(culprit: Culprit, blame: Blame) -> None:
    """What a culprit of a graph has to do with the failure; for one of a script the operator, where experiments know it and it does not."""
    if not culprit.what and (culprit.nodes or not culprit.ops):
        culprit.what = blame.what
    blamed = [found[1] for item in blame.items if (found := OPERATOR.search(item))]
    if blame.confirmed and blamed and not culprit.operators:
        culprit.ops = list(dict.fromkeys(blamed))
        culprit.nodes = [name.partition(".")[2] for name in culprit.ops]


OPERATOR = re.compile(r"/(aten\.\w+)")
"""An operator in the name of a part of the compiler."""
OUTCOMES = {Answer.FAILS: "fails", Answer.PASSES: "passes", Answer.OTHER: "fails otherwise"}

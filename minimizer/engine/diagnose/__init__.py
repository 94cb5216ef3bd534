"""Diagnosis: the part of the compiler to blame, and a workaround. Runs on a verified repro; the verdict stays.

``find_part`` switches parts of the failing stage off and the sweep changes settings, both on the minimal program. A
change that removes the failure becomes a workaround if the user's own script passes with it.
"""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from minimizer.engine.budget.patience import HALF
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
from minimizer.engine.diagnose.paste import Pasted, diff, disable_module
from minimizer.engine.diagnose.sets import Answer, Asker, Seen, Setting, flips
from minimizer.engine.diagnose.stages import OUTCOMES, each_kind_off, find_part
from minimizer.engine.diagnose.trials import Trials
from minimizer.engine.diagnose.workaround import NONE, Tried, changes, first_that_helps, is_python
from minimizer.engine.findings import Diagnosed, Failing
from minimizer.engine.fold import blamed
from minimizer.engine.journal import Journal
from minimizer.engine.user_script.syntax import UNPARSED
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.report.culprit import Culprit
from minimizer.report.model import Ablated, Blame, Flag, Workaround


class Original(Protocol):
    """Runs the user's own script with a change."""

    def run(self, text: str) -> Tried:
        """Run it with a changed text."""

    def effect(self, text: str) -> Effect | None:
        """Measure the effect of a changed text on the compiled code; None if it cannot be measured."""

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


def diagnose(
    patient: Patient, failing: Failing, journal: Journal, *, seconds: float, keep: Callable[[Diagnosed], None]
) -> None:
    """Find the part of the compiler to blame and a workaround, for up to ``seconds``; ``keep`` takes what is known, at each step."""
    try:
        with journal.clock.within(seconds):
            _Diagnosis(patient, failing, journal, keep).run()
    except BudgetExceeded:
        journal.note(f"The diagnosis ran out of its time ({seconds:.0f} s at most): what it found until then holds.")
    except SyntaxError:
        journal.note(f"No workaround was tried on the script: {UNPARSED}.")
    except (ChildFailed, OSError) as error:  # a script may have removed itself
        journal.note(f"The diagnosis was cut short: {error}")


class _Diagnosis:
    def __init__(self, patient: Patient, failing: Failing, journal: Journal, keep: Callable[[Diagnosed], None]) -> None:
        self._patient, self._failing, self._journal, self._keep = patient, failing, journal, keep
        self._found = Diagnosed()

    def run(self) -> None:
        """Take the steps in order; each adds to the findings."""
        patient, culprit = self._patient, self._failing.culprit
        blame = self._blame()
        if blame is not None and blame.items:
            culprit = blamed(culprit, blame)
        with tokenize.open(patient.script) as file:  # reads the encoding that the script declares
            text = file.read()
        runs: dict[str, Tried] = {}

        def run(changed: str) -> Tried:
            if changed not in runs:
                runs[changed] = patient.original.run(changed)
            return runs[changed]

        try:
            self._on_script(text, culprit, blame, run)
        except SyntaxError:
            self._switch_kinds_off()  # does not need the text
            raise
        self._switch_kinds_off()
        self._leave_to_eager(text, culprit.module, run)

    def _on_script(self, text: str, culprit: Culprit, blame: Blame | None, run: Callable[[str], Tried]) -> None:
        """Find a workaround, and run the script without the part to blame."""
        patient, flips = self._patient, self._sweep(text)
        tried = changes(
            text, culprit=culprit, blame=blame, flips=flips, ladder=self._failing.ladder, script=patient.script.name
        )
        helped = first_that_helps(tried, run)
        if helped is not None:
            self._add(workaround=self._workaround(text, helped.pasted, helped.what))
        if blame is not None and blame.items:
            is_confirmed = patient.original.passes_without(blame.items)
            self._add(blame=blame.model_copy(update={"confirmed_on_script": is_confirmed}))
        if helped is None:
            self._add(workaround=Workaround(code="", verified=False, what=NONE))
        elif (effect := patient.original.effect(helped.pasted.text)) is not None:
            assert self._found.workaround is not None
            self._add(workaround=effect.told(self._found.workaround, culprit.module))

    def _add(self, **found: Any) -> None:
        """Add findings, and pass them on."""
        self._found = replace(self._found, **found)
        self._keep(self._found)

    @contextmanager
    def _half(self) -> Iterator[None]:
        """Limit a search to half of the time left: a workaround is worth more than a complete answer."""
        with suppress(BudgetExceeded), self._journal.clock.within(HALF * self._journal.clock.left):
            yield

    def _blame(self) -> Blame | None:
        """The part of the compiler to blame; None if the time ended before it was found."""
        with self._half():
            blame = find_part(self._patient.trials, self._failing.stage, repeats=self._patient.repeats)
            self._add(blame=blame)
            self._journal.event("blame", blame=blame.model_dump(mode="json"))
            return blame
        self._journal.note(
            "Ran out of time looking for the part of the compiler to blame: a larger --budget may find it."
        )
        return None

    def _sweep(self, text: str) -> list[Turned]:
        """Change each setting, and return those that remove the failure."""
        trials = self._patient.trials
        knobs = self._knobs(text)
        by_line = {knob.line: knob for knob in knobs}
        found: list[Turned] = []

        def ask(settings: Sequence[Setting]) -> list[Seen]:
            return trials([with_headers(setting, knobs) for setting in settings])

        def tell(line: str, answer: Answer) -> None:
            knob = by_line[line]
            flag = Flag(name=knob.knob.name, value=knob.value, outcome=OUTCOMES[answer])
            self._add(flags=(*self._found.flags, flag))
            if answer is Answer.PASSES:
                found.append(knob)

        with self._half():
            flips(Asker(ask, self._patient.repeats), groups(knobs), tell)
        return found

    def _switch_kinds_off(self) -> None:
        """Run the minimal program with each kind of the stage's parts off."""
        with self._half():
            self._add(
                ablation=(*each_kind_off(self._patient.trials, self._failing.stage, repeats=self._patient.repeats),)
            )

    def _leave_to_eager(self, text: str, module: str, run: Callable[[str], Tried]) -> None:
        """Run the script with the culprit's module in eager, if its text shows how.

        Only a pass with something still compiled counts: the change itself, or lack of time, may make it fail.
        """
        changed = disable_module(text, module) if module else None
        if changed is not None and is_python(changed.text):
            with self._half():
                ended = run(changed.text)
                if ended.passes and ended.frames:
                    one = Ablated(what=module, of="script", outcome=OUTCOMES[Answer.PASSES])
                    self._add(ablation=(*self._found.ablation, one))

    def _knobs(self, text: str) -> list[Turned]:
        """The settings to change: those of the stage, then those named by the error, then those changed by the script."""
        failing, trials = self._failing, self._patient.trials
        named, own = named_in(failing.said), list(dict.fromkeys([*set_in(text), *set_in(trials.setup)]))
        values = trials.values([*names(), *named, *own, *map(default_of, own)])
        read = [*advised(named, values), *put_back(own, values)]
        lines = {knob.line for knob in read}
        return [*(knob for knob in turned(values, failing.device, failing.stage) if knob.line not in lines), *read]

    def _workaround(self, text: str, pasted: Pasted, what: str) -> Workaround:
        """A workaround with which the script passes, sent as an event."""
        change = diff(text, pasted.text, self._patient.script.name)
        workaround = Workaround(code=pasted.code, verified=True, where=pasted.where, diff=change, what=what)
        self._journal.event("workaround", workaround=workaround.model_dump(mode="json"))
        return workaround

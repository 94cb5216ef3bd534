"""Tries a `Setting` on the minimal program, or on the reduced script where no graph carries the failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose.ladder import on_backend
from minimizer.engine.diagnose.paste import paste
from minimizer.engine.diagnose.sets import Answer, Seen, Setting
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.python import Rerun
from minimizer.inside.questions import SettingsRequest, Switches, TrialRequest
from minimizer.vocabulary import Kind


class Trials(Protocol):
    """A program or script that settings are tried on."""

    @property
    def setup(self) -> str:
        """Source text in which the settings of the compiler stand that it runs under."""

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        """The answer for each setting."""

    def values(self, expressions: Sequence[str]) -> dict[str, str]:
        """The values of expressions after the setup, as text; without those that this torch does not have."""

    def under(self, backend: str) -> Trials:
        """The same trials with another backend."""


@dataclass(frozen=True)
class ProgramTrials:
    """Trials of a program, judged by the oracle that it was reduced with."""

    program: Program
    oracle: Oracle

    @property
    def setup(self) -> str:
        return "\n".join(self.program.setup)

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        requests = [self._request(setting) for setting in settings]
        return [Seen(self._answer(outcome), outcome.parts) for outcome in self.oracle.answer(requests)]

    def values(self, expressions: Sequence[str]) -> dict[str, str]:
        request = SettingsRequest(setup=self.oracle.request(self.program).setup, expressions=expressions)
        (outcome,) = self.oracle.executor.judge([request], timeout=self.oracle.timeout)
        return outcome.values

    def under(self, backend: str) -> ProgramTrials:
        return replace(self, program=on_backend(self.program, backend))

    def _request(self, setting: Setting) -> TrialRequest:
        program = replace(self.program, setup=(*self.program.setup, *setting.lines))
        return replace(self.oracle.request(program), switches=switches(setting))

    def _answer(self, outcome: Outcome) -> Answer:
        if self.oracle.shows(outcome):
            return Answer.FAILS
        is_missing = any(accepted.kind is Kind.MISSING_ERROR for accepted in self.oracle.accepts)
        return Answer.PASSES if outcome.ending is (Ending.EAGER_ERROR if is_missing else Ending.SAME) else Answer.OTHER


@dataclass(frozen=True)
class ScriptTrials:
    """Trials of a script, reduced to ``text``, that fails like ``target``."""

    text: str
    target: Signature
    rerun: Rerun
    backend: str | None = None

    @property
    def setup(self) -> str:
        return self.text

    def __call__(self, settings: Sequence[Setting]) -> list[Seen]:
        changed = [(paste(self.text, "\n".join(s.lines)).text, switches(s)) for s in settings]
        outcomes = self.rerun.switched(changed, backend=self.backend)
        return [Seen(self._answer(*ended), ended[1].parts) for ended in outcomes]

    def values(self, expressions: Sequence[str]) -> dict[str, str]:
        return self.rerun.values(expressions)

    def under(self, backend: str) -> ScriptTrials:
        return replace(self, backend=backend)

    def _answer(self, signature: Signature | None, outcome: Outcome) -> Answer:
        if signature is not None and self.target.matches(signature):
            return Answer.FAILS
        return Answer.PASSES if outcome.ending is Ending.SAME else Answer.OTHER


def switches(setting: Setting) -> Switches:
    """The parts of the compiler that a setting switches."""
    return Switches(sorted(setting.off), {kind: sorted(on) for kind, on in setting.only})

"""The observations of plain runs: a pair with and without the compiler, and further ones where a rule needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from minimizer.engine.child.trouble import signal_of
from minimizer.engine.survey.cases import Settled, is_own_check
from minimizer.engine.survey.dispute import Ground, ground
from minimizer.engine.survey.plain_runs import End, PlainRuns, is_of_compiler
from minimizer.engine.survey.verdicts import denied, disputed
from minimizer.engine.survey.ways import COMPILED, FORCED, SETTINGS
from minimizer.report.excused import Excused, excused
from minimizer.vocabulary import Kind, Reason, Status


@dataclass(frozen=True)
class PlainPair:
    """A plain run with the compiler and one without, of a script whose verdict is ``found``."""

    found: Settled
    runs: PlainRuns
    compiled: End
    disabled: End

    @cached_property
    def eager(self) -> End:
        """The end of the script in eager: by the stance, unless the script itself sets one, or that run is
        inconclusive.
        """
        if "set_stance" in self.runs.text:
            return self.disabled
        (forced,) = self.runs.ask([FORCED], self.compiled, self.disabled)
        if not forced.is_known:
            return self.disabled
        if not forced.is_like(self.disabled):
            self.runs.note(
                f"The script looks at the compiler: with TORCHDYNAMO_DISABLE=1 it ends otherwise ({self.disabled.line}) than with the stance "
                f"force_eager ({forced.line}). The second is taken for what eager does."
            )
        return forced

    @cached_property
    def second(self) -> tuple[End, End]:
        """A second pair, with the compiler and in eager."""
        compiled, eager = self.runs.ask([COMPILED, self.eager.way], self.compiled, self.eager)
        return compiled, eager

    @property
    def failing(self) -> End:
        """The run that fails, where only one does."""
        return self.eager if self.compiled.passes else self.compiled

    @property
    def kind(self) -> Kind:
        """The kind of failure, if the compiled run ends differently from the eager one."""
        error = self.compiled.error
        if self.compiled.passes:
            return Kind.MISSING_ERROR
        if error is None:
            return Kind.RUNTIME_ERROR if signal_of(self.compiled.status) is None else Kind.CRASH
        if is_of_compiler(error):
            return Kind.COMPILE_ERROR
        return Kind.WRONG_OUTPUT if error.type == "AssertionError" else Kind.RUNTIME_ERROR

    @property
    def denial(self) -> str:
        """Advice on what the sandbox denies the script in eager; empty if nothing."""
        return denied(self.eager.error, self.runs.place) if self.eager.error is not None else ""

    def is_steady(self) -> bool:
        """Whether the second pair ends like the first."""
        return self.second[0].is_like(self.compiled) and self.second[1].is_like(self.eager)

    def fails_in_both(self) -> bool:
        return not (self.compiled.passes or self.eager.passes)

    def is_about_compiler(self) -> bool:
        """Whether the script fails in eager only, by a check of its own outside of its compiled functions."""
        seen = self.eager.traceback if self.compiled.passes else None
        return seen is not None and is_own_check(seen.error) and not seen.in_compiled

    def reads_compiler(self) -> bool:
        """Whether the failing check reads a clock or a counter of the compiler."""
        error = self.failing.error
        return error is not None and ground(self.runs.text, error) is Ground.READING

    def endless(self) -> Settled | None:
        """The verdict if a second run with the compiler does not end either."""
        (again,) = self.runs.ask([COMPILED], self.compiled)
        if not again.outlasts(self.disabled):
            return None
        summary = (
            f"Run by itself, the script has not ended after {again.seconds:.0f} s with the compiler, in 2 of 2 runs, and ends well "
            f"after {self.disabled.seconds:.0f} s without it. It hangs, or takes as long to compile: a larger --budget waits for longer. "
            f"What was compared before: {self.found.summary}"
        )
        return self._unexplained(summary, Kind.HANG)

    def excused_as_unknown(self) -> Settled:
        end = self.disabled if self.compiled.is_known else self.compiled
        return self._excused(excused("plain_runs_unknown", end.said), f"The {end.way.name}, says nothing: {end.said}.")

    def excused_as_about_compiler(self) -> Settled:
        line = self.eager.line
        note = f"Without the compiler a check of the script's own fails ({line}): it is about the compiler."
        return self._excused(excused("about_compiler", line), note)

    def excused_as_unsteady(self) -> Settled:
        note = (
            f"Plain runs of the script did not end in the same way every time: with the compiler {self.compiled.line}, then "
            f"{self.second[0].line}; without it {self.eager.line}, then {self.second[1].line}."
        )
        return self._excused(excused("plain_runs_unsteady", self.compiled.line), note)

    def fails_in_eager(self, reason: Reason, advice: str) -> Settled:
        end = self.eager
        also = "" if self.compiled.is_like(end) else f" With the compiler: {self.compiled.line}."
        summary = f"Run by itself, the script fails without the compiler too: {end.line}.{also} {advice}"
        return replace(
            self.found, status=Status.FAILED, reason=reason, summary=summary, exception=end.error, traceback=end.text
        )

    def disputed(self) -> Settled:
        assert self.failing.error is not None
        verdict = disputed(self.failing.error, self.found.checked)
        return replace(verdict, failed=2, runs=2, traceback=self.failing.text)

    def missing_error(self) -> Settled:
        return self._unexplained_end(
            f"The error that eager raises is missing when compiled ({self.eager.line}): run by itself, the script fails in 2 of 2 runs "
            "without the compiler, and ends well in 2 of 2 with it."
        )

    def fails_compiled(self) -> Settled:
        how = f"Run by itself, the script fails with the compiler in 2 of 2 runs ({self.compiled.line}), and in none of 2 without it."
        return self._unexplained_end(how, f" {self._taken_away_by()}")

    def _taken_away_by(self) -> str:
        """A sentence on our settings that remove the failure, each added alone to a plain run."""
        ways = [replace(way, name=f"plain run, compiled, with {way.name}") for way in SETTINGS]
        ends = self.runs.ask(ways, self.compiled, self.eager)
        cures = [way.name for way, end in zip(SETTINGS, ends, strict=True) if end.passes]
        if cures:
            return f"What takes it away, added alone to such a run: {', '.join(cures)}."
        unknown = [way.name for way, end in zip(SETTINGS, ends, strict=True) if not end.is_known]
        rest = f"; {', '.join(unknown)} could not be tried" if unknown else ""
        return f"None of our settings ({', '.join(way.name for way in SETTINGS)}) takes it away by itself{rest}."

    def _excused(self, excuse: Excused, note: str) -> Settled:
        """The verdict unchanged, with an excuse added."""
        self.runs.note(note)
        return replace(self.found, excused=(*self.found.excused, excuse))

    def _unexplained_end(self, how: str, tried: str = "") -> Settled:
        is_seen = self.found.status is not Status.HEALTHY
        known = "No compiled graph fails by itself" if is_seen else "Our own runs of it show no failure"
        verdict = self._unexplained(f"{how} {known}, and nothing else shows why.{tried}", self.kind)
        return replace(verdict, exception=self.failing.error, traceback=self.failing.text)

    def _unexplained(self, summary: str, kind: Kind) -> Settled:
        status, reason = Status.PARTIAL, Reason.UNEXPLAINED
        return replace(self.found, status=status, reason=reason, summary=summary, kind=kind, failed=2, runs=2)

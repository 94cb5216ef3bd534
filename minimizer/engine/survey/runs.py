"""Runs the user's script, compiled or eager: the first survey and every later rerun; keeps plans and times.

`triage` judges the result of a run, and `known_failure` says whether a later one shows the same failure.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.budget.patience import (
    EAGER_SECONDS,
    MOST_COST,
    QUIET,
    RUN_START_SECONDS,
    SURVEY_PATIENCE,
    SURVEY_SECONDS,
    SURVEY_SHARE,
    WAITS_SECONDS,
)
from minimizer.engine.child import protocol, rank_stacks, stacks
from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.rank_stacks import RankState
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.trouble import Again
from minimizer.engine.child.watchdog import CROWDED, Limits, Silence, Watchdog, crowding
from minimizer.engine.survey.cases import (
    checked_of,
)
from minimizer.engine.survey.coverage import Extent
from minimizer.engine.survey.early_end import doing, larger
from minimizer.engine.survey.rank_plans import RankPlans
from minimizer.inside.questions import SurveyRequest, TrainingRequest
from minimizer.report.excused import Excused, excused, merged
from minimizer.vocabulary import counted

RANKS = "ranks"
"""The folder for the stacks of unwatched ranks."""
COLD = ("compile_seconds", "frames", "recompiled", "compilations", "seconds")
"""The fields of a script's health that come from a run with cold caches: compile times, and that run's whole time."""


@dataclass(frozen=True)
class Pace:
    """Seconds of a run of the script, those spent on comparison, and the number of compared calls."""

    seconds: float
    comparing: float
    compared: int

    @property
    def by_itself(self) -> float:
        """Seconds without the comparison."""
        return self.seconds - self.comparing


@dataclass(frozen=True)
class TimedRun:
    """A run of the script with timed compiled code; ``finished`` is None if a failing call was held."""

    health: protocol.Health
    finished: protocol.Finished | None = None

    @property
    def may_train(self) -> bool:
        """Whether the script may run a backward: it did, or the run did not complete."""
        is_whole = self.finished is not None and not self.finished.stopped
        return not is_whole or self.health.backwards != 0


class Surveys:
    """The runs of one script.

    ``hang_after``, and ``budget`` (of the whole job): seconds. ``steps``: most calls of each key to compare, None for
    no limit. ``values``: whether to compare values. ``nproc``: the number of ranks.
    """

    def __init__(
        self,
        executor: Executor,
        script: Path,
        *,
        args: list[str],
        steps: int | None,
        hang_after: float,
        values: bool,
        budget: float = 3 * SURVEY_PATIENCE,
        nproc: int = 1,
    ) -> None:
        self._executor, self.script, self.values = executor, script, values
        self._args, self._nproc, self._steps = args, nproc, steps
        self.plan = RankPlans(steps, nproc)
        self._listed: dict[int, list[int]] | None = None
        """The calls for runs to compare, by graph; None before the first run, which chooses them by rule."""
        self._passed_by: list[int] = []
        self._paces: list[Pace] = []
        share = budget * SURVEY_SHARE
        waits = WAITS_SECONDS if nproc > 1 else math.inf
        self._limits = Limits(
            floor=hang_after, waits=waits, quiet=QUIET, patience=min(SURVEY_PATIENCE, share), share=share
        )
        self._watchdog: Watchdog | None = None
        self._excused: list[protocol.Excused] = []
        """The excuses of all completed runs."""
        self._left_kernels = False
        """Whether a run was ended while it compiled: its kernels are in the cache."""
        self.first: protocol.Health | None = None
        """Dynamo's metrics of the first completed run; None if there is none."""
        self.cold: protocol.Health | None = None
        """The same, if no earlier run left kernels: its compile times are those of a cold cache."""
        self.crowding = 1.0
        """The possible slowdown by the machine's load when the compile times of `health` were measured."""

    @property
    def doing(self) -> str:
        """The activity of the last run, by its last phase, in words."""
        return doing(self._watchdog.phase) if self._watchdog is not None else "running the script without the compiler"

    def out_of_time(self, survey: Survey, silence: Silence) -> str:
        """The summary for a run killed at the end of its share of the budget."""
        checked = checked_of(survey.phase)
        compared = (
            f"{counted(checked.calls, 'call')} had been compared, without a difference"
            if checked.calls
            else "no call had been compared"
        )
        where = f", at {silence.users_line}" if silence.users_line else f", in {silence.text}" if silence.chain else ""
        if silence.is_among_ranks:
            where = f": {silence.of_ranks(self.plan.rank)}"
        return self.share_is_over(f"while {doing(survey.phase)}{where}", compared)

    def _other_ranks(self) -> Sequence[RankState]:
        place = self._executor.place
        return rank_stacks.others(place.scratch, place.folder(RANKS), self._nproc, self.plan.rank)

    def share_is_over(self, what: str, compared: str) -> str:
        """The summary for a run stopped after its share of the budget, with a budget that allows more."""
        budget = self._limits.share / SURVEY_SHARE
        more = larger(budget, 0.0)
        hint = f"; --budget {more} gives it {more * SURVEY_SHARE:.0f} s" if more is not None else ""
        share = f"{self._limits.share:.0f} s, the third of the budget that a run of the script may take"
        return f"Stopped after {share}, {what}: {compared}{hint}."

    @property
    def is_crowded(self) -> bool:
        """Whether the machine was crowded then."""
        return self.crowding > CROWDED

    @property
    def place(self) -> Place:
        """The place that the runs use."""
        return self._executor.place

    @property
    def args(self) -> list[str]:
        """The arguments of the script's command line."""
        return self._args

    def asked(self, request: TrainingRequest, *, timeout: float) -> Outcome:
        """The outcome of a run of the script other than a survey."""
        (outcome,) = self._executor.judge([request], timeout=timeout)
        return outcome

    @property
    def text(self) -> str:
        """The script's text; empty if the file is gone."""
        try:
            return self.script.read_text(errors="replace")
        except OSError:
            return ""

    def extent(self, finished: protocol.Finished) -> Extent:
        """The extent of a run, and the budget with which it would have gone further."""
        checked, seconds = finished.checked, finished.seconds or 0.0
        each = (finished.comparing_seconds or 0.0) / max(1, checked.calls)
        all_seconds = seconds + each * (checked.calls_made - checked.planned)
        return Extent(
            most_calls=self.plan.most_calls,
            all_fits=self.plan.is_complete if self._steps is None else all_seconds < self._limits.patience,
            is_planned=self._steps is None,
            stopped_after=seconds if finished.stopped else None,
            budget=round(SURVEY_PATIENCE / SURVEY_SHARE)
            if self._is_late(finished) and self._limits.patience < SURVEY_PATIENCE
            else None,
        )

    def checked(self, finished: protocol.Finished) -> protocol.Checked:
        """The coverage of all runs up to this one; the part of the script after a stop counts as not compared."""
        left_out = [*self.plan.left_out(), *finished.checked.not_compared]
        counts = self.plan.counts() if finished.calls else {}
        checked = finished.checked.model_copy(update=counts)
        rules = [*merged(self._excused, finished.checked.excused), *self._excuses(finished, checked)]
        checked = checked.model_copy(update={"not_compared": left_out, "excused": rules})
        if not finished.stopped:
            return checked
        later = f"what comes {self._stop(finished)}"
        return checked.model_copy(update={"not_compared": [later, *checked.not_compared]})

    def _excuses(self, finished: protocol.Finished, checked: protocol.Checked) -> list[Excused]:
        """What all runs together left out, as entries of the registry."""
        found = [excused("ranks_unwatched", one) for one in self.plan.left_out()]
        if not self.values:
            found.append(excused("values_not_asked"))
        elif checked.calls < checked.calls_made:
            found.append(excused("calls_sampled", count=checked.calls_made - checked.calls))
        if finished.stopped:
            found.append(excused("stopped_early", self._stop(finished)))
        return found

    def _stop(self, finished: protocol.Finished) -> str:
        """Where and why a run was stopped, in words."""
        why = "its share of the budget was over" if self._is_late(finished) else "enough was compared"
        return f"after {finished.seconds or 0.0:.0f} s: the script was stopped there, as {why}"

    def _is_late(self, finished: protocol.Finished) -> bool:
        """Whether a run was stopped for lack of time; its own clock starts a little later than ours."""
        return finished.stopped and (finished.seconds or 0.0) + RUN_START_SECONDS >= self._limits.patience

    def next(self, *, caches: bool | str = False) -> Survey:
        """A run that compares the next calls of the coverage plan; with several ranks, those of the next rank.

        ``caches``: let it read and write the compiler's caches on disk. The compile times of the first completed run
        are kept: they are those of a cold cache. A run whose time ended while it compiled counts as none.
        """
        if self._paces:
            self.plan.turn()
            self._listed = self.plan.next_calls(self._affordable_calls)
        survey = self.run(replace(self.request, caches=caches))
        if is_cut_while_compiling(survey):
            self._left_kernels = True
        elif (finished := survey.finished) is not None:
            self.plan.after(finished.calls)
            self._excused = merged(self._excused, finished.checked.excused)
            if self.first is None:
                self.first, self.crowding = finished.health, crowding()
                self.cold = None if self._left_kernels else self.first
            compared = sum(len(graph.compared) for graph in finished.calls)
            self._paces.append(Pace(finished.seconds or 0.0, finished.comparing_seconds or 0.0, compared))
        return survey

    def aim_at(self, graph: int, call: int) -> None:
        """Compare only this call of a graph in later runs."""
        self._listed = {graph: [call]}

    def pass_by(self, graphs: Sequence[int]) -> None:
        """Compare no calls of these graphs in later runs."""
        self._passed_by = [*graphs]

    @property
    def affords_another(self) -> bool:
        """Whether one more run keeps a healthy verdict within `MOST_COST`."""
        if not self._paces or not self._plain_seconds:  # no times yet
            return True
        expected = self._paces[-1].by_itself + self._plain_seconds
        return sum(pace.seconds for pace in self._paces) + expected <= MOST_COST * self._plain_seconds

    @property
    def _plain_seconds(self) -> float:
        """Seconds of the first run without the comparison, on a cold cache."""
        return self._paces[0].by_itself

    @property
    def _affordable_calls(self) -> int:
        """The number of calls that a run may compare without more than doubling its time."""
        if self._steps is not None:
            return sys.maxsize
        each = sum(pace.comparing for pace in self._paces) / max(1, sum(pace.compared for pace in self._paces))
        return max(1, int(min(self._plain_seconds, self._limits.patience) / each)) if each else sys.maxsize

    def run(
        self,
        request: SurveyRequest | None = None,
        *,
        seconds: float = math.inf,
        over: threading.Event | None = None,
    ) -> Survey:
        """A compiled run of at most ``seconds``, stopped as soon as ``over`` is set: `request`, or a change of it."""
        request = request or self.request
        # A run that has to reach a certain call must not be stopped just before it.
        longer = 2.0 if request.hold is not None else 1.0
        patience, share = min(seconds, longer * self._limits.patience), min(seconds, longer * self._limits.share)
        limits = replace(self._limits, patience=patience, share=share)
        return self._unkilled(request, SURVEY_SECONDS, limits, over)

    def eager(self, *, by_stance: bool = False) -> Survey:
        """An eager run, by TORCHDYNAMO_DISABLE or, since a script may read that variable, by the stance
        ``force_eager``.
        """
        eager = replace(self.request, compile=False, values=False, steps=None, calls=None, stance=by_stance)
        waits = Limits(floor=math.inf, waits=WAITS_SECONDS) if self._nproc > 1 else None
        return self._unkilled(eager, EAGER_SECONDS, waits)

    def _unkilled(
        self,
        request: SurveyRequest,
        timeout: float,
        limits: Limits | None = None,
        over: threading.Event | None = None,
    ) -> Survey:
        """A run, repeated once if it was killed: a killer outside of the script seldom strikes twice."""
        survey = self._watched(request, timeout, limits, over)
        return self._watched(request, timeout, limits, over) if survey.rule.again is Again.SAME else survey

    def _watched(
        self, request: SurveyRequest, timeout: float, limits: Limits | None, over: threading.Event | None
    ) -> Survey:
        self._watchdog = Watchdog(limits, others=self._other_ranks) if limits is not None else None
        return self._executor.survey(request, timeout=timeout, watchdog=self._watchdog, over=over)

    @property
    def request(self) -> SurveyRequest:
        """A compiled run that compares the next planned calls."""
        return SurveyRequest(
            script=str(self.script),
            args=self._args,
            nproc=self._nproc,
            rank=self.plan.rank,
            stacks=str(self._executor.place.folder(RANKS)) if self._nproc > 1 else None,
            values=self.values,
            steps=self._steps,
            calls=self._listed,
            passed_by=self._passed_by,
        )

    def health(self, *, trace: str) -> TimedRun | None:
        """Run the script once more, at low priority, and time its compiled code; None if the run died.

        The compile times are those of a cold cache: from the first completed run, or else from this run with a fresh
        cache. ``trace``: a folder for ``TORCH_TRACE``.
        """
        cold = {} if self.cold else {"TORCHINDUCTOR_CACHE_DIR": str(self._executor.fresh_cache())}
        survey = self.run(replace(self.request, values=False, measure=True, trace=trace, nice=10, environ=cold))
        if self.cold is None:
            self.crowding = crowding()
        if survey.held is not None:
            survey.close()
            health = survey.held.failure.health
            return TimedRun(health) if health is not None else None
        if survey.finished is None or (found := survey.finished.health) is None:
            return None
        return TimedRun(self._with_cold(found), survey.finished)

    def costs(self) -> protocol.Health | None:
        """The cost of a timed run of the script, with the compile times of a cold cache; None if it does not complete."""
        finished = self.timed(cold=self.cold is None)
        return self._with_cold(finished.health) if finished is not None and finished.health is not None else None

    def _with_cold(self, found: protocol.Health) -> protocol.Health:
        """The health of a run, with known figures of a cold cache in place of its own."""
        if self.cold is None:
            return found
        return found.model_copy(update={name: getattr(self.cold, name) for name in COLD})

    def timed(self, text: str | None = None, *, cold: bool = False) -> protocol.Finished | None:
        """A timed run, with another text if given; None if it does not complete.

        ``cold``: with an empty cache of its own.
        """
        environ = {"TORCHINDUCTOR_CACHE_DIR": str(self._executor.fresh_cache())} if cold else {}
        survey = self.run(replace(self.request, values=False, measure=True, text=text, environ=environ))
        if survey.held is not None:
            survey.close()
        finished = survey.finished
        came_to_its_end = finished is not None and finished.exception is None and not finished.stopped
        return finished if came_to_its_end else None


def saw_nothing(finished: protocol.Finished) -> bool:
    """Whether a run was stopped before it compared any call."""
    return finished.stopped and not finished.checked.calls


def is_cut_while_compiling(survey: Survey) -> bool:
    """Whether the time of a run ended while it compiled, or with compiled graphs and before it had compared a call."""
    if (finished := survey.finished) is not None:
        made, planned = finished.checked.calls_made, finished.checked.planned
        # Of calls of which none is planned, no further run can compare one either.
        return saw_nothing(finished) and finished.checked.graphs > 0 and (planned > 0 or not made)
    silence = survey.silence
    if silence is None or not silence.out_of_time:
        return False
    last = stacks.parse(silence.dump) or silence.chain  # samples of several parts of the compiler may share no frame
    checked = survey.phase.checked
    is_unsampled = not last and checked is not None and checked.graphs > 0 and not checked.calls
    return survey.phase.doing == "compile" or is_unsampled or stacks.is_at_compilation(last)

"""Drift over steps: does a training's loss leave eager's, what parts first, and is the cause rounding or a bias?

The noise floor consists of eager runs with every rounding of the captured graphs redrawn. If they part from eager like
the compiled run, the training amplifies rounding (chaos). First, calls of the graphs are examined for biased results
(bias).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.advice.curves import (
    NOTICED,
    VISIBLE,
    Sides,
    are_equal,
    drift,
    is_chaos,
    is_within,
    partings,
    same_steps,
    source_of,
)
from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import (
    CURVE_SECONDS,
    DRIFT_SECONDS,
    DRIFT_SHARE,
    ERRORS_SECONDS,
    ERRORS_SHARE,
    REDRAWN_SHARE,
    TRAINING_SHARE,
)
from minimizer.engine.child.curves import Curve, SignedError
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose.paste import diff, paste
from minimizer.engine.journal import Journal
from minimizer.engine.survey.runs import Surveys
from minimizer.inside.questions import CurveRequest, ErrorsRequest, TrainingRequest
from minimizer.report.culprit import Source
from minimizer.report.drift import Drift
from minimizer.report.finding import Cost, Finding, FindingKind, Remedy
from minimizer.vocabulary import counted

LEAST_STEPS, MOST_STEPS = 8, 5000
REDRAWN, REDRAWN_WITHIN = 8, 2
"""Eager runs with other roundings: if the curves part, and if they do not and only the floor is drawn."""
KEPT_CALLS, KEPT_BYTES = 24, 512 << 20
"""Calls of each graph whose errors are measured, and bytes of their inputs in total."""
EMULATED = "emulate_precision_casts"
NO_TIME = "there was no time for it"
MOST_APART = 1e4
"""In percent of the loss: the capped distance of a curve that ends in NaN."""
Keep = Callable[[Drift, list[Finding]], None]


def examine(surveys: Surveys, script: Path, journal: Journal, keep: Keep) -> None:
    """Compare the losses of a training script; ``keep`` takes partial results, and nothing if no loss is seen.

    Raises:
        BudgetExceeded: a limit other than this step's time is used up.
        ChildFailed: the child went away.
    """
    with suppressing_end_of_time(), journal.clock.within(min(DRIFT_SECONDS, DRIFT_SHARE * journal.clock.left)):
        _Examination(surveys, script, journal, keep).run()
    journal.watch()


@dataclass
class _Examination:
    surveys: Surveys
    script: Path
    journal: Journal
    keep: Keep

    def run(self) -> None:
        eager = self._curve("in eager", compile=False)
        if isinstance(eager, str) or not eager.steps:
            return
        steps = len(eager.steps)
        if steps < LEAST_STEPS:
            self._untold(steps, f"the script calls only {counted(steps, 'backward')} of a loss")
            return
        self._untold(steps, NO_TIME)  # holds if the time ends a run below
        compiled = self._curve("compiled", steps=steps)
        if isinstance(compiled, str) or not same_steps(eager, compiled):
            same = "the compiled run does not take the same steps"
            self._untold(steps, compiled if isinstance(compiled, str) else same)
            return
        sides = Sides(eager, compiled)
        if are_equal(eager, compiled):
            self.keep(drift(sides, "equal", f"The losses of all {steps} steps are equal to the bit."), [])
            return
        again = self._curve("in eager again", compile=False, steps=steps)
        if isinstance(again, str) or not same_steps(eager, again) or not are_equal(eager, again):
            self._untold(steps, again if isinstance(again, str) else "they differ between two runs of eager")
            return
        self._judge(self._with_floor(sides))

    def _with_floor(self, sides: Sides) -> Sides:
        """The runs with as many redrawn ones as there is time for."""
        is_noticed, steps = sides.apart.first(NOTICED) is not None, len(sides.eager.steps)
        with suppressing_end_of_time(), self.journal.clock.within(REDRAWN_SHARE * self.journal.clock.left):
            for seed in range(1, (REDRAWN if is_noticed else REDRAWN_WITHIN) + 1):
                run = self._curve(f"in eager with other roundings ({seed})", redrawn=seed, steps=steps)
                if isinstance(run, str) or not same_steps(sides.eager, run):
                    break
                sides = replace(sides, redrawn=(*sides.redrawn, run))
        self.journal.watch()
        return sides

    def _judge(self, sides: Sides) -> None:
        """Set the verdict on curves that differ."""
        if sides.apart.first(NOTICED) is None:
            told = f"The losses with the compiler and without are nowhere {NOTICED:.0%} apart. {_first(sides)}"
            self.keep(drift(sides, "within", told), [])
            return
        self._explain(sides, NO_TIME)  # holds if the time ends the examination
        biased, why = self._biased(len(sides.eager.steps))
        if not biased:
            self._explain(sides, why)
            return
        one = biased[0]
        place = Source(file=one.place.file, line=one.place.line, code=one.place.code)
        what = f"{_when(sides, NOTICED)}. {_off(biased)}"
        finding, told = _finding("bias", what, place, sides, NOTICED), f"{what} {_first(sides)}"
        self.keep(drift(sides, "bias", told), [finding])
        if (remedy := self._emulated(sides)) is not None:
            self.keep(drift(sides, "bias", told), [finding.model_copy(update={"remedies": [remedy]})])

    def _explain(self, sides: Sides, why: str | None) -> None:
        """Set the verdict by the floor alone.

        ``why``: why it is unknown whether results are biased; None: none were found to be.
        """
        looked = (
            "No result of compiled code was found to be off to one side"
            if why is None
            else f"Whether results are off to one side was not examined: {why}"
        )
        if why is None and is_chaos(sides):
            reason = (
                "rounding alone parts the curves of this training, and no result of compiled code is off to one side"
            )
            what = f"{_when(sides, VISIBLE)}, as in {_redrawn(sides)}: {reason}."
            line = source_of(sides.eager, sides.apart.first(VISIBLE) or 1)
            finding = _finding("chaos", what, line, sides, VISIBLE)
            self.keep(drift(sides, "chaos", f"{what} {_first(sides)}"), [finding])
        elif is_within(sides):
            told = f"{_when(sides, NOTICED)}, which is no further than in {_redrawn(sides)}. {looked}. {_first(sides)}"
            self.keep(drift(sides, "within", told), [])
        else:
            than = (
                f"further than in {_redrawn(sides)}"
                if sides.redrawn
                else "and no run with other roundings came to its end"
            )
            self.keep(drift(sides, "apart", f"{_when(sides, NOTICED)}, {than}. {looked}. {_first(sides)}"), [])

    def _emulated(self, sides: Sides) -> Remedy | None:
        """The effect and the cost of compiled code that rounds between its operators as eager does.

        None if it does not end.
        """
        run = self._curve(f"with {EMULATED}", config={EMULATED: True}, steps=len(sides.eager.steps))
        if isinstance(run, str) or not same_steps(sides.eager, run):
            return None
        pasted = paste(self.surveys.text, f"import torch._inductor.config\ntorch._inductor.config.{EMULATED} = True")
        before, after = (min(100 * one.apart.largest, MOST_APART) for one in (sides, Sides(sides.eager, run)))
        return Remedy(
            what=f"`{EMULATED}`",
            diff=diff(self.surveys.text, pasted.text, self.script.name),
            before=round(before, 3),
            after=round(after, 3),
            unit="% of the loss apart",
            helped=after < 100 * NOTICED,
            note=f"The run takes {run.took:.1f} s with it, and {sides.compiled.took:.1f} s without.",
        )

    def _biased(self, steps: int) -> tuple[list[SignedError], str | None]:
        """The biased results, and why not all were examined; None if all were."""
        left = self.journal.clock.left
        request = ErrorsRequest(
            script=str(self.script.resolve()),
            args=self.surveys.args,
            every=max(1, steps // KEPT_CALLS),
            calls=KEPT_CALLS,
            bytes=KEPT_BYTES,
            steps=steps,
            seconds=TRAINING_SHARE * left,
            examining=min(ERRORS_SECONDS, ERRORS_SHARE * left),
        )
        outcome = self._asked(request, "with calls of its graphs kept, which are examined then")
        return outcome.errors, unexamined(outcome)

    def _curve(self, how_told: str, *, steps: int = MOST_STEPS, **how: object) -> Curve | str:
        """The losses of a run, the first eager one for `CURVE_SECONDS` and others for its steps; a reason if it does
        not end well.
        """
        seconds = CURVE_SECONDS if steps == MOST_STEPS else self.journal.clock.left
        path, args = str(self.script.resolve()), self.surveys.args
        request = CurveRequest(script=path, args=args, steps=steps, seconds=seconds, **how)  # type: ignore[arg-type]
        outcome = self._asked(request, how_told)
        if outcome.ending is Ending.TIMEOUT:
            return NO_TIME
        if outcome.ending is not Ending.SAME or outcome.curve is None:
            return f"the script did not end well when it ran {how_told}"
        return outcome.curve

    def _asked(self, request: TrainingRequest, how_told: str) -> Outcome:
        self.journal.log(f"drift: {request.task}")
        self.journal.progress(message=f"comparing losses: the script runs {how_told}")
        return self.surveys.asked(request, timeout=max(1.0, self.journal.clock.left))

    def _untold(self, steps: int, why: str) -> None:
        self.keep(untold(why, steps), [])


def untold(why: str, steps: int = 0) -> Drift:
    """The result if the losses could not be compared."""
    what = f"The losses with the compiler and without were not compared: {why}."
    return Drift(verdict="untold", what=what, steps=steps)


def unexamined(outcome: Outcome) -> str | None:
    """Why an answer to an `ErrorsRequest` does not exclude biased results; None if it does."""
    examined = outcome.examined
    if outcome.ending is Ending.TIMEOUT or (examined is not None and examined.is_late):
        return NO_TIME
    if outcome.ending is not Ending.SAME or examined is None:
        return "the run for it did not end well"
    if examined.few:
        return f"of {counted(examined.few, 'graph')} too few calls could be kept"
    if examined.failed:
        return f"calls of {counted(examined.failed, 'graph')} could not be run again"
    return None if examined.results else "no graph was called often enough"


# words ------------------------------------------------------------------------------------------------------------------


def _finding(kind: FindingKind, what: str, place: Source | None, sides: Sides, least: float) -> Finding:
    steps = sides.apart.first(least) or 0
    return Finding(
        kind=kind,
        what=what,
        source=place,
        cost=Cost(what=f"until the losses are {least:.0%} apart", value=steps, unit="steps"),
    )


def _when(sides: Sides, least: float) -> str:
    """The place where the losses part, as the beginning of a sentence."""
    step = sides.apart.first(least) or 1
    eager, compiled = (run.steps[step - 1][1] for run in (sides.eager, sides.compiled))
    return f"At step {step} of {len(sides.eager.steps)} the loss of the compiled program is more than {least:.0%} away from eager's ({compiled:.4g}, and {eager:.4g})"


def _redrawn(sides: Sides) -> str:
    return f"{counted(len(sides.redrawn), 'run')} of eager with other roundings"


def _off(biased: list[SignedError]) -> str:
    """The biased results, as a sentence."""
    one = biased[0]
    where = f" in `{one.module}`" if one.module else ""
    what = (
        f"`{one.op}`{where}"
        if one.op
        else f"the graph that is called here ({one.where.replace('grad', 'gradient of input ')})"
    )
    alone = ", also where it is compiled alone" if one.is_node else ""
    more = f" Of {counted(len(biased) - 1, 'other result')} the same is true." if len(biased) > 1 else ""
    return (
        f"The results of {what} are off to one side{alone}: in {one.calls} calls by {one.mean:.2g} roundings of {one.dtype} {one.side} on average "
        f"({one.mean / one.error:.0f} standard errors), and those of eager by {one.eager:.1g}.{more}"
    )


def _first(sides: Sides) -> str:
    """The first difference, and the steps at which norms part, which separate forward from backward and optimizer."""
    of = partings(sides)
    first = min((one for one in of if one.differs is not None), key=lambda one: one.differs or 0, default=None)
    if first is None:
        return "What differs first is not known."
    far = [f"the {one.what} at step {one.parts}" for one in of if one.parts is not None]
    told = f"The first bits that differ are those of the {first.what} of step {first.differs}"
    return f"{told}; more than {NOTICED:.0%} away: {', '.join(far)}." if far else f"{told}."

"""The order of verdicts: one table of rules per final state of a run.

`HELD`: at its failing call. `ENDED`: complete, or by an exception, whose verdicts are in `RAISED`. `UNENDED`: dead, or
silent. `PLAIN` revises a verdict by plain runs. A row has a rule's name, its reason or that for its position, its
condition, and its verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from minimizer.engine.child.trouble import KILLED, OWN_CODE_RAISED
from minimizer.engine.survey import verdicts
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, Surveyed, is_out_of_memory, is_own_check, line_of
from minimizer.engine.survey.dispute import Ground
from minimizer.engine.survey.observed import EndedRun, HeldRun, RaisedRun, UnendedRun
from minimizer.engine.survey.plain_pair import PlainPair
from minimizer.engine.survey.rules import Rule, Rules, always, verdict_by
from minimizer.engine.survey.toolchain import lacks_compiler
from minimizer.errors import GraphTooLarge
from minimizer.vocabulary import Kind, Reason


def closing(verdict: Callable[[HeldRun], Surveyed]) -> Callable[[HeldRun], Surveyed]:
    """A verdict that first ends the process that holds the call: further runs of the script need its memory."""

    def behind(run: HeldRun) -> Surveyed:
        run.survey.close()
        return verdict(run)

    return behind


HELD: Rules[HeldRun, Surveyed] = (
    Rule("the GPU is out of memory", "the copies for our comparison take some of it: eager and plain runs decide",
         lambda run: is_out_of_memory(run.error), closing(lambda run: verdict_by(RAISED, run.raised))),
    Rule("the C++ compiler is out of memory", "the job's limit is too low, whatever the script does",
         lambda run: run.error is not None and run.error.is_of_starved_compiler, closing(HeldRun.starved)),
    Rule("no C or C++ compiler can be started", "the machine or the sandbox lacks it",
         lambda run: lacks_compiler(run.error), closing(lambda run: run.raised.without_a_compiler())),
    Rule("the graph or its inputs cannot be written down", "the script itself may still be reduced",
         lambda run: run.held.program is None, closing(lambda run: verdicts.opaque(run.held))),
    Rule("the graph is too large", "localization and reduction make passes over all of it; the script itself may still be reduced",
         lambda run: isinstance(run.case, GraphTooLarge), closing(lambda run: verdicts.too_large(run.held, str(run.case)))),
    Rule("a call of a graph", "it can be reduced", always, lambda run: run.case if isinstance(run.case, Case) else None),
)  # fmt: skip

WITHOUT_SUSPECTS: Rules[EndedRun, Settled] = (
    Rule("Dynamo failed by itself, and the script hides it", "that is a failure, however little or much was compared",
         lambda run: bool(run.hidden), lambda run: verdicts.hidden_failure(run.hidden, run.finished.checked)),
    Rule("it was stopped before a call was compared", "more time may show more",
         lambda run: run.saw_nothing() and run.finished.stopped and not run.checked.calls, EndedRun.cut_short),
    Rule("no frame was compiled", "there was nothing to check",
         lambda run: run.checked.frames == 0,
         lambda run: verdicts.nothing_compiled("The script ran to its end, but torch.compile compiled no frame of it.", run.finished, run.checked)),
    Rule("no call could be compared", "it compiles and runs, and no more is known",
         EndedRun.saw_nothing, lambda run: verdicts.unchecked(run.checked)),
    Rule("eager differs from eager", "nothing was seen but that there is no reference to compare with",
         lambda run: bool(run.finished.unsteady), lambda run: verdicts.unsteady(run.finished)),
    Rule("no call of some graph could be compared", "a fault may be there",
         lambda run: bool(run.never_compared), lambda run: verdicts.uncompared(run.healthy(), run.never_compared)),
    Rule("no difference", "healthy, as far as it was compared", always, EndedRun.healthy),
)  # fmt: skip
"""The verdict if no suspect is a fault."""
ENDED: Rules[EndedRun, Surveyed] = (
    Rule("a call lost the GPU", "each CUDA call behind it fails too, so that the exception which ended the run says nothing",
         lambda run: run.finished.lost is not None, EndedRun.lost),
    Rule("a call lacks an error that eager raises", "what comes behind it may follow from that",
         lambda run: bool(run.finished.missing), EndedRun.missing_error),
    Rule("its check fails where eager differs from eager", "the check may read what eager does not repeat, as no other exception does",
         EndedRun.fails_unsteadily, lambda run: verdicts.unsteady(run.finished)),
    Rule("it ended by an exception", "`RAISED` has the verdicts on that",
         lambda run: run.finished.exception is not None, lambda run: verdict_by(RAISED, RaisedRun(run.finished, run.holding))),
    Rule("an output that is one object with another was changed", "in eager the other is not changed with it",
         lambda run: bool(run.finished.merged), EndedRun.merged),
    Rule("values behind a jump differ", "a fault if a part of the graph is wrong on eager's own inputs, else rounding, amplified",
         lambda run: bool(run.finished.suspects) and not run.saw_nothing(),
         lambda run: run.suspects.hold_first(run.finished.suspects, verdict_by(WITHOUT_SUSPECTS, run))),
    *WITHOUT_SUSPECTS,
)  # fmt: skip

RAISED: Rules[RaisedRun, Surveyed] = (
    Rule("its check reads a clock or a counter of the compiler", "whatever eager does: what it reads says nothing of values",
         lambda run: run.checked.frames > 0 and run.doubt is Ground.READING, lambda run: verdicts.disputed(run.error, run.checked)),
    Rule("it dies in eager", "what does not run without the compiler says nothing of it",
         lambda run: run.eager[-1].finished is None, lambda run: verdicts.not_runnable(run.eager[-1], "without the compiler")),
    Rule("the sandbox denies it something in eager", "advice on the sandbox helps here, and fixing the script does not",
         lambda run: bool(run.denial), lambda run: verdicts.sandbox_denied(run.failed[0][0], run.denial, run.checked)),
    Rule("it raises in each eager run", "by this error or another: there is nothing to hold the compiler to",
         lambda run: len(run.failed) == len(run.eager), RaisedRun.fails_in_eager),
    Rule("it raises in some eager runs", "and may have raised by chance with the compiler too",
         lambda run: bool(run.failed), RaisedRun.fails_in_eager),
    Rule("Dynamo was given no frame", "the compiler is not to blame for what happened before it was asked for anything",
         lambda run: not run.finished.attempted, lambda run: verdicts.before_a_frame(line_of(run.error), run.finished)),
    Rule("the GPU is out of memory", "eager had enough, but the copies for our comparison take some: plain runs decide",
         lambda run: is_out_of_memory(run.error), lambda run: verdicts.starved(run.error, run.checked)),
    Rule("no C or C++ compiler can be started", "the machine or the sandbox lacks it",
         lambda run: lacks_compiler(run.error), RaisedRun.without_a_compiler),
    Rule("its check is about the memory layout, which differs", "a call that differs in nothing else counts, since the script checks that",
         RaisedRun.checks_seen_layout, RaisedRun.by_layout),
    Rule("its check of values fails by its own tolerance", "a call counts that exceeds it, also where our tolerance sees rounding",
         RaisedRun.checks_values, lambda run: run.holding.by_tolerance(run.finished.checks)),
    Rule("its check fails behind an output that was overwritten", "each call is right when it returns: no graph shows that",
         lambda run: is_own_check(run.error) and bool(run.finished.overwritten),
         lambda run: ScriptCase(verdicts.overwritten(run.finished.overwritten, run.error, run.checked))),
    Rule("its check of values fails, and no call differs", "only a tolerance or the random stream is left, unless the script shows more",
         lambda run: run.checked.calls > 0 and run.doubt is Ground.VALUES,
         lambda run: ScriptCase(verdicts.disputed_values(run.error, run.checked))),
    Rule("an exception between graphs", "no graph carries it, so that the script itself is reduced", always, RaisedRun.unmade),
)  # fmt: skip


def without_comparison(run: UnendedRun) -> Surveyed | None:
    """The result of a run that does not compare; None if that dies too."""
    alone = run.holding.surveys.run(replace(run.holding.surveys.request, values=False))
    if run.holding.to_reduce(alone) is not None:
        return run.holding.case(alone)
    if alone.finished is None:
        return None
    if alone.finished.exception is not None:
        return verdict_by(RAISED, RaisedRun(alone.finished, run.holding))
    return verdicts.died_compared(run.survey)


UNENDED: Rules[UnendedRun, Surveyed] = (
    Rule("its share of the budget is over", "what was compared until then showed no difference",
         lambda run: run.survey.silence is not None and run.survey.silence.out_of_time, UnendedRun.out_of_time),
    Rule("its ranks wait for one another", "which is no hang of the compiler, whatever rank has compiled last",
         lambda run: run.survey.silence is not None and run.survey.silence.hangs and run.survey.silence.is_among_ranks,
         UnendedRun.of_ranks),
    Rule("the compiler is slow", "a hang only if it was seen to stand still",
         lambda run: run.survey.silence is not None and not run.survey.silence.hangs, lambda run: verdicts.slow(run.survey)),
    Rule("it hangs in a graph", "eager has run the graph in the same run, and need not be asked",
         UnendedRun.hangs_in_graph, UnendedRun.held_before),
    Rule("it hangs in a graph that cannot be held", "the script itself is reduced", UnendedRun.hangs_in_graph, UnendedRun.hang),
    Rule("it did not end in time", "the compiler was not seen to hang",
         lambda run: run.survey.silence is None and run.survey.timed_out, lambda run: verdicts.not_runnable(run.survey, "with the compiler")),
    Rule("it does not end in eager either", "what does not run without the compiler says nothing of it",
         lambda run: run.eager.finished is None, lambda run: verdicts.not_runnable(run.eager, "with and without the compiler")),
    Rule("the machine or our own code ended it", "neither the script nor the compiler is to blame",
         lambda run: run.survey.rule in (KILLED, OWN_CODE_RAISED), lambda run: verdicts.not_runnable(run.survey, "with the compiler")),
    Rule("Dynamo was given no frame", "the compiler is not to blame for what happened before it was asked for anything",
         UnendedRun.never_asked_compiler, lambda run: verdicts.before_a_frame(run.end)),
    Rule("it hangs before any graph", "the script itself is reduced", lambda run: run.survey.silence is not None, UnendedRun.hang),
    Rule("it ends by itself", "as by `os._exit` or the timer of faulthandler: no call of a graph is to blame",
         lambda run: run.survey.signal is None,
         lambda run: ScriptCase(verdicts.unmade(f"it ends by itself with status {run.survey.exit}", Kind.CRASH))),
    Rule("it dies while it is compared", "our comparison may be what kills it",
         lambda run: run.survey.phase.doing == "compare", without_comparison),
    Rule("it dies in a graph", "the call is held just before that", lambda run: run.place is not None, UnendedRun.held_before),
    Rule("it dies in a graph that cannot be held", "the script itself is reduced",
         lambda run: run.place is not None, lambda run: ScriptCase(verdicts.unmade(run.end, Kind.CRASH, stack=run.dump))),
    Rule("it dies in no graph", "the script itself is reduced, should it die again",
         always, lambda run: ScriptCase(verdicts.not_runnable(run.survey, "with the compiler"))),
)  # fmt: skip

PLAIN: Rules[PlainPair, Settled] = (
    Rule("it ends soon in eager, and twice not with the compiler", "such a run is no trouble of the machine",
         lambda pair: pair.compiled.outlasts(pair.disabled), PlainPair.endless),
    Rule("a run says nothing", "it was stopped, or the machine was in trouble",
         lambda pair: not (pair.compiled.is_known and pair.disabled.is_known), PlainPair.excused_as_unknown),
    Rule("it passes with the compiler and without", "the verdict stays",
         lambda pair: pair.compiled.passes and pair.disabled.passes, lambda pair: pair.found),
    Rule("it passes with the compiler and by the stance", "what fails without looks at the variable only",
         lambda pair: pair.compiled.passes and pair.eager.passes, lambda pair: pair.found),
    Rule("a check of the compiler fails in eager", "that is what it is for", PlainPair.is_about_compiler, PlainPair.excused_as_about_compiler),
    Rule("a second pair ends otherwise", "a difference counts that shows every time", lambda pair: not pair.is_steady(), PlainPair.excused_as_unsteady),
    Rule("the sandbox denies it something in eager", "advice on the sandbox helps here, and fixing the script does not",
         lambda pair: pair.fails_in_both() and bool(pair.denial),
         lambda pair: pair.fails_in_eager(Reason.SANDBOX_DENIED, f"The sandbox keeps it from what it needs: {pair.denial}")),
    Rule("it fails in eager too", "there is nothing to hold the compiler to",
         PlainPair.fails_in_both, lambda pair: pair.fails_in_eager(Reason.FAILS_IN_EAGER, "Fix that first.")),
    Rule("its check reads a clock or a counter of the compiler", "what it reads says nothing of values", PlainPair.reads_compiler, PlainPair.disputed),
    Rule("it fails in eager only", "an error is missing with the compiler", lambda pair: pair.compiled.passes, PlainPair.missing_error),
    Rule("it fails with the compiler only", "a failure, whatever our comparison says", always, PlainPair.fails_compiled),
)  # fmt: skip
"""The verdict revised by plain runs: unchanged if these pass or are inconclusive."""

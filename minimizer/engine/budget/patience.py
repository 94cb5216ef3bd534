"""How long things may take: each limit, share and reserve of time of the engine, with its reason. Seconds, where nothing else is said.

What is made of them for one job stands in `clock` (its budget), `pace` (what it has taken so far), `reserve` (what is held back for its end)
and `oracle.timeouts` (how long its trials may take).
"""

from __future__ import annotations

from minimizer.vocabulary import Step

# the whole job ------------------------------------------------------------------------------------------------------------

JOB_LATE_SECONDS = 3.0
"""Behind the budget, after which the processes of a job are ended, whatever they do: time for runs to end at their own limits."""
TICK_SECONDS = 5.0
"""Between progress events while nothing changes, so that clients see the clock move."""
KEEP_SECONDS = 5.0
"""Least between two repros of the best program so far: writing one takes time, and it is soon replaced."""
WRITE_SECONDS = 60.0
"""Most for which a job that was cancelled goes on, to write its repro."""
RESERVE_SHARE = 0.75
"""Most of what is left that a search holds back for what follows it: the search has a quarter, however slow the machine."""
WHOLE_SHARE = 0.5
"""The same for seeing whether the whole graph fails by itself, once no part of it was found."""
BLAME_SHARE = 0.9
"""Most of what is left that blame and writing hold back for verification: a verified repro is worth more than its stage."""
TRIALS_TO_WRITE = 8
"""Trials, one after another, that climb the ladder of backends and write the repro."""
RESERVE_MARGIN = 1.25
"""Factor of what is held back: a machine has more to do at one time than at another."""

# the child ----------------------------------------------------------------------------------------------------------------

CHILD_START_SECONDS = 300.0
"""Most for importing torch: it takes seconds, but minutes on a machine that has too much to do."""
CHILD_ANSWER_SECONDS = 300.0
"""Most until a child that was asked for a process says that it has started it."""
CHILD_LATE_SECONDS = 30.0
"""Most for which the child may take, after a task's time, to say that it has ended it."""
CHILD_END_SECONDS = 10.0
"""Most for a zygote to end once its pipe has: it takes no time, unless the machine has too much to do."""
CHILD_WRITE_SECONDS = 60.0
"""Without progress, after which a write to the child fails."""
IMPORTS_SECONDS = 30.0
"""Most to find out which modules that the script imports are not there."""
HEADER_SECONDS = 120.0
"""Most to precompile the header of a torch's kernels."""

# exact runs ---------------------------------------------------------------------------------------------------------------

EXACT_SECONDS, EXACT_MOST, EXACT_SHARE = 60.0, 0.25, 0.15
"""Most for one exact run: so many seconds but no more than the first share of the budget, or the second share where that is more."""
EXACT_WHOLE_SHARE = 0.4
"""The share of the budget in which all exact runs together come to an answer, before the graphs are looked at."""

# the program around the graphs --------------------------------------------------------------------------------------------

NOTED_SHARE = 0.8
"""The share of its time after which a trace, or a run side by side, takes no further event: the rest is for what it says of those before."""
TRACE_SHARE = 1 / 3
"""Of the time to trace a script and run the program side by side, the most for the trace."""
OUTER_SHARE = 1 / 4
"""Of the time that is left, the most to find the events that raise like the script: else its text is reduced."""
TRACED_SHARE = 1 / 3
"""Of that, the most for the trace: a script may run for hours behind the line that raises, which graphs do not when they run in eager."""
PARTED_SHARE = 1 / 6
"""Of the time that is left, the most to find the calls around the graphs after which values part: other ways show most of what is wrong."""
ONLY_SHARE = 1 / 2
"""The same where no other way shows it: each call is right, and what is wrong is read outside of all graphs."""
PARTED_KEPT_SHARE = 1 / 3
"""Of the time that is left behind that search, what the reduction of its script keeps for what follows: writing it, clean runs of it, and
where these do not show what was reduced, the other ways, which begin anew."""
OUTER_STATEMENTS = 20
"""Statements of the shortest script that is traced: the text of a shorter one is reduced in the time that it takes."""

# runs of the script -------------------------------------------------------------------------------------------------------

SURVEY_SECONDS = 3600.0
"""Timeout of a compiled run; as a rule its share of the budget ends it before."""
SURVEY_SHARE, SURVEY_PATIENCE = 1 / 3, 300.0
"""A share of the budget, and seconds. A script is stopped after the smaller of both if something was compared, and after the share in any
case."""
EAGER_SECONDS = 600.0
"""Timeout of an eager run."""
RUN_START_SECONDS = 5.0
"""By which the clock of a run may start later than ours."""
WAITS_SECONDS = 20.0
"""Silence after which the ranks of a script are looked at: all that wait in a collective while no other gets on wait for ever."""
HANG_AFTER = 60.0
"""That compiling or running a graph may take before it is suspected to hang, unless eager takes long."""
QUIET = 60.0
"""Without a new graph, after which a script is stopped, once all its graphs are compared often enough."""
SURVEYS, REPEAT_SECONDS, REPEAT_SHARE = 5, 45.0, 0.1
"""Most runs of a script that ends well, and seconds, or the share of the budget if that is more, after which no further one begins: its
failure may be flaky."""
FLAKY_RUNS, FLAKY_SECONDS = 5, 60.0
"""Most runs, in all, of a script with a flaky failure, and seconds after which no further one begins."""
EAGER_RUNS, EAGER_RUNS_SECONDS = 8, 15.0
"""Most eager runs, and seconds after which no further one begins: a script may raise in eager now and then."""
MOST_COST = 4.0
"""Most time for the compared runs of a healthy script, in multiples of a run without comparison."""
PLAIN_SECONDS = 90.0
"""Least until a plain run is stopped; twice the survey's time if that is longer."""
SURVEY_RUNS = 2
"""Least number of runs of the script in a survey: one in eager, one compiled."""

# trials -------------------------------------------------------------------------------------------------------------------

FIRST_TIMEOUT = 240.0
"""Until a timeout while no trial has ended without one."""
LEAST_TIMEOUT = 30.0
"""Least until a timeout, however fast other trials were."""
LEAST_EXACT_TIMEOUT = 10.0
"""The same for exact runs on a machine with idle cores: they compile no kernel, and a candidate without one side of a queue waits for ever."""
TIMEOUT_FACTOR = 8.0
"""Timeout as a multiple of the time of the slowest trial that ended without one."""
SILENCE = (4.0, 10.0)
"""(least, most) of silence before a trial's stack is sampled while a hang is reduced: the time of the slowest trial that ended without a
timeout, within these bounds. Silence alone decides nothing: the samples do (`child/watchdog.py`)."""
CLIMB_SHARE = 0.05
"""The share of the time that is left which looking for a cheaper backend may take."""
MEASURE_SECONDS, ESTIMATE_SECONDS = 1.5, 10.0
"""Of repeated compilation, to see whether a program is steady, and to estimate the rate of a flaky one."""

# clean runs ---------------------------------------------------------------------------------------------------------------

VERIFY_RUNS, VERIFY_SECONDS = 3, 180.0
"""Compiled runs of a repro, and most seconds of each on a machine of usual speed."""
CLEAN_FACTOR = 3.0
"""Most time of a clean run, as a multiple of what is held back for all of them, where that is more: on a slow machine, or one with much
else to do."""
AGAIN_SECONDS = 300.0
"""Most for all repetitions together of runs that were stopped."""
REPRO_SECONDS = 30.0
"""After which a repro takes compilation for hung: a reduced graph compiles in a few, even on a cold machine."""
TORCH_ASK_SECONDS = 60.0
"""Most for another torch to say its version."""
TORCH_LEAST_SECONDS, TORCH_MOST_SECONDS = 5.0, 180.0
"""For a repro in another torch: least time left with which a run begins, and most time for a run."""

# behind the verified repro ------------------------------------------------------------------------------------------------

SHARES: dict[Step, float] = {
    Step.DIAGNOSE: 0.30,
    Step.CODE: 0.10,
    Step.LAYERS: 0.15,
    Step.HEALTH: 0.20,
    Step.COMPARE: 0.10,
    Step.FURTHER: 0.15,
}
"""Time limit of each step after a verified repro, as a share of the time that the repro took; unused time passes to the next step. The
shares add up to 1: together these steps take at most as long as the repro did, but for the seconds that a step has at least."""
FOLLOW_UP_SECONDS = 90.0
"""Least for these steps together, for a repro that came sooner: one run of the script and a search for the part to blame take about that
long."""
DIAGNOSE_SECONDS, DIAGNOSE_SHARE = 90.0, 0.1
"""Most for a diagnosis on a machine with idle cores: seconds, or this share of the budget if that is less."""
HALF = 0.5
"""The share of what is left that a search has beside which others wait: for one part to blame, the table of layers, equal places."""
RUNS_OF_DIAGNOSIS = 4
"""Runs of the script for which a diagnosis has time at least: half of it goes to the part to blame and the settings, and a workaround is
tried on the script, where what it costs is measured."""
OPCHECK_SECONDS = 60.0
"""Most for ``torch.library.opcheck`` of a custom operator; one that takes longer blames nothing."""
CODE_SECONDS = 30.0
"""Least for a run of the repro: it imports torch, and compiles a few operators."""
TABLE_SECONDS = 120.0
"""Most for the table of layers, and for the graph, on a machine with idle cores."""
LAYER_SECONDS = 60.0
"""After the end of that time, for a layer that began within it."""
CHEAP_SECONDS, CHEAP_SHARE, WORTHY_SHARE = 60.0, 0.25, 0.5
"""Most of a survey for which a script without a repro is run again to measure its health: seconds, or this share of the time left if that is
more; the second share where the survey has shown that there is something to advise on."""
REMEDIES, REMEDIES_SHARE = 6, 0.5
"""Most runs of the script with a remedy for what it costs to compile it, and the share of the time left that they may take: a remedy that
was not tried is no loss of a result."""
DRIFT_SHARE, DRIFT_SECONDS, REDRAWN_SHARE = 0.5, 300.0, 0.6
"""Of the time left behind the remedies, the most to compare the losses of a training; the most seconds, for a healthy script is not to wait
much longer for its answer than a faulty one; and of that the most for runs with other roundings."""
CURVE_SECONDS = 30.0
"""From its first step on, after which a training in eager is ended: what it has done by then is compared, in a tenth of the time for all runs."""
ERRORS_SECONDS = 120.0
"""Most to run kept calls of graphs again on both sides, and their nodes alone."""
TRAINING_SHARE, ERRORS_SHARE = 1 / 2, 1 / 4
"""Of the time left, the most for the training whose calls are kept, and to run these again: the rest is for what compiles before."""
TLPARSE_SECONDS = 60.0
"""Most for tlparse to write its pages."""
SECOND_FAULT_SECONDS = 180.0
"""Least to survey and reduce the graph's fault behind one between graphs, however quickly the first one had its repro."""
WITNESS_SECONDS = 120.0
"""For PyTorch's own minifier, however long the repro took: it comes last, and a job can be stopped there."""
WITNESSES_SECONDS = 45.0
"""That steps without a verified repro leave to it."""
UPTAKE_SECONDS = 60
"""Least of the budget left with which the job for a dump of PyTorch's minifier begins."""

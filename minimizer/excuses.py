"""The registry of excuses: every rule by which a difference is not looked at, or is seen and not called a fault.

A rule that masks, skips, widens, samples, bounds or gives up has one entry here, is named where it is applied, and is counted in
``checked.excused`` of the report. What runs in the child (`inside/excuses.py`) names it by text; a test holds both against this table,
and has a planted fault behind each entry. What makes two results the same in the first place (the sign of a zero, the payload of a NaN and
the stride of a dimension of size 1 are not compared) is said at the head of `inside/referee/compare.py`. The lowest layer beside
`vocabulary`: everybody may import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Looked = Literal["calls", "gradients", "state", "values", "run"]
"""What a rule skips: calls of graphs, their gradients, the state that a script sees, single values, or the end of a
run.
"""


@dataclass(frozen=True)
class Excuse:
    """A rule.

    ``sentence``: what it does, for people; a full sentence without its period, which begins with a word that may be written small.
    ``reason``: the healthy program that would raise an alarm, or could not run, without it.
    ``leaves_open``: something of the main line was not compared at all, so that a healthy verdict is of low confidence.
    """

    name: str
    of: Looked
    sentence: str
    reason: str
    leaves_open: bool = False


_CALLS = (
    Excuse(
        "error_of_ours", "calls",
        "A call could not be compared because our comparison raised an error",
        "an error of ours must not reach the script",
        leaves_open=True,
    ),
    Excuse(
        "communicates", "calls",
        "Calls of graphs that communicate are not run again in eager where their collectives cannot be cut out or compiled code raises, nor is a backward that communicates",
        "a rank that runs a collective again by itself waits forever",
        leaves_open=True,
    ),
    Excuse(
        "captured", "calls",
        "Calls made while the script captures a CUDA graph are not compared",
        "a comparison would become part of the script's CUDA graph, or abort it",
        leaves_open=True,
    ),
    Excuse(
        "eager_raises_on_copies", "calls",
        "Calls that eager cannot run on copies of their inputs are not compared",
        "a copy of a view or of a leaf may be refused where the original is not",
        leaves_open=True,
    ),
    Excuse(
        "ended_by_checkpoint", "calls",
        "Calls that a checkpoint makes once more, and ends before they return, are not compared",
        "a checkpoint ends them by an exception as soon as it has what its backward needs",
        leaves_open=True,
    ),
    Excuse(
        "passed_by", "calls",
        "Calls of a graph that has failed before are not compared in runs that look for another failure",
        "the first failure would stop each of these runs",
    ),
    Excuse(
        "calls_sampled", "calls",
        "Calls beyond those of the coverage plan are not compared: the first and last of each module and size come first",
        "a script of a hundred thousand calls would take days",
    ),
    Excuse(
        "inputs_not_copied", "calls",
        "State behind an input that cannot be copied is shared by eager and the compiled code",
        "opaque objects have no copy, and the call could not be compared at all",
    ),
    Excuse(
        "layout_of_copies", "calls",
        "Layout of inputs that have no plain storage is not compared",
        "copying a sparse or a wrapped tensor may change its layout",
    ),
    Excuse(
        "one_object", "calls",
        "Outputs that are one object, where eager's are two, are a fault only if the script changes more than elements of them",
        "Inductor returns a view with the shape of its base as the base, and most scripts never see that",
    ),
    Excuse(
        "outputs_written_over", "calls",
        "A result in the memory of a CUDA graph that a later call wrote over, while the script still held it, is no failure by itself",
        "CUDA graphs use the memory of a result again in the next call, and a script that is done with it need not let go of it",
        leaves_open=True,
    ),
    Excuse(
        "outputs_unread", "calls",
        "A result that a later call wrote over is no failure where the script does not read it any more",
        "a backend may use the memory of a result again that the script still names, and is done with",
        leaves_open=True,
    ),
    Excuse(
        "other_zeros", "calls",
        "A zero of another sign that leaves a graph is a failure only where what the script computes between its graphs is seen to depend on that",
        "zeros of both signs are equal, and most code cannot tell them apart",
    ),
)  # fmt: skip
_GRADIENTS = (
    Excuse(
        "gradients_given_up", "gradients",
        "Gradients of the oldest calls are given up where too many calls wait for their backward",
        "a long evaluation with gradients on would fill the memory with copies",
        leaves_open=True,
    ),
    Excuse(
        "gradients_drawn_twice", "gradients",
        "Gradients of graphs that recompute random numbers in their backward are not compared",
        "a replayed backward draws other numbers than the first one",
        leaves_open=True,
    ),
    Excuse(
        "gradients_with_hooks", "gradients",
        "Gradients of graphs that pass hooks to compiled autograd are compared in its own graphs only",
        "compiled autograd has to run such a backward itself",
    ),
    Excuse(
        "gradients_unreplayed", "gradients",
        "A backward that cannot be replayed is not compared",
        "eager, or our replay of it, raises on copies of what the call took",
        leaves_open=True,
    ),
    Excuse(
        "cotangents_unseen", "gradients",
        "Gradients of a backward that compiled autograd ran are compared with ones as cotangents",
        "our hooks do not run there, so that the true cotangents are not known",
    ),
)  # fmt: skip
_VALUES = (
    Excuse(
        "own_tolerance", "values",
        "Values within the tolerance of the script's own comparison are equal",
        "the script has said what is wrong",
    ),
    Excuse(
        "within_tolerance", "values",
        "Values within the relative tolerance of their dtype are equal, without asking float64",
        "compiled code rounds otherwise than eager, and a referee for every last bit takes many runs of each call",
    ),
    Excuse(
        "eager_spread", "values",
        "Elements at which eager differs from eager are not compared",
        "atomics and uninitialised memory give other values in every run",
    ),
    Excuse(
        "random_stream", "values",
        "Values drawn from another random stream are not compared",
        "compiled code draws other numbers where it does not share eager's generator",
    ),
    Excuse(
        "undefined_result", "values",
        "Elements that depend on a result which PyTorch leaves undefined are not compared",
        "a NaN cast to an integer, or two writes to one place, may give anything",
    ),
    Excuse(
        "subnormal", "values",
        "Values that should be exact may differ by less than the smallest normal number, and an element may be what flushing such numbers in eager makes of this very element",
        "vector units flush such numbers to zero",
    ),
    Excuse(
        "rounding", "values",
        "Values no further from float64 than three times eager's own error are rounded legally",
        "fused code rounds less often, and in another order",
    ),
    Excuse(
        "ulps", "values",
        "Values without a float64 truth may differ by a few last bits, or by what redrawn roundings move them",
        "bit operations and casts by dtype mean something else in double precision",
    ),
    Excuse(
        "nonfinite_moves", "values",
        "NaN and Inf may come and go at as many places as redrawn roundings move them",
        "an overflow hangs on a last bit",
    ),
    Excuse(
        "near_pole", "values",
        "NaN and Inf may come and go near a pole: at elements that redrawn roundings make NaN or Inf, or take half of the digits of, beside those of a typical element too, and only what they make of some element, or the infinity between its numbers and NaN",
        "`log`, `atanh` and `1 / x` leave the finite numbers by a last bit, and a correlation of 1 is one",
    ),
    Excuse(
        "behind_jump", "values",
        "Values behind a jump (argmax, floor, a comparison) may differ where every part of the graph is right on eager's inputs",
        "a legal last bit becomes a whole step there",
    ),
    Excuse(
        "random_replaced", "values",
        "Random numbers are drawn by eager's generator in compiled code too: of Inductor's own, in the forward of graphs of at most 500 operations, only dtype, shape, device, errors, and how the draws of three small operators at most are spread are looked at",
        "the same seed draws other numbers under Inductor",
    ),
    Excuse(
        "eager_unsteady", "values",
        "A difference is no fault of the compiler where eager, run again, differs from itself there",
        "a kernel that races gives another value now and then, without the compiler too",
    ),
    Excuse(
        "opaque_objects", "values",
        "Objects without an `==` of their own, or with one that raises, are equal where their types are",
        "eager and compiled code make an object each, and nothing else of it can be compared",
    ),
)  # fmt: skip
_STATE = (
    Excuse(
        "exact_not_asked", "state",
        "What the script sees of itself was not compared, since no exact runs were asked for",
        "exact runs watch one process, and answer no question but whether values differ",
        leaves_open=True,
    ),
    Excuse(
        "exact_no_answer", "state",
        "What the script sees of itself was not compared, since an exact run did not come to its end",
        "a script may take longer, or end otherwise, on the backend of the exact runs",
        leaves_open=True,
    ),
    Excuse(
        "exact_parted", "state",
        "What the script sees of itself was compared only up to the moment from which the runs took another course",
        "a loop by the clock makes another number of calls in each run",
        leaves_open=True,
    ),
    Excuse(
        "exact_unconfirmed", "state",
        "A difference that further exact runs did not confirm is not reported",
        "what other things move is no evidence against the compiler",
        leaves_open=True,
    ),
    Excuse(
        "exact_library", "state",
        "Modules and optimizers of torch's own are told in eager that they are compiled",
        "they choose another formula where they are compiled, and both are right",
    ),
    Excuse(
        "exact_truncated", "state",
        "Objects beyond the limits of the walk over a script's state are not looked at",
        "a state of millions of objects would take longer to walk than the script runs",
        leaves_open=True,
    ),
    Excuse(
        "exact_sampled", "state",
        "Large tensors are compared in samples between graphs, in full at the end of the script",
        "hashing gigabytes at every call takes longer than the script",
    ),
    Excuse(
        "exact_threads", "state",
        "What a call in a thread of the script's own is given is looked at only where other threads cannot change it meanwhile",
        "another thread may change what is walked over, and its calls come in another order in each run",
        leaves_open=True,
    ),
    Excuse(
        "exact_moves", "state",
        "What differs between two eager runs, in which the machine's clocks, memory, garbage and addresses differ, is no evidence",
        "time stamps, memory figures and identities differ in each run",
    ),
    Excuse(
        "exact_volatile", "state",
        "Items that exist in one eager run only, and places among them, are no evidence",
        "a dictionary keyed by identities has other keys in each run",
    ),
    Excuse(
        "exact_compiler_writes", "state",
        "What a function that the script gave to the compiler writes while the compiler runs it is no evidence",
        "fake kernels and pytree functions are run as often as the compiler likes",
    ),
    Excuse(
        "exact_arithmetic", "state",
        "Numbers that redrawn roundings of the call's own graphs move as far, element by element, are no evidence",
        "a recorded graph may compute in another order than Python did",
    ),
    Excuse(
        "exact_backend", "state",
        "What a call does on Dynamo's backend `eager` only, and not on the script's own, is left to the comparison of its graphs: an error that it raises, which tensors require gradients",
        "eager refuses an operator that the script's own backend takes, and its handler was left behind when the graph was recorded",
    ),
    Excuse(
        "exact_reordered", "state",
        "Printed lines that come in another order where the script lets them (`reorderable_logging_functions`), and in eager's where nothing is moved, are the script's own wish",
        "a training that has its prints moved behind the graph, so that they break none",
    ),
    Excuse(
        "aot_rounds", "state",
        "Where AOTAutograd traces the graphs, floating numbers, and what comes after the first that differs, are left to the comparison of graphs",
        "a traced graph may round otherwise than the operators that it was traced from",
    ),
    Excuse(
        "exact_recomputed", "state",
        "Calls that a checkpoint makes again in a backward are compared in the gradients and the state after it, not one by one",
        "compiled code recomputes within its own graph, where it makes no call",
    ),
    Excuse(
        "exact_unreadable", "state",
        "Tensors whose values cannot be read without running code of their class are compared by what they hold",
        "the observer runs none of the script's code",
        leaves_open=True,
    ),
    Excuse(
        "exact_machine", "state",
        "Objects whose state is the machine's or the compiler's are known by their type only",
        "locks, sockets and compiled code differ in each run",
    ),
    Excuse(
        "exact_observer", "state",
        "An object over which our own observer raised an error was not looked at",
        "an error of ours must not reach the script",
        leaves_open=True,
    ),
    Excuse(
        "exact_output", "state",
        "Files and printed text beyond a bound are not looked at",
        "a checkpoint of gigabytes would be read twice",
        leaves_open=True,
    ),
    Excuse(
        "exact_looks", "state",
        "Full looks beyond a bound on their number and work are left out, but for the one at the end",
        "a loop of a hundred thousand steps would be looked at for hours",
        leaves_open=True,
    ),
    Excuse(
        "state_not_compared", "state",
        "State of Python that traced code reads or changes was not compared",
        "only exact runs can look at it, and they came to no answer",
        leaves_open=True,
    ),
)  # fmt: skip
_RUN = (
    Excuse(
        "child_processes", "run",
        "Processes that the script starts are not observed",
        "our hooks are in the script's own process",
        leaves_open=True,
    ),
    Excuse(
        "ranks_unwatched", "run",
        "Ranks for which there was no time for a run were not watched",
        "a run of the script watches one rank",
        leaves_open=True,
    ),
    Excuse(
        "stopped_early", "run",
        "What comes after the script was stopped did not run",
        "a training of hours would use up the budget",
        leaves_open=True,
    ),
    Excuse(
        "made_up_inputs", "run",
        "A graph that PyTorch dumped was called with made-up values, since the original ones were not with it",
        "PyTorch writes most of its dumps without values, or they stay on the machine where it wrote them",
        leaves_open=True,
    ),
    Excuse(
        "values_not_asked", "run",
        "Values were not compared, since another kind of failure was asked for",
        "--expect looks for one kind of failure only",
        leaves_open=True,
    ),
    Excuse(
        "reads_clock", "run",
        "A failing check of the script's own that reads a clock or a counter of the compiler is in dispute, not a failure",
        "compiling takes time, and is counted",
    ),
    Excuse(
        "check_of_values", "run",
        "A failing check of the script's own that a wider tolerance would let pass is in dispute, not a failure",
        "a check stricter than rounding fails with every correct compiler",
    ),
    Excuse(
        "plain_runs_unknown", "run",
        "A run of the untouched script came to no answer, so that our own runs were not held against it",
        "the machine may lack memory or time for it",
        leaves_open=True,
    ),
    Excuse(
        "plain_runs_unsteady", "run",
        "Runs of the untouched script that end otherwise each time are no evidence",
        "a flaky script fails without the compiler too",
        leaves_open=True,
    ),
    Excuse(
        "about_compiler", "run",
        "A check that fails only without the compiler, outside of what is compiled, is about the compiler",
        "a script may assert that something was compiled",
    ),
)  # fmt: skip

EXCUSES: dict[str, Excuse] = {excuse.name: excuse for excuse in (*_CALLS, *_GRADIENTS, *_VALUES, *_STATE, *_RUN)}
"""All rules, by name, in the order in which documents list them."""

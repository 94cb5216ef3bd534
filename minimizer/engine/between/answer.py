"""The result of exact runs: a confirmed difference, or what they left open, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minimizer.engine.between.difference import Difference
from minimizer.engine.between.noise import Noise
from minimizer.engine.child import protocol
from minimizer.engine.child.exact_log import ExactLog
from minimizer.inside.questions import Conditions, Plan
from minimizer.report.examined import Between, Checked
from minimizer.report.excused import Excused, excused, merged
from minimizer.vocabulary import Stage

UNCONFIRMED = "what differs there was not confirmed by further runs"
BY_LIBRARY = "between graphs, what modules and optimizers of torch's own compute otherwise where they are compiled: eager was made to choose the same"
ANY = Conditions()
OF_OBSERVER = {
    "walk": excused("exact_truncated").rule,
    "looks": excused("exact_looks").rule,
    "sampled": excused("exact_sampled").rule,
    "in threads": excused("exact_threads").rule,
    "unreadable": excused("exact_unreadable").rule,
    "machine": excused("exact_machine").rule,
    "observer": excused("exact_observer").rule,
    "recomputed": excused("exact_recomputed").rule,
    "files": excused("exact_output").rule,
    "printed": excused("exact_output").rule,
}
"""The rules of the observer in the child (`inside/exact/unseen.py`), by its own names."""


@dataclass(frozen=True)
class Found:
    """A confirmed difference.

    ``call``: the call to blame. ``until``: the last call that had to run without the compiler together with it.
    ``eager`` and ``compiled``: the logs that show the difference.
    """

    difference: Difference
    call: int
    until: int
    eager: ExactLog
    compiled: ExactLog
    noise: Noise
    is_cured_by_reset: bool = False
    is_reused: bool = False
    """Whether the call reused code compiled for an earlier call."""
    conditions: Conditions = ANY
    """The conditions of all runs that show it."""
    is_by_library: bool = False
    """Whether eager sees the same when torch's modules take their compiled branch: then it is no fault."""
    is_reordered: bool = False
    """Whether the script itself delays printed lines to the end of their graph, and only their order differs: no fault
    either.
    """
    shown: tuple[int, ...] = ()
    """Calls run without the compiler because their difference was shown to be other arithmetic."""
    draws: bool = False
    """Whether the script draws random numbers, or sets their state."""

    @property
    def stage(self) -> Stage:
        """The stage to blame: all later stages run eager's own kernels in these runs."""
        return Stage.AOT_AUTOGRAD if self.conditions.aot else Stage.DYNAMO

    @property
    def plan(self) -> Plan:
        """The plan with which further runs take the same looks."""
        return Plan(full=sorted({look.unit for look in self.compiled.looks if look.full}), shown=self.shown)


@dataclass(frozen=True)
class Answer:
    """The result of exact runs: a confirmed difference, or why they decide nothing; neither if both sides see the same.

    ``ended``: where and why the comparison ended before the script did; the rest of the script was not compared.
    ``failed_check``: the exception's name if a check of the script's own ended only the compiled run.
    """

    found: Found | None = None
    aside: str = ""
    ended: str = ""
    failed_check: str = ""
    not_compared: tuple[str, ...] = ()
    excused: tuple[Excused, ...] = ()
    """Every rule by which something was not looked at, or was seen and excused."""
    runs: int = 0
    looks: int = 0


NO_ANSWER = Answer(aside="there were no exact runs")


def answer_of(
    end: Found | str, *, broken: str, noise: Mapping[tuple[str, str], int], compiled: ExactLog, runs: int
) -> Answer:
    """The answer of a completed comparison.

    Args:
        end: the confirmed difference, or where and why the comparison ended early, empty if it did not.
        broken: why the runs were repeated without looking at the script's objects.
        noise: how often a rule was applied to a path, by (rule, path).
        compiled: the compiled run.
        runs: how many runs it took.
    """
    found, ended = (end, "") if isinstance(end, Found) else (None, end)
    held = f"between graphs, what the script holds ({broken}): only what calls return was compared"
    rest = (f"what lies between graphs from {ended}",) if ended else ()
    by_noise = (excused(rule, path, count) for (rule, path), count in noise.items())
    return Answer(
        found,
        ended=ended,
        not_compared=(*rest, *((held,) if broken else ()), *unseen(compiled)),
        excused=(*by_noise, *_ended_by(ended), *_broken_by(broken), *unseen_by_rule(compiled)),
        runs=runs,
        looks=len(compiled.looks),
    )


def checked_of(checked: protocol.Checked, exact: Answer) -> Checked:
    """The coverage of the survey, with the state that neither it nor the ``exact`` runs could compare."""
    known = Checked(**checked.model_dump(exclude={"state"}))
    is_open = bool(exact.aside or exact.ended)
    left = checked.state if is_open else ()
    return known.model_copy(
        update={
            "not_compared": [*known.not_compared, *left, *exact.not_compared],
            "excused": merged(known.excused, [excused("state_not_compared", one) for one in left], exact.excused),
            "between": Between(compared=not is_open, looks=exact.looks, why_not=exact.aside or exact.ended),
        }
    )


def unanswered(why: str, *, runs: int = 0) -> Answer:
    """The answer of exact runs that did not complete."""
    left_out = (f"what lies between graphs: {why}",)
    return Answer(aside=why, not_compared=left_out, excused=_broken_by(why), runs=runs)


def _broken_by(why: str) -> tuple[Excused, ...]:
    """The excuse of a run that did not complete."""
    return (excused("exact_no_answer", why),) if why else ()


def _ended_by(ended: str) -> tuple[Excused, ...]:
    """The excuse of a comparison that ended before the script did."""
    if not ended:
        return ()
    return (excused("exact_unconfirmed", ended) if ended.endswith(UNCONFIRMED) else excused("exact_parted", ended),)


def unseen_by_rule(log: ExactLog) -> tuple[Excused, ...]:
    """The same as `unseen`, as entries of the registry."""
    known = (row for row in log.unseen if row.rule in OF_OBSERVER)
    return tuple(excused(OF_OBSERVER[row.rule], row.object, row.count) for row in known)


def unseen(log: ExactLog) -> tuple[str, ...]:
    """The parts of a script's state that the looks left out, as sentences for the report."""
    told = []
    if log.truncated:
        told.append(f"between graphs, the walk over the script's objects stopped at {log.truncated[:200]}")
    if log.sampled:
        told.append("between graphs, large tensors were compared in samples")
    if log.in_threads:
        told.append("between graphs, of calls in threads what was given to them that other threads may change")
    if log.stacks:
        told.append(
            f"between graphs, an object over which the observer itself failed ({log.stacks[0].partition(chr(10))[0][:200]})"
        )
    return tuple(told)

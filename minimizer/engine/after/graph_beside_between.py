"""Two faults of one script: one between its graphs, and one of a graph.

The fault between graphs is reduced first, since its trials compile no kernel. The graph's is recorded separately until
it has a verified repro. Then the one that the script reaches in an earlier call is the job's own, but wrong values take
precedence over metadata: a script may never notice shared memory or the stride of an output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from minimizer.engine import fold
from minimizer.engine.between.answer import Answer, Found, checked_of
from minimizer.engine.emit import SCRIPT_FILE, called
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import ARCHIVE
from minimizer.engine.survey.cases import Case, ScriptCase
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.triage import Triage
from minimizer.report.model import AlsoSeen, each_once
from minimizer.sink import Aside

SECOND_FILE, SECOND_ARCHIVE = "repro-2.py", "repro-2.zip"


@dataclass(frozen=True)
class Reached:
    """A fault of the script.

    ``call``: the outermost call that reaches it, if known. ``files``: those of its repro, if verified.
    """

    fault: Fault
    call: int | None
    files: Mapping[str, bytes]

    @property
    def as_second(self) -> dict[str, bytes]:
        """The files of its repro, under the names for a second repro."""
        if SCRIPT_FILE not in self.files:
            return {}
        archive = {SECOND_ARCHIVE: self.files[ARCHIVE]} if ARCHIVE in self.files else {}  # the repro needs a data file
        return {SECOND_FILE: called(self.files[SCRIPT_FILE].decode(), SECOND_FILE).encode(), **archive}


def in_order(faults: Iterable[Reached]) -> list[Reached]:
    """The faults of a script, the job's own first: one with a verified repro, wrong values, the one in the earliest
    call.
    """

    def rank(one: Reached) -> tuple[bool, bool, float]:
        failure = one.fault.failure
        is_metadata = failure is not None and failure.kind.is_of_metadata
        return not one.fault.holds, is_metadata, inf if one.call is None else one.call

    return sorted(faults, key=rank)


def graphs_alone(surveys: Surveys, exact: Answer, journal: Journal) -> tuple[Triage, Case | None]:
    """Survey the graphs of a script once; returns the triage and the failing call that it holds, if any."""
    triage = Triage(surveys, on_note=journal.note, log=journal.log, repeat_seconds=0.0)
    found = triage.run()
    if not isinstance(found, ScriptCase):
        fold.checked(journal.report, checked_of(found.checked, exact))
    return triage, found if isinstance(found, Case) else None


@contextmanager
def recorded_apart(case: Case, difference: Found, journal: Journal) -> Iterator[Journal]:
    """The separate journal for a graph's fault, which is reported on exit as the job's own fault or as its second."""
    journal.progress(message=f"a compiled graph fails by itself too ({case.signature.kind})")
    aside = Aside(journal.sink)
    apart, is_reached = journal.apart(aside), False
    try:
        yield apart
        is_reached = apart.fault.holds
    finally:
        case.survey.close()
        fold.attempted(journal.report, [*journal.report.attempts, *apart.report.attempts])
        if not is_reached:
            _mention(case, journal)
    if is_reached:
        files = {SCRIPT_FILE: journal.repro.encode()} if journal.repro is not None and journal.fault.holds else {}
        own = Reached(journal.fault, difference.call, files)
        graph = Reached(apart.fault, difference.compiled.call_of(case.graph, case.call), aside.repros)
        _report(own, graph, apart.report.notes, journal)


def _report(own: Reached, graph: Reached, notes: Iterable[str], journal: Journal) -> None:
    """Report both faults, the first in order as the job's own; ``notes``: those on the graph's fault."""
    first, second = in_order((own, graph))
    if first is own:
        for name, content in second.as_second.items():
            journal.show(name, content)
        journal.record(_telling_of(second.fault, own.fault))
        journal.keep()
        return
    for note in notes:
        journal.note(note)
    fault = _telling_of(own.fault, replace(graph.fault, also_seen=own.fault.also_seen))
    journal.take_over(fault, graph.files[SCRIPT_FILE].decode(), {**graph.files, **own.as_second})
    journal.decide()


def _mention(case: Case, journal: Journal) -> None:
    """Report that a graph fails too, without a repro."""
    said = case.message.splitlines()[0][:300] if case.message else ""
    signature = case.signature
    seen = AlsoSeen(kind=signature.kind, signature=signature.text, message=case.message[:2000])
    journal.record(_also_seen(journal.fault, seen))
    journal.note(
        f"A compiled graph fails by itself too ({signature.kind}): {said} Once the fault between graphs is worked around, "
        "a second run of this script reduces that."
    )


def _also_seen(fault: Fault, one: AlsoSeen) -> Fault:
    """A fault with another failure added to those also seen, without duplicates."""
    return replace(fault, also_seen=tuple(each_once([*fault.also_seen, one])))


def _telling_of(other: Fault, fault: Fault) -> Fault:
    """The job's own fault with the other one added: its failure, and its culprit if that has a repro."""
    failure = other.announced
    seen = AlsoSeen(kind=failure.kind, signature=failure.signature, message=failure.message or "")
    known = _also_seen(fault, seen)
    for culprit in other.culprits[:1] if other.holds else ():
        what = f"{culprit.what}; " if culprit.what else ""
        more = {"what": f"{what}fails by itself too: {SECOND_FILE}", "generated_code": other.generated_code}
        further = culprit.model_copy(update={**more, "further": True, "repro": SECOND_FILE})
        known = replace(known, culprits=(*known.culprits, further))
    return known

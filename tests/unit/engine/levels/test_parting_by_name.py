"""A program that parts first by another failure than the failing call's has a repro of that one, told by its own name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from sample_job import NONE, job_in

from minimizer.engine.child.traced import Parting, Sides
from minimizer.engine.diagnose.original import SurveyedScript
from minimizer.engine.emit import Repro
from minimizer.engine.findings import Fault
from minimizer.engine.levels import parting
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.parting import Compared, EndsWell, PartingLevel
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.outer.parting import Parted
from minimizer.engine.outer.program import BACKWARD, GRAPH, Event, OuterProgram
from minimizer.report.model import Failure, Reduction, Reproducibility
from minimizer.vocabulary import Kind

GRADIENT, OUTPUT = Kind.WRONG_GRADIENT, Kind.WRONG_OUTPUT


@pytest.mark.parametrize(
    ("kind", "event", "told", "beside"),
    [
        (GRADIENT, BACKWARD, GRADIENT, []),
        (OUTPUT, GRAPH, OUTPUT, []),
        (GRADIENT, GRAPH, OUTPUT, [GRADIENT]),
        (OUTPUT, BACKWARD, GRADIENT, [OUTPUT]),
    ],
)
def test_a_repro_is_told_by_the_name_of_what_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, event: str, told: Kind, beside: list[Kind]
) -> None:
    """And the call's own failure beside it; no run of the survey, which sees the call, confirms a change of the other."""
    job, made = job_in(tmp_path), list[MadeScript]()
    rate = Reproducibility(failed=1, runs=1)
    failure = Failure(kind=kind, signature="s", reproducibility=rate)
    known = Fault(failure=failure, reduction=Reduction())
    level = PartingLevel(NONE, job.script, [], job.journal, jobs=1)
    program = OuterProgram({}, [Event("x", event, frozenset(), (), (), (), (), "", None, draws=False)], {}, {})
    first = Parting(event=0, own=True, what="wrong", value="x", sort="value", rule="values")

    def drafted(python: PythonLevel, _: object, known: Fault) -> Draft:
        made.append(cast(Any, python)._made)
        return Draft(Repro(source="", lines=1, kind=kind, evidence=""), known)

    monkeypatch.setattr(parting, "smallest_parting", lambda *_, **__: Parted("import torch\n", 1, 1, 0.0, ()))
    monkeypatch.setattr(PythonLevel, "draft", drafted)
    found = level.draft(Compared(program, Sides(first=first)), kind, SurveyedScript(NONE, NONE), known)

    assert found is not None
    assert made[0].kind is told
    assert isinstance(made[0].original, EndsWell if beside else SurveyedScript)
    assert [one.kind for one in found.fault.also_seen] == beside

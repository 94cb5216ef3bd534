"""What becomes of a graph that only PyTorch's minifier has dumped: a script, and a verdict only where our own judge agrees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.journal import Journal
from minimizer.engine.witness import minifier
from minimizer.engine.witness.adopt import take_up, write_script
from minimizer.errors import Cancelled
from minimizer.pytorch_dump import Unusable
from minimizer.report.culprit import Culprit, Source
from minimizer.report.model import Failure, Reduction, Report, Reproducibility, Verification, Workaround
from minimizer.sink import FolderSink, Sink
from minimizer.vocabulary import Kind, Reason, Stage, Status

NAME = "a97eb8da8aa99cf28dfad09ca68ea30c2e56b426"
LAUNCHER = f"""
import os
os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/caches/of/the/witness'
os.environ.pop('TORCHDYNAMO_REPRO_AFTER', None)
import torch
import torch._inductor.config
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'
isolate_fails_code_str = None
if "__compile_source__" in globals():
    import linecache
class Repro(torch.nn.Module):
    def forward(self, primals_1):
        return (torch.ops.aten.relu.default(primals_1),)

def load_args(reader):
    buf0 = reader.storage('{NAME}', 256)
    reader.tensor(buf0, (8, 8), is_leaf=True)  # primals_1
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    run_repro(mod, load_args, accuracy=True, command='minify', save_dir='/of/the/witness')
"""
OLD = "The script ran to its end, but torch.compile compiled no frame of it."


def heard(
    launcher: str = LAUNCHER, *, after: str = "aot", level: int = 4, storages: tuple[str, ...] = (NAME,)
) -> minifier.Testimony:
    dump = minifier.Dump(launcher, dict.fromkeys(storages, b"values"))
    return minifier.Testimony(after, level, "saw a failure and dumped a graph to minify", True, dump, "")  # type: ignore[arg-type]


def failure(kind: Kind = Kind.WRONG_OUTPUT, error: str | None = None) -> Failure:
    rate = Reproducibility(failed=2, runs=2)
    return Failure(
        kind=kind, stage=Stage.INDUCTOR, exception_type=error, message="m", signature="s", reproducibility=rate
    )


def minimized(kind: Kind = Kind.WRONG_OUTPUT, error: str | None = None) -> Report:
    return Report(
        status=Status.MINIMIZED,
        summary="It gives wrong values.",
        failure=failure(kind, error),
        culprits=[Culprit(ops=["aten.relu"], module="mod", source=Source(file="witness_aot.py", line=3, code="x"))],
        reduction=Reduction(nodes_before=4, nodes_after=1, lines_after=9),
        verification=Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True),
        workaround=Workaround(code="torch._inductor.config.x = 1", verified=True),
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    report = Report(status=Status.FAILED, reason=Reason.NOTHING_COMPILED, summary=OLD)
    return Journal(FolderSink(tmp_path / "out"), report, Clock(600))


class Job:
    """An attempt at a dump, which ends with this report."""

    def __init__(self, ends: Report) -> None:
        self._ends = ends
        self.scripts: list[Path] = []

    def __call__(self, script: Path, sink: Sink) -> Report:
        self.scripts.append(script)
        sink.event("step", step="reduce", state="started")
        sink.event("note", message="of the attempt")
        sink.artifact("data.pt", b"to be discarded")
        sink.discard("data.pt")
        sink.artifact("repro.py", b"print('small')\n")
        sink.artifact("report.md", b"of the attempt")
        sink.report(self._ends)
        return self._ends


# The script ---------------------------------------------------------------------------------------------------------


def test_the_script_calls_the_graph_with_the_values_beside_it(tmp_path: Path) -> None:
    script = write_script(heard(), tmp_path / "new")
    text = script.read_text()
    assert (tmp_path / "new" / "storages" / NAME).read_bytes() == b"values"
    assert "InputReader(save_dir=str(Path(__file__).parent))" in text
    assert "inject_relu_bug_TESTING_ONLY = 'accuracy'" in text
    assert text.endswith("with torch.set_grad_enabled(False):\n    torch.compile(mod)(*reader.args)\n")


def test_nothing_of_the_minifier_itself_is_left(tmp_path: Path) -> None:
    text = write_script(heard(), tmp_path / "new").read_text()
    for gone in ("os.environ", "/of/the/witness", "run_repro", "__compile_source__"):
        assert gone not in text


def test_after_dynamo_the_backend_and_gradients_are_kept(tmp_path: Path) -> None:
    launcher = LAUNCHER.replace("accuracy=True", "autocast=False, backend='aot_eager'").replace(
        "after_aot", "after_dynamo"
    )
    text = write_script(heard(launcher, after="dynamo"), tmp_path / "new").read_text()
    assert text.endswith(
        "with torch.set_grad_enabled(True):\n    torch.compile(mod, backend='aot_eager')(*reader.args)\n"
    )


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        (LAUNCHER.replace("mod = Repro()", "mod = <lambda>"), "no Python"),
        ("mod = 1", "no graph"),
        (LAUNCHER.replace(f"'{NAME}'", "None"), "not kept"),
        (LAUNCHER.replace(NAME, "b" * 40), "not kept"),
        (LAUNCHER.replace("reader.tensor(buf0, (8, 8), is_leaf=True)", "reader.unsupported('x')"), "not kept"),
        (LAUNCHER.replace("aten.relu.default(primals_1)", "prims.inductor_seeds.default(1, 'cpu')"), "random numbers"),
    ],
)
def test_a_dump_that_tells_nothing_is_not_taken_up(launcher: str, why: str, tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(Unusable, match=why):
        write_script(heard(launcher), tmp_path / "new")
    before = journal.report.model_copy(deep=True)
    job = Job(minimized())
    assert not take_up(heard(launcher), journal, folder=tmp_path / "other", attempt=job)
    assert not job.scripts
    assert why in journal.report.notes[0]
    assert journal.report.model_copy(update={"notes": []}) == before


def test_a_launcher_of_the_scripts_own_making_is_only_a_script(tmp_path: Path) -> None:
    """A hostile one may say anything: what is wrong in it fails where it runs."""
    launcher = LAUNCHER.replace("reader.tensor(buf0, (8, 8), is_leaf=True)", "reader.tensor()")
    assert "reader.tensor()" in write_script(heard(launcher), tmp_path / "new").read_text()


# The verdict --------------------------------------------------------------------------------------------------------


def test_what_our_own_judge_confirms_becomes_the_verdict(tmp_path: Path, journal: Journal) -> None:
    journal.show("repro.zip", b"of a repro that did not hold")
    assert take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(minimized()))
    report, written = journal.report, {path.name for path in (tmp_path / "out").glob("repro*")}
    assert (report.status, report.reason) == (Status.MINIMIZED, None)
    assert report.failure is not None and report.failure.stage is Stage.INDUCTOR
    assert report.verification is not None and report.verification.holds
    assert "Only PyTorch's own minifier" in report.summary and OLD in report.summary
    assert written == {"repro.py"}
    assert journal.repro == "print('small')\n"
    assert not (tmp_path / "out" / "report.md").exists()  # of the attempt


def test_no_line_of_the_dump_is_taken_for_the_users_and_no_workaround_for_tried(
    tmp_path: Path, journal: Journal
) -> None:
    take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(minimized()))
    (culprit,) = journal.report.culprits
    assert (culprit.ops, culprit.source, culprit.module) == (["aten.relu"], None, "")
    workaround = journal.report.workaround
    assert workaround is not None and not workaround.verified and not workaround.code
    assert "torch._inductor.config.x = 1" in workaround.what


def test_what_the_script_showed_by_itself_stays(tmp_path: Path, journal: Journal) -> None:
    seen = failure(Kind.WRONG_GRADIENT).model_copy(update={"stage": Stage.UNKNOWN})
    journal.record(replace(journal.fault, failure=seen))
    assert take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(minimized()))
    assert journal.report.failure == seen.model_copy(update={"stage": Stage.INDUCTOR})


ERROR = "torch._inductor.exc.InductorError"


@pytest.mark.parametrize(
    ("level", "seen", "found", "counts"),
    [
        (4, None, (Kind.WRONG_OUTPUT, None), True),
        (4, (Kind.WRONG_GRADIENT, None), (Kind.WRONG_OUTPUT, None), True),
        (4, (Kind.WRONG_METADATA, None), (Kind.WRONG_OUTPUT, None), False),
        (4, None, (Kind.WRONG_METADATA, None), False),  # the minifier compares no metadata
        (4, None, (Kind.COMPILE_ERROR, ERROR), False),
        (4, None, (Kind.MISSING_ERROR, "IndexError"), False),
        (2, (Kind.COMPILE_ERROR, ERROR), (Kind.COMPILE_ERROR, ERROR), True),
        (2, (Kind.RUNTIME_ERROR, ERROR), (Kind.COMPILE_ERROR, ERROR), True),
        (2, (Kind.COMPILE_ERROR, "ValueError"), (Kind.COMPILE_ERROR, ERROR), False),  # another failure
        (2, (Kind.COMPILE_ERROR, ERROR), (Kind.WRONG_OUTPUT, None), False),
    ],
)
def test_only_a_failure_that_the_witness_can_see_and_the_script_has_counts(
    level: int,
    seen: tuple[Kind, str | None] | None,
    found: tuple[Kind, str | None],
    counts: bool,
    tmp_path: Path,
    journal: Journal,
) -> None:
    journal.record(replace(journal.fault, failure=failure(*seen) if seen is not None else None))
    before = journal.report.model_copy(deep=True)
    testimony = replace(heard(), level=level)
    assert take_up(testimony, journal, folder=tmp_path / "new", attempt=Job(minimized(*found))) is counts
    if not counts:
        assert "It gives wrong values." in journal.report.notes[0]
        assert journal.report.model_copy(update={"notes": []}) == before
        assert not (tmp_path / "out" / "repro.py").exists()


@pytest.mark.parametrize("status", [Status.HEALTHY, Status.PARTIAL, Status.FAILED])
def test_a_dump_in_which_we_see_no_verified_failure_changes_nothing(
    status: Status, tmp_path: Path, journal: Journal
) -> None:
    journal.record(replace(journal.fault, status=Status.HEALTHY, reason=None))
    ends = minimized().model_copy(update={"status": status, "summary": "Healthy: 1 call."})
    assert not take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(ends))
    assert (journal.report.status, journal.report.failure) == (Status.HEALTHY, None)
    assert "judged by our own rules" in journal.report.notes[0]
    assert not (tmp_path / "out" / "repro.py").exists()


def test_a_job_that_is_cancelled_meanwhile_is_cancelled(tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(Cancelled):
        take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(Report(status=Status.CANCELLED)))
    assert journal.report.summary == OLD


def test_without_time_it_is_not_begun(tmp_path: Path, journal: Journal) -> None:
    job = Job(minimized())
    with journal.clock.within(5):
        assert not take_up(heard(), journal, folder=tmp_path / "new", attempt=job)
    assert not job.scripts
    assert "--budget" in journal.report.notes[0]


def test_progress_of_the_inner_job_is_told_and_its_findings_are_not(tmp_path: Path) -> None:
    told: list[str] = []
    sink = FolderSink(tmp_path / "out", lambda event: told.append(event.get("step") or event["type"]))
    journal = Journal(sink, Report(status=Status.HEALTHY), Clock(600))
    healthy = Report(status=Status.HEALTHY, summary="Healthy.")
    take_up(heard(), journal, folder=tmp_path / "new", attempt=Job(healthy))
    assert told == ["reduce", "note"]
    assert all("of the attempt" not in note for note in journal.report.notes)

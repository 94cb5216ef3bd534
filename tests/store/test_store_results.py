"""What workers write about a job, and how readers find it. All of it comes from hostile scripts."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from minimizer.options import Options
from minimizer.report.culprit import Culprit, Error, Layer
from minimizer.report.model import Failure, Reduction, Report
from minimizer.store import ArtifactTooLarge, Claim, LeaseLost, NewJob, Store, UnknownArtifact
from minimizer.store.jobs import grouping
from minimizer.store.tables import blobs, bounds
from minimizer.store.tables.database import open_engine
from minimizer.store.work import results
from minimizer.vocabulary import Kind, Reason, Status


def test_a_discarded_artifact_is_gone_and_its_content_with_it(store: Store, claim: Claim) -> None:
    store.results.put_artifact(claim, "data.pt", b"values")
    store.results.put_artifact(claim, "other.pt", b"others")
    version = store.jobs.get(claim.job_id).version
    store.results.discard_artifact(claim, "data.pt")
    store.results.discard_artifact(claim, "data.pt")
    assert [info.name for info in store.results.artifacts(claim.job_id)] == ["other.pt"]
    assert store.jobs.get(claim.job_id).version == version + 1
    with pytest.raises(UnknownArtifact):
        store.results.artifact(claim.job_id, "data.pt")
    store.leases.release(claim)
    with pytest.raises(LeaseLost):
        store.results.discard_artifact(claim, "other.pt")


def test_events_come_back_in_order_and_can_be_resumed(store: Store, claim: Claim) -> None:
    for number in range(5):
        store.results.record_event(claim, "note", {"message": str(number)})
    rows = store.results.events(claim.job_id)
    assert [(row.seq, row.type, row.data) for row in rows] == [
        (number + 1, "note", {"message": str(number)}) for number in range(5)
    ]
    assert store.results.events(claim.job_id, after=2, limit=2) == rows[2:4]
    assert store.results.events(claim.job_id, after=5) == []
    assert store.results.events(claim.job_id, after=10**30) == []


def test_events_move_the_job(store: Store, claim: Claim) -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, signature="aten.relu")
    culprit = Culprit(ops=["aten.relu"])
    for type_, data in (
        ("step", {"step": "survey", "state": "started"}),
        ("step", {"step": "survey", "state": "finished", "seconds": 1.5}),
        ("failure", {"failure": failure.model_dump(mode="json")}),
        ("culprit", {"culprit": culprit.model_dump(mode="json")}),
        ("step", {"step": "reduce" * 10, "state": "finished"}),
        ("step", {"step": "reduce", "state": "started"}),
        ("progress", {"nodes": 3, "nodes_before": 750}),
    ):
        store.results.record_event(claim, type_, data)
    job = store.jobs.get(claim.job_id)
    assert (job.step, job.progress, job.failure, job.culprit) == (
        "reduce", {"nodes": 3, "nodes_before": 750}, failure, culprit,
    )  # fmt: skip
    assert [found.id for found in store.jobs.page(kind=Kind.WRONG_OUTPUT)[0]] == [job.id]


@pytest.mark.parametrize(
    "data", [{}, {"step": 7, "state": "started"}, {"failure": "x"}, {"failure": {"kind": "odd"}}, {"culprit": [1]}]
)
@pytest.mark.parametrize("type_", ["step", "failure", "culprit", "made-up" * 20])
def test_an_event_that_makes_no_sense_is_kept_and_moves_nothing(
    store: Store, claim: Claim, type_: str, data: dict[str, Any]
) -> None:
    store.results.record_event(claim, type_, data)
    job = store.jobs.get(claim.job_id)
    assert (job.step, job.failure, job.culprit) == (None, None, None)
    assert [row.data for row in store.results.events(claim.job_id)] == [data]


def test_an_event_that_is_too_large_says_so_instead(store: Store, claim: Claim) -> None:
    store.results.record_event(claim, "note", {str(number): "x" * 4000 for number in range(100)})
    (row,) = store.results.events(claim.job_id)
    assert row.data["truncated"] is True
    assert len(json.dumps(row.data)) < 200


def test_a_job_that_says_too_much_is_still_followed(
    store: Store, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_EVENTS", 2)
    for nodes in (30, 20, 10):
        store.results.record_event(claim, "progress", {"nodes": nodes})
    assert [row.data["nodes"] for row in store.results.events(claim.job_id)] == [30, 20]
    assert store.jobs.get(claim.job_id).progress == {"nodes": 10}


# Whatever a script may print or compute: NUL, lone surrogates, NaN, depth.
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.dictionaries(st.text(st.characters(codec=None), max_size=10), JSONISH, max_size=4))
def test_whatever_an_engine_says_is_stored(store: Store, claim: Claim, data: dict[str, Any]) -> None:
    store.results.record_event(claim, "note", data)
    row = store.results.events(claim.job_id, after=len(store.results.events(claim.job_id)) - 1)[-1]
    assert row.data == bounds.event_data(data)


def test_numbers_that_json_does_not_know_are_left_out() -> None:
    assert bounds.plain({"atol": float("inf"), "rtol": float("nan"), "max": 1.5}) == {
        "atol": None,
        "rtol": None,
        "max": 1.5,
    }


def test_depth_and_length_are_bounded() -> None:
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    assert len(json.dumps(bounds.plain(nested))) < 60
    assert len(bounds.plain(list(range(10_000)))) == bounds.MAX_ITEMS
    assert bounds.text("x" * 20, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("repro.py", "text/x-python; charset=utf-8"),
        ("report.json", "application/json"),
        ("run.log", "text/plain; charset=utf-8"),
        ("data.pt", "application/octet-stream"),
    ],
)
def test_an_artifact_comes_back_whole(store: Store, claim: Claim, name: str, media_type: str) -> None:
    content = bytes(range(256)) * 100
    store.results.put_artifact(claim, name, content)
    info, found = store.results.artifact(claim.job_id, name)
    assert found == content
    assert (info.name, info.size, info.sha256, info.media_type) == (
        name, len(content), hashlib.sha256(content).hexdigest(), media_type,
    )  # fmt: skip
    assert store.results.artifacts(claim.job_id) == [info]


def test_a_later_artifact_replaces_the_earlier_one(store: Store, claim: Claim) -> None:
    for content in (b"one", b"two", b"two", b""):
        store.results.put_artifact(claim, "repro.py", content)
        assert store.results.artifact(claim.job_id, "repro.py")[1] == content
    store.results.put_artifact(claim, "data.pt", b"data")
    assert [info.name for info in store.results.artifacts(claim.job_id)] == ["data.pt", "repro.py"]


def test_an_artifact_that_is_too_large_is_refused(store: Store, claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_ARTIFACT_BYTES", 10)
    with pytest.raises(ArtifactTooLarge, match=r"data\.pt has 11 bytes; at most 10 are kept"):
        store.results.put_artifact(claim, "data.pt", b"x" * 11)
    with pytest.raises(UnknownArtifact):
        store.results.artifact(claim.job_id, "data.pt")


def test_the_report_so_far_can_be_read_while_the_job_runs(store: Store, claim: Claim) -> None:
    assert store.results.report(claim.job_id) is None
    store.results.put_report(claim, Report(status=Status.MINIMIZED, summary="half-way"))
    report = store.results.report(claim.job_id)
    assert report is not None
    assert (report.schema_, report.summary) == (1, "half-way")
    assert store.jobs.get(claim.job_id).status is Status.RUNNING


def test_the_end_of_a_job_is_what_its_report_says(store: Store, claim: Claim) -> None:
    store.results.finish(
        claim,
        Report(
            status=Status.PARTIAL,
            reason=Reason.BUDGET,
            summary="Time is up.\0",
            failure=Failure(kind=Kind.WRONG_OUTPUT, signature="aten.relu"),
            culprits=[Culprit(ops=["aten.relu"], local_error=Error(required_atol=float("inf")))],
            layers=[Layer(path=f"blocks.{index}", order=index) for index in range(1000)],
            reduction=Reduction(nodes_before=750, nodes_after=1),
        ),
    )
    job = store.jobs.get(claim.job_id)
    assert (job.status, job.reason, job.worker) == (Status.PARTIAL, Reason.BUDGET, "w")
    assert job.summary == "Time is up.\N{REPLACEMENT CHARACTER}"
    assert job.finished_at is not None
    assert job.culprit is not None and job.culprit.ops == ["aten.relu"]
    assert job.reduction is not None and job.reduction.nodes_after == 1
    report = store.results.report(claim.job_id)
    assert report is not None
    assert len(report.layers) == 1000
    assert report.culprits[0].local_error == Error(), "no number of JSON"
    assert json.loads(store.results.artifact(claim.job_id, "report.json")[1]) == report.to_json()


def test_what_another_version_has_written_is_read_as_far_as_it_is_known(store: Store, claim: Claim) -> None:
    newer = {**Report(summary="half-way").to_json(), "layers": [{"path": "a", "order": 0, "colour": "red"}], "more": 1}
    store.results.put_artifact(claim, "report.json", json.dumps(newer).encode())
    report = store.results.report(claim.job_id)
    assert report is not None and (report.summary, report.layers) == ("half-way", [Layer(path="a", order=0)])
    failure = {"kind": "wrong_output", "signature": "relu", "colour": "red"}
    store.results.record_event(claim, "failure", {"failure": failure})
    assert store.jobs.get(claim.job_id).failure == Failure(kind=Kind.WRONG_OUTPUT, signature="relu")


def test_what_cannot_be_read_is_none_and_breaks_nothing(store: Store, claim: Claim) -> None:
    store.results.put_artifact(claim, "report.json", b'{"summary": 7}')
    assert store.results.report(claim.job_id) is None
    store.results.record_event(claim, "culprit", {"culprit": {"ops": "aten.relu"}})
    store.results.record_event(claim, "failure", {"failure": {"kind": "crash", "stage": "of another version"}})
    job = store.jobs.get(claim.job_id)
    assert (job.culprit, job.failure) == (None, None)
    assert [found.id for found in store.jobs.page(kind=Kind.CRASH)[0]] == [job.id], "and its kind is known all the same"


def test_a_job_does_not_end_with_a_report_that_is_not_final(store: Store, claim: Claim) -> None:
    with pytest.raises(ValueError, match="cannot end as running"):
        store.results.finish(claim, Report())
    assert store.jobs.get(claim.job_id).status is Status.RUNNING


def test_nobody_waits_for_content_to_be_packed(store: Store, claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction of SQLite lasts nobody else can write."""
    compress = zlib.compress

    def compress_while_others_write(content: bytes) -> bytes:
        monkeypatch.setattr("minimizer.store.tables.blobs.zlib.compress", compress)
        store.submissions.submit(b"x = 1\n", "meanwhile.py", Options())
        return compress(content)

    def written(write: Callable[[], object]) -> list[str]:
        monkeypatch.setattr("minimizer.store.tables.blobs.zlib.compress", compress_while_others_write)
        with ThreadPoolExecutor(1) as pool:  # a deadlock ends as an error of its thread
            pool.submit(write).result()
        return [job.filename for job in store.jobs.page()[0]]

    new = NewJob(b"y = 2\n", "job.py", Options(), b"archive")
    assert written(lambda: store.results.put_artifact(claim, "data.pt", b"values"))[0] == "meanwhile.py"
    assert written(lambda: store.results.put_report(claim, Report(summary="So far.")))[0] == "meanwhile.py"
    assert written(lambda: store.submissions.submit_many([new], force=True))[:2] == ["job.py", "meanwhile.py"]
    assert written(lambda: store.results.finish(claim, Report(status=Status.HEALTHY)))[0] == "meanwhile.py"


def test_a_job_that_ends_while_its_group_is_merged_is_in_a_group(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(operator: str, claimed: Claim | None = None) -> str:
        if claimed is None:
            job, _ = store.submissions.submit(b"import torch\n", "a.py", Options())
            claimed = store.leases.claim_job(job.id, "w", lease_seconds=60)
            assert claimed is not None
        failure = Failure(kind=Kind.COMPILE_ERROR, exception_type="KeyError", message="m", signature=operator)
        report = Report(status=Status.MINIMIZED, failure=failure, culprits=[Culprit(ops=[operator])])
        try:
            store.results.finish(claimed, report)
        except IntegrityError:  # as `Lease.write` does
            store.results.finish(claimed, report)
        return claimed.job_id

    relu, gelu = (store.groups.of_jobs([fail(name)]).popitem()[1] for name in ("aten.relu", "aten.gelu"))
    late, _ = store.submissions.submit(b"import torch\n", "a.py", Options())
    claimed = store.leases.claim_job(late.id, "w", lease_seconds=60)
    note = grouping.note
    with ThreadPoolExecutor(1) as pool:

        def note_while_it_ends(*given: Any) -> None:
            monkeypatch.setattr("minimizer.store.jobs.grouping.note", note)
            ending.append(pool.submit(fail, "aten.gelu", claimed))
            wait(ending, timeout=0.5)  # it waits for us, or it is done
            note(*given)

        ending: list[Future[str]] = []
        monkeypatch.setattr("minimizer.store.jobs.grouping.note", note_while_it_ends)
        store.groups.merge(relu, gelu, "anna")
        assert ending[0].result() == late.id
    assert store.groups.of_jobs([late.id]) == {late.id: relu}


def test_what_was_answered_survives_a_loss_of_power(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL"
    engine.dispose()


@pytest.mark.parametrize("content", [b"", b"short", bytes(3 << 20), random.Random(1).randbytes(3 << 20)])
def test_content_in_pieces_is_read_once(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left was copied for each piece: 64 MiB of random numbers took the web server ten seconds."""
    packed = blobs.pack(content)
    begin, read = zlib.decompressobj, list[int]()

    class Counted:
        def __init__(self) -> None:
            self._own = begin()

        def decompress(self, given: bytes, most: int) -> bytes:
            read.append(len(given))
            return self._own.decompress(given, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._own, name)

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    pieces = list(blobs._unpacked(packed.compressed))

    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= blobs._PIECE
    assert max(read) <= blobs._PIECE

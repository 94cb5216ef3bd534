"""One job in this process: what the engine is given, and what becomes of what it says or raises."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from zips import zipped

from minimizer.errors import WorkerTrouble
from minimizer.options import Options
from minimizer.report.model import Failure, Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Job, NewJob, Store, Submitter
from minimizer.store.work import results
from minimizer.vocabulary import Kind, Reason, Status
from worker import fitness, tasks
from worker.fitness import Fitness
from worker.tasks import take_jobs

SETTINGS = Settings(
    lease_seconds=1000, heartbeat_seconds=0.05, toolchains="nightly=/opt/nightly/bin/python,old=/opt/old/python"
)
DONE = Report(status=Status.MINIMIZED, summary="Done.")


def submit(store: Store, filename: str = "train.py", **options: object) -> Job:
    return store.submissions.submit(b"print('hello')\n", filename, Options.model_validate(options))[0]


def run(store: Store, job: Job, work: Callable[[Path, Sink], Report], stopping: threading.Event | None = None) -> Job:
    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        assert (options, settings) == (job.options, SETTINGS)
        return work(script, sink)

    take_jobs(store, SETTINGS, worker="w", devices=(), stopping=stopping or threading.Event(), engine=engine)
    return store.jobs.get(job.id)


def test_the_engine_gets_the_script_under_its_name(store: Store) -> None:
    seen = []

    def work(script: Path, sink: Sink) -> Report:
        seen.append((script.name, script.read_bytes()))
        return DONE

    assert run(store, submit(store), work).status is Status.MINIMIZED
    assert seen == [("train.py", b"print('hello')\n")]


@pytest.mark.parametrize(
    "filename", ["../../etc/cron.d/x.py", "-c.py", "a b.py", "train.txt", ".py", "ä.py", "x" * 200 + ".py"]
)
def test_a_name_that_could_do_harm_is_not_used(store: Store, filename: str) -> None:
    names = []

    def work(script: Path, sink: Sink) -> Report:
        names.append(script.name)
        return DONE

    assert run(store, submit(store, filename), work).filename == filename
    assert names == ["script.py"]


@pytest.mark.parametrize(("toolchain", "path"), [(None, None), ("old", Path("/opt/old/python"))])
def test_the_toolchain_is_an_interpreter(store: Store, toolchain: str | None, path: Path | None) -> None:
    given = []

    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        given.append(python)
        return DONE

    submit(store, toolchain=toolchain)
    take_jobs(store, SETTINGS, worker="w", devices=(), stopping=threading.Event(), engine=engine)
    assert given == [path]


@pytest.mark.parametrize("options", [{"toolchain": "newest"}, {"device": "cuda"}])
def test_what_this_worker_lacks_is_left_to_another(store: Store, options: dict[str, str]) -> None:
    lacking, able = submit(store, **options), submit(store)
    assert run(store, able, lambda script, sink: DONE).status is Status.MINIMIZED
    assert store.jobs.get(lacking.id).status is Status.QUEUED
    there = {"devices": ("cuda",), "toolchains": ("newest",)}
    assert (claim := store.leases.claim("other", lease_seconds=60, **there)) and claim.job_id == lacking.id


def test_one_message_is_enough_for_all_that_waits(store: Store) -> None:
    jobs = [submit(store, f"{number}.py") for number in range(3)]
    seen = []

    def work(script: Path, sink: Sink) -> Report:
        seen.append(script.name)
        return DONE

    run(store, jobs[0], work)
    assert seen == ["0.py", "1.py", "2.py"]


def test_an_archive_lies_around_its_script(store: Store) -> None:
    project = zipped({"train/run.py": "import ops", "train/ops.py": "x = 1", "lib/layers.py": "y = 2"})
    new = NewJob(b"import ops", "train/run.py", Options(), project)
    ((job, _),) = store.submissions.submit_many([new])
    seen = []

    def engine(script: Path, *, binds: Sequence[Path], **_: object) -> Report:
        (opened,) = binds
        files = sorted(str(path.relative_to(opened)) for path in opened.rglob("*.py"))
        seen.append((str(script.relative_to(opened)), files))
        return DONE

    take_jobs(store, SETTINGS, worker="w", devices=(), stopping=threading.Event(), engine=engine)
    assert store.jobs.get(job.id).status is Status.MINIMIZED
    assert seen == [("train/run.py", ["lib/layers.py", "train/ops.py", "train/run.py"])]


def test_an_engine_that_breaks_is_our_fault_and_what_it_found_is_kept(store: Store) -> None:
    def work(script: Path, sink: Sink) -> Report:
        sink.artifact("repro.py", b"so far")
        sink.report(Report(failure=Failure(kind=Kind.CRASH, signature="SIGSEGV")))
        raise ZeroDivisionError("division by zero")

    job = run(store, submit(store), work)
    assert (job.status, job.reason) == (Status.FAILED, Reason.INTERNAL_ERROR)
    assert "The minimizer itself failed (ZeroDivisionError: division by zero)" in job.summary
    assert job.failure is not None and job.failure.signature == "SIGSEGV"
    assert store.results.artifact(job.id, "repro.py")[1] == b"so far"


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), OSError(errno.ENOSPC, "No space left")])
def test_an_engine_that_breaks_behind_its_verdict_keeps_it(store: Store, error: Exception) -> None:
    def work(script: Path, sink: Sink) -> Report:
        sink.report(DONE)
        raise error

    submitted = submit(store)
    job = run(store, submitted, work)
    assert (job.status, job.reason, job.attempt) == (DONE.status, DONE.reason, 1)
    report = store.results.report(submitted.id)
    assert report is not None and type(error).__name__ in report.notes[-1]


TROUBLE = Report(status=Status.FAILED, reason=Reason.WORKER_TROUBLE, summary="This machine could not do the job.")


@pytest.mark.parametrize("error", [WorkerTrouble("no folder can be made"), OSError(errno.ENOSPC, "No space left")])
def test_trouble_of_the_machine_is_no_verdict(store: Store, error: Exception) -> None:
    def work(script: Path, sink: Sink) -> Report:
        raise error

    submitted = submit(store)
    job = run(store, submitted, work)
    assert (job.status, job.attempt) == (Status.QUEUED, 1)

    take_jobs(store, SETTINGS, worker="another", devices=(), stopping=threading.Event(), engine=lambda *_, **__: DONE)
    assert store.jobs.get(job.id).status is Status.MINIMIZED


def test_trouble_of_every_machine_ends_the_job_and_is_no_answer(store: Store) -> None:
    submitted = submit(store)
    for worker in ("one", "two", "three"):
        take_jobs(
            store, SETTINGS, worker=worker, devices=(), stopping=threading.Event(), engine=lambda *_, **__: TROUBLE
        )
    job = store.jobs.get(submitted.id)
    assert (job.status, job.reason, job.attempt) == (Status.FAILED, Reason.WORKER_TROUBLE, 3)
    assert submit(store).id != job.id, "who asks the same gets an attempt of his own"


def test_a_worker_that_is_not_fit_takes_no_job(store: Store) -> None:
    job = submit(store)
    sick = Fitness(lambda: "the disk is full")
    take_jobs(
        store, SETTINGS, worker="w", devices=(), stopping=threading.Event(), engine=lambda *_, **__: DONE, fitness=sick
    )
    assert (store.jobs.get(job.id).status, store.jobs.get(job.id).attempt) == (Status.QUEUED, 0)
    assert [waiting.id for waiting in store.leases.stale_queued(older_than=60)] == [job.id], "others are told"


def test_a_worker_that_falls_sick_while_it_waits_for_its_turn_takes_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitness, "LOOK_SECONDS", 0)  # the wait is over in no time here
    answers = iter(["", "the disk is full"])
    job = submit(store)
    sick = Fitness(lambda: next(answers))
    take_jobs(
        store, SETTINGS, worker="w", devices=(), stopping=threading.Event(), engine=lambda *_, **__: DONE, fitness=sick
    )
    assert (store.jobs.get(job.id).status, store.jobs.get(job.id).attempt) == (Status.QUEUED, 0)


def test_an_engine_without_an_end_is_our_fault(store: Store) -> None:
    job = run(store, submit(store), lambda script, sink: Report())
    assert (job.status, job.reason) == (Status.FAILED, Reason.INTERNAL_ERROR)


def test_a_worker_that_stops_takes_no_job(store: Store) -> None:
    stopping = threading.Event()
    stopping.set()
    job = run(store, submit(store), lambda script, sink: DONE, stopping)
    assert (job.status, job.attempt) == (Status.QUEUED, 0)


def test_a_job_that_ends_while_the_worker_stops_has_ended(store: Store) -> None:
    stopping = threading.Event()

    def work(script: Path, sink: Sink) -> Report:
        stopping.set()
        assert sink.cancelled()
        return DONE

    assert run(store, submit(store), work, stopping).status is Status.MINIMIZED


@pytest.mark.parametrize("reason", [Reason.NOT_RUNNABLE, Reason.FAILS_IN_EAGER, Reason.INTERNAL_ERROR])
def test_what_the_stop_itself_may_have_caused_is_no_verdict(store: Store, reason: Reason) -> None:
    """Whoever stops a service may send the signal to all of its processes, those of the script too."""
    stopping = threading.Event()

    def work(script: Path, sink: Sink) -> Report:
        stopping.set()
        return Report(status=Status.FAILED, reason=reason, summary="The process went away.")

    job = run(store, submit(store), work, stopping)
    assert (job.status, job.attempt) == (Status.QUEUED, 0)


@pytest.mark.parametrize(
    ("access", "user", "sandbox"),
    [("off", "", "auto"), ("off", "anna/5f1b9a3c2d4e", "required"), ("on", "", "required")],
)
def test_a_script_of_somebody_who_signed_in_runs_in_the_sandbox_only(
    store: Store, access: str, user: str, sandbox: str
) -> None:
    """Whatever the worker's own settings are: that access control is on is a setting of the web server."""
    given = []

    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        given.append(settings.sandbox)
        return DONE

    settings = SETTINGS.model_copy(update={"access": access})
    assert settings.sandbox == "auto"
    store.submissions.submit_many([NewJob(b"x = 1\n", "a.py", Options())], by=Submitter(user))
    take_jobs(store, settings, worker="w", devices=(), stopping=threading.Event(), engine=engine)
    assert given == [sandbox]


def test_a_sandbox_that_is_missing_here_is_no_verdict(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "why_no_bubblewrap", lambda: "bubblewrap is not installed")
    ((job, _),) = store.submissions.submit_many([NewJob(b"x = 1\n", "a.py", Options())], by=Submitter("anna"))
    for worker, status in (("one", Status.QUEUED), ("two", Status.QUEUED), ("three", Status.FAILED)):
        take_jobs(store, SETTINGS, worker=worker, devices=(), stopping=threading.Event(), engine=lambda *_, **__: DONE)
        assert store.jobs.get(job.id).status is status
    ended = store.jobs.get(job.id)
    assert ended.reason is Reason.WORKER_TROUBLE and "bubblewrap is not installed" in ended.summary


def test_a_worker_whose_files_scripts_could_read_has_no_job_of_somebody_who_signed_in(store: Store) -> None:
    """With its sandbox off and access control a matter of the web server, it has not looked when it started."""
    settings = SETTINGS.model_copy(update={"sandbox": "off", "data_dir": Path(sys.prefix, "lib", "data")})
    for user, reason in (("", None), ("anna", Reason.WORKER_TROUBLE)):
        ((job, _),) = store.submissions.submit_many(
            [NewJob(f"x = '{user}'\n".encode(), "a.py", Options())], by=Submitter(user)
        )
        for worker in ("one", "two", "three"):
            take_jobs(
                store, settings, worker=worker, devices=(), stopping=threading.Event(), engine=lambda *_, **__: DONE
            )
        ended = store.jobs.get(job.id)
        assert ended.reason is reason
    assert "which every script can read" in ended.summary


def test_a_cancelled_job_is_cancelled_even_while_the_worker_stops(store: Store) -> None:
    job, stopping, cancelled = submit(store), threading.Event(), threading.Event()

    def work(script: Path, sink: Sink) -> Report:
        store.jobs.request_cancel(job.id)
        while not sink.cancelled():
            cancelled.wait(0.01)
        stopping.set()
        return Report(status=Status.CANCELLED, summary="Stopped.")

    assert run(store, job, work, stopping).status is Status.CANCELLED


def test_the_engine_learns_which_step_to_skip(store: Store) -> None:
    job, noticed = submit(store), threading.Event()

    def work(script: Path, sink: Sink) -> Report:
        sink.event("progress", elapsed=1.0, decided=True, skippable="witness")
        assert sink.skipped() is None
        store.jobs.request_skip(job.id)
        while sink.skipped() is None:
            noticed.wait(0.01)
        assert (sink.skipped(), sink.cancelled()) == ("witness", False)
        return DONE

    assert run(store, job, work).status is Status.MINIMIZED


def test_an_engine_that_lost_its_job_is_stopped_and_not_heard(store: Store) -> None:
    job, noticed = submit(store), threading.Event()

    def work(script: Path, sink: Sink) -> Report:
        claim = store.jobs.get(job.id)
        with store._database.write() as session:
            session.execute(text("UPDATE jobs SET fence = fence + 1"))
        while not sink.cancelled():
            noticed.wait(0.01)
        sink.event("note", message="too late")
        sink.artifact("repro.py", b"too late")
        sink.report(DONE)
        assert store.jobs.get(job.id) == claim
        return DONE

    assert run(store, job, work).status is Status.RUNNING, "it is the other worker's to end"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_connections_that_break_cost_nothing(store: Store, database_url: str) -> None:
    def work(script: Path, sink: Sink) -> Report:
        server = create_engine(database_url, isolation_level="AUTOCOMMIT")
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
        with server.connect() as connection:
            connection.execute(text(others))
        server.dispose()
        sink.artifact("repro.py", b"found")
        return DONE

    job = run(store, submit(store), work)
    assert (job.status, job.attempt) == (Status.MINIMIZED, 1)
    assert store.results.artifact(job.id, "repro.py")[1] == b"found"


def test_a_burst_of_progress_is_thinned_out_but_its_last_word_is_kept(store: Store) -> None:
    def work(script: Path, sink: Sink) -> Report:
        for nodes in range(100, 0, -1):
            sink.event("progress", nodes=nodes)
        sink.event("step", step="emit", state="started")
        return DONE

    job = run(store, submit(store), work)
    types = [row.type for row in store.results.events(job.id)]
    assert types[0] == "progress" and types[-2:] == ["progress", "step"]
    assert len(types) < 100
    assert job.progress == {"nodes": 1}


def test_the_last_progress_is_told_though_nothing_follows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    job = submit(store)

    def work(script: Path, sink: Sink) -> Report:
        for nodes in (3, 2, 1):
            sink.event("progress", nodes=nodes)
        monkeypatch.setattr("worker.sink._PROGRESS_SECONDS", 0)
        assert not sink.cancelled()
        shown.append(store.jobs.get(job.id).progress)
        return DONE

    run(store, job, work)
    assert shown == [{"nodes": 1}]


def test_an_artifact_that_is_too_large_is_noted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(script: Path, sink: Sink) -> Report:
        with monkeypatch.context() as patch:
            patch.setattr(results, "MAX_ARTIFACT_BYTES", 100)
            sink.artifact("data.pt", b"x" * 101)
        return DONE

    job = run(store, submit(store), work)
    assert job.status is Status.MINIMIZED
    (note,) = store.results.events(job.id)
    assert note.data["message"].startswith("data.pt has 101 bytes; at most 100 are kept")
    assert [info.name for info in store.results.artifacts(job.id)] == ["report.json"]


def test_the_next_attempt_finds_what_a_killed_one_has_left(store: Store) -> None:
    job = submit(store)
    claim = store.leases.claim_job(job.id, "killed", lease_seconds=60)
    assert claim is not None
    store.results.put_artifact(claim, "checkpoint.json", b"so far")
    with store._database.write() as session:
        session.execute(text("UPDATE jobs SET lease_until = '2000-01-01 00:00:00'"))
    assert [one.id for one in store.leases.requeue_expired(max_attempts=3)] == [job.id]
    found = []

    def work(script: Path, sink: Sink) -> Report:
        found.append(sink.earlier("checkpoint.json"))
        found.append(sink.earlier("repro.py"))
        sink.discard("checkpoint.json")
        sink.discard("repro.py")
        return DONE

    assert run(store, job, work).status is Status.MINIMIZED
    assert found == [b"so far", None]
    assert [info.name for info in store.results.artifacts(job.id)] == ["report.json"]


def test_a_retried_job_begins_at_the_beginning(store: Store) -> None:
    found = []

    def work(script: Path, sink: Sink) -> Report:
        found.append(sink.earlier("checkpoint.json"))
        sink.artifact("checkpoint.json", b"so far")
        return Report(status=Status.PARTIAL, reason=Reason.BUDGET, summary="Time was up.")

    job = run(store, submit(store), work)
    run(store, store.submissions.retry(job.id), work)
    assert found == [None, None]

"""`minimizer submit`, `status` and `download` against the real web application on a real store; the test is the worker."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from minimizer.cli import main
from minimizer.options import Options
from minimizer.report import Failure, Report
from minimizer.settings import Settings
from minimizer.store import Claim, Job, Store
from minimizer.store.migrate import upgrade
from minimizer.types import Kind, Reason, Status
from web.factory import create_app

Minimizer = Callable[..., tuple[int, str, str]]
Work = Callable[[Store, Claim], Report]


class Service:
    """A served application whose worker is a function of the test, run for each job that is rung for."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(data_dir=folder, trial_jobs=1)
        upgrade(settings.resolved_database_url)
        self.store = Store.open(settings.resolved_database_url)
        self.work: Work | None = None
        self._jobs: list[threading.Thread] = []
        app = create_app(settings, self.store, self._ring)
        self._app = app.extensions["minimizer"]
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        for job in self._jobs:
            job.join()
        self._app.close()
        self._server.server_close()
        self.store.close()

    def _ring(self, job: Job) -> None:
        if self.work is not None:
            self._jobs.append(threading.Thread(target=self._run, args=(self.work, job.id)))
            self._jobs[-1].start()

    def _run(self, work: Work, job_id: str) -> None:
        claim = self.store.claim_job(job_id, "test", lease_seconds=60)
        assert claim is not None
        self.store.finish(claim, work(self.store, claim))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path / "data")
    yield running
    running.close()


@pytest.fixture
def minimizer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Minimizer:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["minimizer", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, captured.out, captured.err

    return call


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    return path


def minimized(store: Store, claim: Claim) -> Report:
    store.record_event(claim, "step", {"step": "reduce", "state": "started"})
    store.record_event(claim, "progress", {"nodes": 3, "nodes_before": 90, "trials": 8})
    store.put_artifact(claim, "repro.py", b"raise SystemExit(1)\n")
    store.put_artifact(claim, "run.log", b"log\n")
    failure = Failure(kind=Kind.WRONG_OUTPUT)
    return Report(status=Status.MINIMIZED, summary="relu is wrong.", failure=failure)


def test_submit_and_wait_brings_the_results_home(
    service: Service, minimizer: Minimizer, script: Path, tmp_path: Path
) -> None:
    service.work = minimized
    out = tmp_path / "out"
    status, said, _ = minimizer(
        "submit", script, "--server", service.url, "--wait", "--out", out, "--budget", 60, "--", "-x"
    )
    assert status == 0
    assert (out / "repro.py").read_bytes() == b"raise SystemExit(1)\n"
    assert (out / "run.log").exists()
    assert json.loads((out / "report.json").read_text())["summary"] == "relu is wrong."
    assert "MINIMIZED" in said and str(out / "repro.py") in said
    (job,), _ = service.store.jobs()
    assert (job.filename, job.options) == ("train.py", Options(budget=60, args=["-x"]))
    assert service.store.script(job.id) == b"import torch\n"


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (Report(status=Status.HEALTHY), 3),
        (Report(status=Status.PARTIAL, reason=Reason.BUDGET), 4),
        (Report(status=Status.FAILED, reason=Reason.NOTHING_COMPILED), 5),
        (Report(status=Status.FAILED, reason=Reason.INTERNAL_ERROR), 1),
    ],
)
def test_submit_and_wait_exits_as_run_does(
    service: Service, minimizer: Minimizer, script: Path, report: Report, expected: int
) -> None:
    service.work = lambda store, claim: report
    assert minimizer("submit", script, "--server", service.url, "--wait")[0] == expected


def test_submit_with_json_ends_with_the_report(service: Service, minimizer: Minimizer, script: Path) -> None:
    service.work = minimized
    _, said, _ = minimizer("submit", script, "--server", service.url, "--wait", "--json")
    assert Report.model_validate(json.loads(said)).status is Status.MINIMIZED


def test_submit_prints_the_address_of_the_job(service: Service, minimizer: Minimizer, script: Path) -> None:
    status, said, _ = minimizer("submit", script, "--server", service.url)
    (job,), _ = service.store.jobs()
    assert (status, said.strip()) == (0, f"{service.url}/jobs/{job.id}")


def test_status_lists_jobs_and_shows_one(service: Service, minimizer: Minimizer) -> None:
    first, _ = service.store.submit(b"import torch\n", "first.py", Options())
    service.store.submit(b"import torch\n", "second.py", Options())
    status, said, _ = minimizer("status", "--server", service.url)
    assert status == 0
    assert [line.split()[2] for line in said.splitlines()] == ["second.py", "first.py"]
    _, one, _ = minimizer("status", first.id, "--server", service.url, "--json")
    assert json.loads(one)["filename"] == "first.py"


def test_download_fetches_what_is_there(service: Service, minimizer: Minimizer, script: Path, tmp_path: Path) -> None:
    service.work = minimized
    minimizer("submit", script, "--server", service.url, "--wait")
    (job,), _ = service.store.jobs()
    status, said, _ = minimizer("download", job.id, "--server", service.url, "--out", tmp_path / "got")
    assert status == 0
    assert {Path(line).name for line in said.splitlines()} == {"repro.py", "run.log", "report.json"}
    assert all(Path(line).exists() for line in said.splitlines())


def test_download_before_there_is_anything(service: Service, minimizer: Minimizer) -> None:
    job, _ = service.store.submit(b"import torch\n", "first.py", Options())
    status, _, said = minimizer("download", job.id, "--server", service.url)
    assert status == 2
    assert "no results yet" in said


@pytest.mark.parametrize("command", [("status",), ("download",)])
def test_an_unknown_job_is_said_to_be_unknown(service: Service, minimizer: Minimizer, command: tuple[str]) -> None:
    status, _, said = minimizer(*command, "no-such-job", "--server", service.url)
    assert status == 2
    assert "There is no job with this id" in said


def test_what_the_service_refuses_is_shown(service: Service, minimizer: Minimizer, script: Path) -> None:
    status, _, said = minimizer("submit", script, "--server", service.url, "--toolchain", "nightly")
    assert status == 2
    assert "toolchain" in said and "nightly" in said


def test_a_bad_script_does_not_leave_this_machine(service: Service, minimizer: Minimizer, script: Path) -> None:
    script.write_text("def f(:\n")
    status, _, said = minimizer("submit", script, "--server", service.url)
    assert (status, service.store.jobs()[0]) == (2, [])
    assert "is not Python" in said


def test_no_service_there(minimizer: Minimizer, script: Path) -> None:
    status, _, said = minimizer("submit", script, "--server", "http://127.0.0.1:9")
    assert status == 1
    assert "no service answers at http://127.0.0.1:9" in said and "minimizer serve" in said


def test_an_address_that_is_none(minimizer: Minimizer, script: Path) -> None:
    status, _, said = minimizer("submit", script, "--server", "localhost:8000")
    assert status == 2
    assert "not an address" in said

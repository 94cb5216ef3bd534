"""`minimizer submit`, `status` and `download` against the real web application on a real store; the test is the worker."""

from __future__ import annotations

import json
import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError

import pytest
from webtest import Hands
from werkzeug.serving import make_server

from minimizer.cli import main
from minimizer.cli.client import BUSY_TRIES, Client, NotReachable
from minimizer.cli.remote import follow
from minimizer.options import Options
from minimizer.report.model import Failure, Report, Verification
from minimizer.script_text import MAX_SCRIPT_BYTES
from minimizer.service import archive
from minimizer.settings import Settings
from minimizer.store import Claim, Job, Store
from minimizer.store.tables.migrate import upgrade
from minimizer.vocabulary import Kind, Reason, Role, Scope, Stage, Status
from web.factory import create_app

Minimizer = Callable[..., tuple[int, str, str]]
Work = Callable[[Store, Claim], Report]


class Service:
    """A served application whose worker is a function of the test, run for each job that is rung for."""

    def __init__(self, folder: Path, access: Literal["off", "on"] = "off") -> None:
        settings = Settings(data_dir=folder, trial_jobs=1, access=access)
        upgrade(settings.resolved_database_url)
        self.store = Store.open(settings.resolved_database_url)
        self.work: Work | None = None
        self.on_ring: Callable[[Job], None] = lambda job: None
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

    def take_all_polls(self) -> None:
        """Leave no place for a client that waits."""
        while self._app.polls.take():
            pass

    def _ring(self, job: Job) -> None:
        self.on_ring(job)
        if self.work is not None:
            self._jobs.append(threading.Thread(target=self._run, args=(self.work, job.id)))
            self._jobs[-1].start()

    def _run(self, work: Work, job_id: str) -> None:
        claim = self.store.leases.claim_job(job_id, "test", lease_seconds=60)
        assert claim is not None
        self.store.results.finish(claim, work(self.store, claim))


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
    store.results.record_event(claim, "step", {"step": "reduce", "state": "started"})
    store.results.record_event(claim, "progress", {"nodes": 3, "nodes_before": 90, "trials": 8})
    store.results.put_artifact(claim, "repro.py", b"raise SystemExit(1)\n")
    store.results.put_artifact(claim, "run.log", b"log\n")
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
    (job,), _ = service.store.jobs.page()
    assert (job.filename, job.options) == ("train.py", Options(budget=60, args=["-x"]))
    assert service.store.jobs.script(job.id) == b"import torch\n"


def test_a_folder_is_sent_with_all_in_it(service: Service, minimizer: Minimizer, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name in ("main.py", "net/model.py", ".git/config"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    asked = ("submit", folder, "--server", service.url, "--force", "--budget", 60)
    status, said, heard = minimizer(*asked, "--", "--size", "4 x")
    assert status == 0 and "Sent 2 files" in heard and "main.py is run" in heard
    (job,), _ = service.store.jobs.page()
    assert said.strip() == f"{service.url}/jobs/{job.id}"
    assert (job.filename, job.options) == ("main.py", Options(budget=60, args=["--size", "4 x"]))
    packed = service.store.jobs.archive(job.id)
    assert packed is not None
    assert archive.read(packed) == {"main.py": b"# main.py\n", "net/model.py": b"# net/model.py\n"}
    assert "Asked before" not in minimizer(*asked[:4])[2], "with other options"


def test_a_folder_that_has_not_changed_was_asked_before(service: Service, minimizer: Minimizer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "main.py").write_text("import torch\n")
    service.work = minimized
    asked = ("submit", tmp_path / "project", "--server", service.url, "--wait")
    assert minimizer(*asked)[0] == 0
    (tmp_path / "project" / "main.py").touch()
    assert "Asked before" in minimizer(*asked)[2]
    status, _, heard = minimizer("submit", tmp_path / "project", "--main", "other.py", "--server", service.url)
    assert status == 2 and "--main other.py" in heard


def test_results_of_another_job_do_not_stay_beside_those_of_this_one(
    service: Service, minimizer: Minimizer, script: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "data.pt").write_bytes(b"of the user's own")
    service.work = minimized
    assert minimizer("submit", script, "--server", service.url, "--wait", "--out", out)[0] == 0
    script.write_text("import torch  # mended\n")
    service.work = lambda store, claim: Report(status=Status.HEALTHY, summary="All is well.")
    status, said, _ = minimizer("submit", script, "--server", service.url, "--wait", "--out", out)
    assert status == 3 and "repro.py" not in said
    assert not (out / "repro.py").exists()
    assert (out / "data.pt").read_bytes() == b"of the user's own"


def test_an_answer_from_before_is_said_to_be_one(service: Service, minimizer: Minimizer, script: Path) -> None:
    service.work = minimized
    asked = ("submit", script, "--server", service.url, "--wait")
    assert "Asked before" not in minimizer(*asked)[2]
    assert "Asked before" in minimizer(*asked)[2]
    assert "Asked before" not in minimizer(*asked, "--force")[2]
    assert len(service.store.jobs.page()[0]) == 2


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


def cancelled_while_it_ran(store: Store, job: Job) -> None:
    claim = store.leases.claim_job(job.id, "test", lease_seconds=-1)
    assert claim is not None
    store.results.put_report(claim, Report(failure=Failure(kind=Kind.WRONG_OUTPUT)))
    store.jobs.request_cancel(job.id)
    store.leases.requeue_expired(max_attempts=3)


def cancelled_while_it_waited(store: Store, job: Job) -> None:
    store.jobs.request_cancel(job.id)


def given_up(store: Store, job: Job) -> None:
    claim = store.leases.claim_job(job.id, "test", lease_seconds=-1)
    assert claim is not None
    store.results.put_report(claim, Report())
    store.leases.requeue_expired(max_attempts=1)


@pytest.mark.parametrize("more", [(), ("--json",), ("--fail-on", "any", "--junit", "junit.xml")])
@pytest.mark.parametrize(
    ("end", "expected", "words"),
    [
        (cancelled_while_it_ran, 130, "what it has found so far is kept"),
        (cancelled_while_it_waited, 130, "it had found nothing yet"),
        (given_up, 5, "fell silent"),
    ],
)
def test_a_job_that_ended_without_its_worker_is_told_as_any_other(
    service: Service,
    minimizer: Minimizer,
    script: Path,
    end: Callable[[Store, Job], None],
    expected: int,
    words: str,
    more: tuple[str, ...],
) -> None:
    service.on_ring = lambda job: end(service.store, job)
    status, said, _ = minimizer("submit", script, "--server", service.url, "--wait", *more)
    assert status == expected
    assert words in said
    if "--json" in more:
        assert json.loads(said)["status"] in ("cancelled", "failed")
    if "--junit" in more:
        assert words in Path("junit.xml").read_text()


def test_the_status_of_the_job_counts_whatever_its_report_says(minimizer: Minimizer, script: Path) -> None:
    job = {
        "id": "job1",
        "status": "cancelled",
        "reason": "interrupted",
        "summary": "Stopped.",
        "report": {"status": "running"},
    }
    nothing = json.dumps({"artifacts": []}).encode()
    body = json.dumps(job).encode()
    with answering((202, {}, body), (200, {}, body), (200, {}, nothing)) as url:
        status, said, _ = minimizer("submit", script, "--server", url, "--wait", "--json")
    assert status == 130
    assert json.loads(said)["status"] == "cancelled"


def test_submit_with_json_ends_with_the_report(service: Service, minimizer: Minimizer, script: Path) -> None:
    service.work = minimized
    _, said, _ = minimizer("submit", script, "--server", service.url, "--wait", "--json")
    assert Report.model_validate(json.loads(said)).status is Status.MINIMIZED


def test_submit_prints_the_address_of_the_job(service: Service, minimizer: Minimizer, script: Path) -> None:
    status, said, _ = minimizer("submit", script, "--server", service.url)
    (job,), _ = service.store.jobs.page()
    assert (status, said.strip()) == (0, f"{service.url}/jobs/{job.id}")


def test_a_job_goes_to_the_project_that_is_named(service: Service, minimizer: Minimizer, script: Path) -> None:
    service.store.projects.create("compiler")
    assert minimizer("submit", script, "--server", service.url, "--project", "compiler")[0] == 0
    ((job,), _) = service.store.jobs.page()
    assert job.project == "compiler"
    status, _, said = minimizer("submit", script, "--server", service.url, "--project", "nowhere")
    assert status == 2
    assert "there is no project 'nowhere'" in said


def test_status_lists_jobs_and_shows_one(service: Service, minimizer: Minimizer) -> None:
    first, _ = service.store.submissions.submit(b"import torch\n", "first.py", Options())
    service.store.submissions.submit(b"import torch\n", "second.py", Options())
    status, said, _ = minimizer("status", "--server", service.url)
    assert status == 0
    head, *rows = said.splitlines()
    assert head.split() == ["JOB", "SUBMITTED", "STATUS", "SCRIPT", "FAILURE"]
    assert [row[head.index("SCRIPT") :] for row in rows] == ["second.py", "first.py"]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", row[head.index("SUBMITTED") :]) for row in rows)
    _, one, _ = minimizer("status", first.id, "--server", service.url, "--json")
    assert json.loads(one)["filename"] == "first.py"


def test_status_of_a_job_says_how_it_stands_and_where_its_page_is(
    service: Service, minimizer: Minimizer, script: Path
) -> None:
    job, _ = service.store.submissions.submit(b"import torch\n", "first.py", Options())
    claim = service.store.leases.claim_job(job.id, "w", lease_seconds=60)
    assert claim is not None
    service.store.results.record_event(claim, "step", {"step": "reduce", "state": "started"})
    service.store.results.record_event(claim, "progress", {"nodes": 3, "nodes_before": 40})
    _, said, _ = minimizer("status", job.id, "--server", service.url)
    assert re.search(rf"^job +{job.id}, submitted \d{{4}}-.* UTC$", said, re.MULTILINE)
    assert re.search(r"^status +running, reducing, nodes 40 to 3$", said, re.MULTILINE)
    assert said.splitlines()[-1] == f"page       {service.url}/jobs/{job.id}"
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR)
    service.store.results.finish(claim, Report(status=Status.MINIMIZED, summary="relu is wrong.", failure=failure))
    _, said, _ = minimizer("status", job.id, "--server", service.url)
    assert {"MINIMIZED", "relu is wrong.", "failure    wrong_output in inductor"} <= set(said.splitlines())


def test_download_fetches_what_is_there(service: Service, minimizer: Minimizer, script: Path, tmp_path: Path) -> None:
    service.work = minimized
    minimizer("submit", script, "--server", service.url, "--wait")
    (job,), _ = service.store.jobs.page()
    status, said, _ = minimizer("download", job.id, "--server", service.url, "--out", tmp_path / "got")
    assert status == 0
    assert {Path(line).name for line in said.splitlines()} == {"repro.py", "run.log", "report.json"}
    assert all(Path(line).exists() for line in said.splitlines())


def test_download_before_there_is_anything(service: Service, minimizer: Minimizer) -> None:
    job, _ = service.store.submissions.submit(b"import torch\n", "first.py", Options())
    status, _, said = minimizer("download", job.id, "--server", service.url)
    assert status == 2
    assert "no results yet" in said
    service.store.jobs.request_cancel(job.id)
    status, _, said = minimizer("download", job.id, "--server", service.url)
    assert status == 2
    assert "left no results" in said and "yet" not in said


def test_what_needs_an_end_is_refused_without_one(service: Service, minimizer: Minimizer, script: Path) -> None:
    for option in (("--out", "x"), ("--fail-on", "any"), ("--junit", "x.xml")):
        status, _, said = minimizer("submit", script, "--server", service.url, *option)
        assert (status, service.store.jobs.page()[0]) == (2, [])
        assert f"{option[0]}" in said and "need --wait" in said


def test_a_known_failure_is_called_known_by_every_gate(service: Service, minimizer: Minimizer, script: Path) -> None:
    def verified(store: Store, claim: Claim) -> Report:
        report = minimized(store, claim)
        return report.model_copy(
            update={
                "verification": Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True)
            }
        )

    service.work = verified
    submit = ("submit", script, "--server", service.url, "--wait", "--fail-on")
    status, _, said = minimizer(*submit, "any")
    assert (status, "(new)" in said, "--baseline" in said) == (6, True, False)
    (group,) = service.store.groups.newest()
    service.store.groups.describe(group.signature, "anna", note="ours")
    status, _, said = minimizer(*submit, "any")
    assert (status, "(known)" in said) == (6, True)
    assert minimizer(*submit, "new")[0] == 0
    assert minimizer(*submit, "new", "--force")[0] == 0
    newest = service.store.jobs.page()[0][0]
    service.store.groups.split(group.signature, [newest.id], "anna")
    assert minimizer(*submit, "new", "--force")[0] == 6, "what was split off follows its own group, which has no note"


def test_a_service_that_goes_at_the_last_moment_spoils_only_what_depends_on_it(
    service: Service, minimizer: Minimizer, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(client: Client, job: Any) -> bool:
        raise NotReachable("no service answers")

    service.work = minimized
    monkeypatch.setattr(Client, "is_known", gone)
    submit = ("submit", script, "--server", service.url, "--wait")
    assert minimizer(*submit)[0] == 0
    assert minimizer(*submit, "--fail-on", "any")[0] == 0, "it is not verified"
    assert minimizer(*submit, "--fail-on", "new")[0] == 1


@pytest.mark.parametrize("command", [("status",), ("download",)])
def test_an_unknown_job_is_said_to_be_unknown(service: Service, minimizer: Minimizer, command: tuple[str]) -> None:
    status, _, said = minimizer(*command, "no-such-job", "--server", service.url)
    assert status == 2
    assert "There is no job with this id" in said


def test_what_the_service_refuses_is_shown(service: Service, minimizer: Minimizer, script: Path) -> None:
    status, _, said = minimizer("submit", script, "--server", service.url, "--toolchain", "nightly")
    assert status == 2
    assert "toolchain" in said and "nightly" in said


def test_how_large_a_script_may_be_is_for_the_service_to_say(minimizer: Minimizer, script: Path) -> None:
    script.write_text("#" * (MAX_SCRIPT_BYTES + 1))
    with answering((202, {}, json.dumps({"id": "job1", "status": "queued"}).encode())) as url:
        status, said, _ = minimizer("submit", script, "--server", url)
    assert status == 0 and said == f"{url}/jobs/job1\n"


def test_a_bad_script_does_not_leave_this_machine(service: Service, minimizer: Minimizer, script: Path) -> None:
    script.write_text("def f(:\n")
    status, _, said = minimizer("submit", script, "--server", service.url)
    assert (status, service.store.jobs.page()[0]) == (2, [])
    assert "is not Python" in said


def test_no_service_there(minimizer: Minimizer, script: Path) -> None:
    status, _, said = minimizer("submit", script, "--server", "http://127.0.0.1:9")
    assert status == 1
    assert "no service answers at http://127.0.0.1:9" in said and "minimizer serve" in said


def test_https_to_a_service_without_it_is_told(service: Service, minimizer: Minimizer) -> None:
    host = service.url.removeprefix("http://")
    status, _, said = minimizer("status", "--server", f"https://{host}")
    assert status == 1
    assert f"it may speak plain http: try --server http://{host}" in said
    assert "plain http" not in minimizer("status", "--server", "https://127.0.0.1:9")[2]


@pytest.mark.parametrize(
    ("reason", "hinted"),
    [
        (TimeoutError("_ssl.c:989: The handshake operation timed out"), True),
        (ssl.SSLError("wrong version number"), True),
        (ConnectionResetError("reset"), True),
        (ssl.SSLCertVerificationError("self-signed certificate"), False),
        (TimeoutError("timed out"), False),
        (ConnectionRefusedError("refused"), False),
    ],
)
def test_what_a_failed_handshake_says(monkeypatch: pytest.MonkeyPatch, reason: Exception, hinted: bool) -> None:
    client = Client("https://example.test")

    def fail(*arguments: object, **more: object) -> None:
        raise URLError(reason)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "_open", fail)
    with pytest.raises(NotReachable) as raised:
        client.jobs(1)
    assert ("try --server http://example.test" in str(raised.value)) == hinted


@pytest.mark.parametrize(
    "address",
    ["localhost:8000", "http://", "http://[::1", "http://127.0.0.1:eighty", "http://127.0.0.1:99999", "http://a b"],
)
def test_an_address_that_is_none(minimizer: Minimizer, script: Path, address: str) -> None:
    status, _, said = minimizer("submit", script, "--server", address)
    assert status == 2
    assert "not an address; it looks like http://" in said


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"\xff\xfe\x00", "is not UTF-8 text"), (b"x = 1\0", "is not Python")],
)
def test_a_file_that_is_no_script_is_not_sent(minimizer: Minimizer, script: Path, content: bytes, words: str) -> None:
    script.write_bytes(content)
    status, _, said = minimizer("submit", script, "--server", "http://127.0.0.1:9")
    assert status == 2
    assert words in said and "line None" not in said


@pytest.mark.parametrize("name", ["nothing.py", "."])
def test_a_script_that_is_not_there_is_wrong_usage(minimizer: Minimizer, name: str) -> None:
    assert minimizer("submit", name, "--server", "http://127.0.0.1:9")[0] == 2


@pytest.mark.parametrize("option", ["--out", "--junit", "--sarif"])
@pytest.mark.parametrize("command", [("submit", "--wait"), ("run",)])
def test_a_result_that_could_not_be_written_is_refused_before_the_work(
    service: Service, minimizer: Minimizer, script: Path, command: tuple[str, ...], option: str
) -> None:
    server = ("--server", service.url) if command[0] == "submit" else ()
    status, _, said = minimizer(*command, script, *server, option, script / "below")
    assert (status, service.store.jobs.page()[0]) == (2, [])
    assert f"{option} {script / 'below'} cannot be written" in said


@pytest.mark.parametrize("more", [("--out", "/proc/nope"), ()])
def test_a_folder_that_cannot_be_made_is_refused_before_the_job_is_sent(
    service: Service, minimizer: Minimizer, script: Path, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    status, _, said = minimizer("submit", script, "--wait", "--server", service.url, *more)
    assert (status, service.store.jobs.page()[0]) == (2, [])
    assert f"--out {more[1] if more else 'minimizer-out'} cannot be written" in said


def test_a_step_summary_that_cannot_be_written_changes_no_verdict(
    service: Service, minimizer: Minimizer, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.work = minimized
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(script / "below"))
    status, _, said = minimizer("submit", script, "--server", service.url, "--wait")
    assert status == 0
    assert "GITHUB_STEP_SUMMARY cannot be written" in said


@pytest.mark.parametrize("command", ["submit", "status", "download"])
def test_a_server_that_is_no_service_is_named(minimizer: Minimizer, script: Path, command: str) -> None:
    arguments = {"submit": (script,), "status": (), "download": ("job1",)}[command]
    page = (404, {"Content-Type": "text/html"}, b"<h1>File not found</h1>")
    for answer in (page, (501, {}, b""), (200, {}, b"<h1>Welcome</h1>"), (200, {}, b"[]"), (200, {}, b'{"jobs": 1}')):
        with answering(answer) as url:
            status, _, said = minimizer(command, *arguments, "--server", url)
        assert status == 1, answer
        assert "minimizer service" in said and "bug" not in said


def test_what_speaks_no_http_is_no_service(minimizer: Minimizer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"-ERR unknown command\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        status, _, said = minimizer("status", "--server", f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert status == 1
    assert "no service answers at" in said


def test_a_redirect_is_told_and_not_followed(minimizer: Minimizer, script: Path) -> None:
    with answering((301, {"Location": "https://minimizer.example/"}, b"")) as url:
        for command in (("submit", script), ("status",)):
            status, _, said = minimizer(*command, "--server", url)
            assert status == 2
            assert "redirects to https://minimizer.example/" in said


def test_an_address_with_a_path_is_told(service: Service, minimizer: Minimizer) -> None:
    status, _, said = minimizer("status", "--server", f"{service.url}/jobs")
    assert status == 2
    assert "give --server without a path" in said


@pytest.mark.parametrize(("token", "words"), [("wrong", "MINIMIZER_TOKEN"), ("a\nb", "characters that no token has")])
def test_a_token_that_opens_nothing_is_told(
    tmp_path: Path, minimizer: Minimizer, script: Path, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    monkeypatch.setenv("MINIMIZER_TOKEN", token)
    with closing(Service(tmp_path / "data", access="on")) as service:
        for command in (("submit", script), ("status",), ("download", "job1")):
            status, _, said = minimizer(*command, "--server", service.url)
            assert status == 2
            assert words in said


def test_a_token_may_end_with_a_line_break(
    tmp_path: Path, minimizer: Minimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Service(tmp_path / "data", access="on")) as service:
        service.store.users.create("ci", Role.MEMBER, ["default"])
        monkeypatch.setenv("MINIMIZER_TOKEN", service.store.tokens.create("ci", "test", Scope.READ)[1] + "\n")
        assert minimizer("status", "--server", service.url)[0] == 0


def test_ctrl_c_while_waiting_says_how_to_come_back(
    service: Service, minimizer: Minimizer, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(client: Client, job_id: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("minimizer.cli.remote.follow", interrupt)
    status, _, said = minimizer("submit", script, "--server", service.url, "--wait")
    (job,), _ = service.store.jobs.page()
    assert status == 130
    assert f"minimizer download {job.id} --server {service.url}" in said
    assert job.status is Status.QUEUED


def test_a_service_that_goes_away_is_given_up_with_a_way_back(
    service: Service, minimizer: Minimizer, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(client: Client, job_id: str) -> Any:
        raise NotReachable("no service answers")

    monkeypatch.setattr("minimizer.cli.remote.follow", away)
    status, _, said = minimizer("submit", script, "--server", service.url, "--wait")
    assert status == 1
    assert "come back with: minimizer download" in said


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[str]:
    """A server that gives these answers in turn, and the last one for ever."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


HEALTHY = json.dumps({"id": "job1", "status": "healthy", "report": None}).encode()
TOO_OFTEN = json.dumps({"detail": "This token has asked too often."}).encode()


def test_who_waits_comes_back_when_the_service_says(service: Service) -> None:
    job, _ = service.store.submissions.submit(b"import torch\n", "first.py", Options())
    claim = service.store.leases.claim_job(job.id, "test", lease_seconds=60)
    assert claim is not None
    service.take_all_polls()
    paused: list[float] = []

    def pause(seconds: float, why: str) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            service.store.results.finish(claim, Report(status=Status.HEALTHY))

    assert follow(Client(service.url, pause=pause), job.id)["status"] == "healthy"
    assert paused == [2, 2]


def test_a_key_skips_the_step_at_which_a_job_is(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = service.store.submissions.submit(b"import torch\n", "first.py", Options())
    hands = Hands(service.store, job)
    hands.event("progress", elapsed=9.0, decided=True, skippable="layers")
    asked: list[str] = []

    def work(press: Callable[[str], None]) -> None:
        press("x")
        while (skipped := service.store.leases.heartbeat(hands.claim, 60).skip) is None:
            press("s")
        asked.append(skipped)
        hands.finish(Report(status=Status.HEALTHY))

    @contextmanager
    def pressed(on_key: Callable[[str], None]) -> Iterator[None]:
        worker = threading.Thread(target=work, args=(on_key,))
        worker.start()
        yield
        worker.join()

    monkeypatch.setattr("minimizer.cli.keys.pressed", pressed)
    assert follow(Client(service.url), job.id)["status"] == "healthy"
    assert asked == ["layers"]


@pytest.mark.parametrize(
    ("status", "headers", "seconds"), [(429, {"Retry-After": "7"}, 7), (429, {}, 5), (503, {"Retry-After": "7"}, 7)]
)
def test_a_busy_service_is_asked_again_when_it_says(status: int, headers: dict[str, str], seconds: float) -> None:
    paused: list[tuple[float, str]] = []
    with answering((status, headers, TOO_OFTEN), (status, headers, TOO_OFTEN), (200, {}, HEALTHY)) as url:
        client = Client(url, pause=lambda *told: paused.append(told))
        assert follow(client, "job1")["status"] == "healthy"
    assert paused == [(seconds, "This token has asked too often.")] * 2


def test_a_service_that_stays_busy_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    paused: list[float] = []
    with answering((429, {"Retry-After": "1"}, TOO_OFTEN)) as url:
        client = Client(url, pause=lambda seconds, why: paused.append(seconds))
        with pytest.raises(NotReachable, match="asked too often"):
            follow(client, "job1")
    assert paused == [1] * BUSY_TRIES

"""The files of a job, as a program or a browser gets them."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from webtest import REPRO, SCRIPT, Hands, refused

from minimizer.report.model import Report
from minimizer.store import Job
from minimizer.store.tables import blobs
from minimizer.vocabulary import Status


def test_files_come_raw(client: FlaskClient, minimized: Job) -> None:
    base = f"/api/v1/jobs/{minimized.id}"
    assert client.get(f"{base}/repro.py").data == REPRO
    assert client.get(f"{base}/script.py").data == SCRIPT
    assert client.get(f"{base}/run.log").data == b"all of it\n"
    assert client.get(f"{base}/report.md").data == b"# Report\n"
    assert client.get(f"{base}/issue.md").data == b"### Issue\n"
    assert client.get(base).get_json()["links"]["issue.md"] == f"{base}/issue.md"
    report = client.get(f"{base}/report.json")
    assert report.mimetype == "application/json"
    assert Report.model_validate(report.get_json()).status is Status.MINIMIZED


@pytest.mark.parametrize("name", ["repro.py", "report.json", "report.md", "issue.md", "run.log"])
def test_not_ready_is_409(client: FlaskClient, hands: Hands, name: str) -> None:
    response = client.get(f"/api/v1/jobs/{hands.claim.job_id}/{name}")
    refused(response, 409, f"no {name} yet")
    assert int(response.headers["Retry-After"]) > 0


def test_what_a_job_ended_without_is_404(client: FlaskClient, hands: Hands) -> None:
    hands.finish(Report(status=Status.HEALTHY))
    refused(client.get(f"/api/v1/jobs/{hands.claim.job_id}/repro.py"), 404, "left no repro.py")


def test_best_so_far_can_be_taken_while_running(client: FlaskClient, hands: Hands) -> None:
    hands.artifact("repro.py", REPRO)
    assert client.get(f"/api/v1/jobs/{hands.claim.job_id}/repro.py").data == REPRO


def test_artifacts_are_listed_with_their_addresses(client: FlaskClient, hands: Hands) -> None:
    hands.artifact("data.pt", b"\x80\x02\0binary")
    hands.artifact("witness-dynamo.txt", b"text")
    listed = client.get(f"/api/v1/jobs/{hands.claim.job_id}/artifacts").get_json()["artifacts"]
    assert [one["name"] for one in listed] == ["data.pt", "witness-dynamo.txt"]
    binary, text = (client.get(one["url"]) for one in listed)
    assert binary.data == b"\x80\x02\0binary" and binary.mimetype == "application/octet-stream"
    assert binary.headers["Content-Disposition"].startswith("attachment")
    assert text.mimetype == "text/plain"
    refused(client.get(f"/api/v1/jobs/{hands.claim.job_id}/artifacts/none"), 404, "no artifact")


def test_file_is_not_sent_twice(client: FlaskClient, minimized: Job) -> None:
    url = f"/api/v1/jobs/{minimized.id}/repro.py"
    etag = client.get(url).headers["ETag"]
    assert client.get(url, headers={"If-None-Match": etag}).status_code == 304


def test_large_files_come_whole_and_in_pieces(client: FlaskClient, hands: Hands) -> None:
    """Far more than a piece, and letters of two bytes across every border."""
    text = ("x" + "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 999).encode() * 500
    for name, content in (("big.txt", text), ("big.bin", bytes(range(256)) * 4000), ("empty.txt", b"")):
        hands.artifact(name, content)
        url = f"/api/v1/jobs/{hands.claim.job_id}/artifacts/{name}"
        response = client.get(url)
        assert (response.data == content, response.content_length) == (True, len(content))
        assert response.mimetype == ("application/octet-stream" if name == "big.bin" else "text/plain")
        head = client.head(url)
        assert (head.data, head.content_length, head.headers["ETag"]) == (b"", len(content), response.headers["ETag"])


def test_what_somebody_has_is_not_unpacked_for_it(
    client: FlaskClient, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands.artifact("run.log", b"all of it\n")
    url = f"/api/v1/jobs/{hands.claim.job_id}/run.log"
    etag = client.get(url).headers["ETag"]

    def read(*_: object) -> None:
        raise AssertionError("the content was read")

    for name in ("get", "stream"):
        monkeypatch.setattr(blobs, name, read)
    answer = client.get(url, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", etag)


def test_download_is_an_attachment(client: FlaskClient, minimized: Job) -> None:
    response = client.get(f"/api/v1/jobs/{minimized.id}/repro.py?download=1")
    assert response.headers["Content-Disposition"] == "attachment; filename=repro.py"


def test_all_files_come_as_one_zip(client: FlaskClient, minimized: Job) -> None:
    response = client.get(f"/api/v1/jobs/{minimized.id}/files.zip")
    assert (response.status_code, response.mimetype) == (200, "application/zip")
    assert f"{minimized.id}.zip" in response.headers["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(response.data)) as archive:
        assert sorted(archive.namelist()) == [
            "issue.md",
            "report.json",
            "report.md",
            "repro.py",
            "run.log",
            "script.py",
        ]
        assert (archive.read("repro.py"), archive.read("script.py")) == (REPRO, SCRIPT)
    refused(client.get("/api/v1/jobs/nothing/files.zip"), 404, "no job with this id")


def test_a_disk_without_room_for_an_archive_is_said(
    client: FlaskClient, minimized: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", lambda: Path("/dev/full").open("w+b"))  # noqa: SIM115
        answer = client.get(f"/api/v1/jobs/{minimized.id}/files.zip")
    refused(answer, 503, "disk")
    assert answer.get_json()["type"].endswith(":disk-full")

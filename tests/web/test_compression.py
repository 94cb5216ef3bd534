"""Files of pages are sent compressed to whoever takes them so, and nothing else is."""

from __future__ import annotations

import gzip

import pytest
from flask.testing import FlaskClient

from minimizer.store import Job

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.mark.parametrize(
    "path", ["/static/app.css", "/static/vendor/htmx.min.js", "/docs/swagger/js/swagger-ui-bundle.js"]
)
def test_a_file_is_the_same_either_way(client: FlaskClient, path: str) -> None:
    plain = client.get(path)
    assert "Content-Encoding" not in plain.headers and plain.headers["Vary"] == "Accept-Encoding"
    for _ in range(2):
        packed = client.get(path, headers=GZIP)
        assert packed.headers["Content-Encoding"] == "gzip" and len(packed.data) < len(plain.data) / 2
        assert gzip.decompress(packed.data) == plain.data
        assert int(packed.headers["Content-Length"]) == len(packed.data)
    known = {**GZIP, "If-None-Match": packed.headers["ETag"]}
    assert client.get(path, headers=known).status_code == 304
    head = client.head(path, headers=GZIP)
    assert head.data == b"" and head.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip;q=0"}, {**GZIP, "Range": "bytes=0-3999"}])
def test_who_asks_otherwise_gets_it_as_it_is(client: FlaskClient, headers: dict[str, str]) -> None:
    answer = client.get("/static/app.css", headers=headers)
    assert "Content-Encoding" not in answer.headers
    if "Range" in headers:
        assert (answer.status_code, len(answer.data)) == (206, 4000)


def test_what_may_hold_a_secret_is_never_compressed(client: FlaskClient, minimized: Job) -> None:
    for path in (
        "/",
        "/jobs",
        f"/jobs/{minimized.id}",
        f"/api/v1/jobs/{minimized.id}",
        "/api/v1/openapi.json",
        "/docs/rest",
    ):
        assert "Content-Encoding" not in client.get(path, headers=GZIP).headers, path

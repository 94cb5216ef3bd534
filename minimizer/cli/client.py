"""A client of the service's REST interface (docs/rest.md), with nothing but the standard library."""

from __future__ import annotations

import json
import os
import secrets
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from minimizer.errors import MinimizerError, UserError
from minimizer.options import Options

Job = dict[str, Any]

TOKEN_VARIABLE = "MINIMIZER_TOKEN"
"""An option would show the token to everyone who can list processes."""
DEFAULT_SERVER = "http://127.0.0.1:8000"
MAX_ANSWER_BYTES = 1 << 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Refused(UserError):
    """The service did not take the request; the message is the service's own."""


class NotReachable(MinimizerError):
    """No service answers, or it answers with a fault of its own."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise NotReachable("the server's answer is no JSON: is this a minimizer service?") from None


class Client:
    """Speaks to one service."""

    def __init__(self, server: str, timeout: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise Refused(f"--server {server}: not an address; it looks like {DEFAULT_SERVER}")
        self.server = server.rstrip("/")
        self._timeout = timeout
        # A service on loopback is not behind the proxy that the environment may name.
        no_proxy = [urllib.request.ProxyHandler({})] if parts.hostname in LOOPBACK else []
        self._open = urllib.request.build_opener(*no_proxy).open

    def submit(self, script: bytes, filename: str, options: Options) -> Job:
        """Hand in a script. The key makes a repeated send harmless."""
        body = {
            "script": script.decode("utf-8-sig"),
            "filename": filename,
            "options": options.model_dump(exclude_defaults=True),
        }
        headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16)}
        job: Job = self._call("/api/v1/jobs", json.dumps(body).encode(), headers).json()
        return job

    def job(self, job_id: str) -> Job:
        job: Job = self._call(_job_path(job_id)).json()
        return job

    def next_job(self, job_id: str, etag: str | None, wait: int = 30) -> tuple[Job | None, str | None]:
        """The job as soon as it differs from what ``etag`` stands for; ``None`` if it did not change in time."""
        headers = {"If-None-Match": etag} if etag else {}
        path = _job_path(job_id) + (f"?wait={wait}" if etag else "")
        answer = self._call(path, headers=headers)
        if answer.status == 304:
            return None, etag
        return answer.json(), answer.headers.get("etag")

    def jobs(self, limit: int) -> list[Job]:
        jobs: list[Job] = self._call(f"/api/v1/jobs?limit={limit}").json()["jobs"]
        return jobs

    def is_known(self, fingerprint: str) -> bool:
        """Whether somebody has given this failure a note or an issue on the service."""
        try:
            group = self._call(f"/api/v1/failures/{urllib.parse.quote(fingerprint, safe='')}").json()
        except Refused:
            return False
        return bool(group.get("note") or group.get("issue_url"))

    def artifacts(self, job_id: str) -> list[str]:
        listing = self._call(_job_path(job_id) + "/artifacts").json()
        return [str(entry["name"]) for entry in listing["artifacts"]]

    def artifact(self, job_id: str, name: str) -> bytes:
        """A result such as ``repro.py``."""
        return self._call(f"{_job_path(job_id)}/artifacts/{urllib.parse.quote(name, safe='')}").body

    def _call(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        request = urllib.request.Request(self.server + path, data=data, headers=headers or {})
        if token := os.environ.get(TOKEN_VARIABLE):
            # Unredirected: another host, to which a redirect may lead, must not see it.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with self._open(request, timeout=self._timeout) as response:
                received = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, received, response.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return Answer(304, {}, b"")
            detail = _detail(error)
            if error.code == 401:
                detail = f"{detail} This command takes the token from {TOKEN_VARIABLE}."
            if 400 <= error.code < 500:
                raise Refused(detail) from None
            raise NotReachable(f"the service at {self.server} has a problem: {detail}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise NotReachable(
                f"no service answers at {self.server} ({reason}); start one with `minimizer serve`, or give --server URL"
            ) from None


def _job_path(job_id: str) -> str:
    return "/api/v1/jobs/" + urllib.parse.quote(job_id, safe="")


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(1 << 20))["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code} {error.reason}"

"""A client of the service's REST interface (docs/rest.md), with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any

from minimizer.cli.parcel import Parcel
from minimizer.errors import MinimizerError, UserError
from minimizer.options import Options
from minimizer.vocabulary import Reason, Status

Job = dict[str, Any]

TOKEN_VARIABLE = "MINIMIZER_TOKEN"
"""An option would show the token to everyone who can list processes."""
DEFAULT_SERVER = "http://127.0.0.1:8000"
MAX_ANSWER_BYTES = 1 << 30
LOOPBACK = ("127.0.0.1", "localhost", "::1")
BUSY_TRIES = 20
"""Most attempts at a service that says that it is busy."""
BUSY_SECONDS = 5.0
LONGEST_PAUSE = 120.0

Pause = Callable[[float, str], None]
"""Waits this many seconds, and may say why."""


class Refused(UserError):
    """The service did not take the request; the message is the service's own."""


class NotReachable(MinimizerError):
    """No service answers, or it answers with an internal error."""


class StillBusy(NotReachable):
    """A service that is still busy after all retries."""


def sleep(seconds: float, why: str) -> None:
    """Wait silently."""
    time.sleep(seconds)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise NotReachable("the server's answer is no JSON: is this a minimizer service?") from None

    @property
    def detail(self) -> str | None:
        """The message of a service's problem response; ``None`` if another server has answered."""
        return self._of_problem("detail")

    @property
    def problem(self) -> str:
        """The name of a problem, empty if it is none."""
        return (self._of_problem("type") or "").rpartition(":")[2]

    def _of_problem(self, name: str) -> str | None:
        try:
            return str(json.loads(self.body)[name])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def retry_after(self) -> float | None:
        """The seconds after which to retry, if stated."""
        said = self.headers.get("retry-after", "")
        return min(max(1.0, float(said)), LONGEST_PAUSE) if said.isascii() and said.isdigit() else None


class Client:
    """Speaks to one service."""

    def __init__(self, server: str, timeout: float = 60.0, pause: Pause = sleep) -> None:
        self.server = server.rstrip("/")
        self._timeout = timeout
        self.pause = pause
        # A service on loopback is not behind the proxy that the environment may name.
        no_proxy = [urllib.request.ProxyHandler({})] if _host_of(server) in LOOPBACK else []
        self._open = urllib.request.build_opener(_NoRedirect, *no_proxy).open

    def submit(
        self, parcel: Parcel, options: Options, project: str | None = None, *, force: bool = False
    ) -> tuple[Job, bool]:
        """Hand in a script. Returns the job, and whether it is one that has ended before. The key makes a repeated send harmless."""
        asked = options.model_dump(exclude_defaults=True)
        handling = {**({"project": project} if project else {}), **({"force": True} if force else {})}
        if parcel.archive is None:
            body = {"script": parcel.content.decode("utf-8-sig"), "filename": parcel.name, "options": asked, **handling}
            content, media_type = json.dumps(body).encode(), "application/json"
        else:
            content, media_type = _multipart({"main": parcel.name, **asked, **handling}, parcel.archive)
        headers = {"Content-Type": media_type, "Idempotency-Key": secrets.token_hex(16)}
        answer = self._call("/api/v1/jobs", content, headers)
        return self._job(answer), answer.status == 200

    def job(self, job_id: str) -> Job:
        return self._job(self._call(_job_path(job_id)))

    def next_job(self, job_id: str, etag: str | None, wait: int = 30) -> tuple[Job | None, str | None]:
        """The job as soon as it differs from the version of ``etag``; ``None`` if it did not change in time.

        A service whose slots for waiting clients are taken answers at once, and says when to retry.
        """
        headers = {"If-None-Match": etag} if etag else {}
        path = _job_path(job_id) + (f"?wait={wait}" if etag else "")
        answer = self._call(path, headers=headers)
        if answer.status == 304:
            if answer.retry_after is not None:
                self.pause(answer.retry_after, "")
            return None, etag
        return self._job(answer), answer.headers.get("etag")

    def skip(self, job_id: str, step: str) -> None:
        """Request that a job skip ``step``; if it is at another step by now, nothing is skipped."""
        with suppress(Refused):
            self._call(f"{_job_path(job_id)}/skip?step={urllib.parse.quote(step, safe='')}", b"")

    def jobs(self, limit: int) -> list[Job]:
        return [self._checked(job) for job in self._list(self._call(f"/api/v1/jobs?limit={limit}"), "jobs")]

    def is_known(self, job: Job) -> bool:
        """Whether the failure of an ended job has a note or an issue on the service.

        Judged by the group where the service has put the job: several groups that were split share a fingerprint.
        """
        links = job.get("links")
        group = links.get("failure") if isinstance(links, dict) else None
        if not isinstance(group, str) or not group.startswith("/api/"):
            return False
        try:
            known = self._call(group).json()
        except Refused:
            return False
        return isinstance(known, dict) and bool(known.get("note") or known.get("issue_url"))

    def artifacts(self, job_id: str) -> list[str]:
        listing = self._list(self._call(_job_path(job_id) + "/artifacts"), "artifacts")
        return [str(entry.get("name")) for entry in listing]

    def artifact(self, job_id: str, name: str) -> bytes:
        """A result such as ``repro.py``."""
        return self._call(f"{_job_path(job_id)}/artifacts/{urllib.parse.quote(name, safe='')}").body

    def _call(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """Send a request, and retry as told while the service is too busy to answer."""
        for _ in range(BUSY_TRIES):
            answer = self._ask(path, data, headers or {})
            seconds = _busy(answer)
            if seconds is None:
                break
            self.pause(seconds, answer.detail or "The service is busy.")
        else:
            answer = self._ask(path, data, headers or {})
        if answer.status < 300 or answer.status == 304:
            return answer
        raise self._refusal(answer, path, has_sent=data is not None)

    def _ask(self, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        request = urllib.request.Request(self.server + path, data=data, headers=headers)
        if token := _token():
            request.add_header("Authorization", f"Bearer {token}")
        try:
            try:
                with self._open(request, timeout=self._timeout) as response:
                    return _received(response.status, response.headers, response.read(MAX_ANSWER_BYTES))
            except urllib.error.HTTPError as error:
                with error:
                    return _received(error.code, error.headers, error.read(1 << 20))
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            advice = "start one with `minimizer serve`, or give --server URL"
            if (host := self.server.partition("https://")[2]) and _is_no_tls(reason):
                advice = f"it may speak plain http: try --server http://{host}"
            raise NotReachable(f"no service answers at {self.server} ({reason}); {advice}") from None

    def _refusal(self, answer: Answer, path: str, *, has_sent: bool) -> MinimizerError:
        detail, status = answer.detail, answer.status
        if status < 400:
            where = answer.headers.get("location", "another address")
            return Refused(
                f"{self.server} redirects to {where}: if the service is there, give its address with --server"
            )
        if detail is None and status not in (401, 403, 413, 429) and (status < 500 or status == 501):
            return NotReachable(
                f"{self.server} answers, but not as a minimizer service does (HTTP {status}): give the address of one "
                "with --server, without a path behind it"
            )
        if answer.problem == "not-found":
            return Refused(
                f"{self.server} has nothing at {path}: give --server without a path behind it, and the id of a job as "
                "`minimizer status` shows it"
            )
        detail = detail or f"{self.server} answers with HTTP {status} {http.client.responses.get(status, '')}".rstrip()
        if status == 401:
            return Refused(f"{detail} This command takes the token from {TOKEN_VARIABLE}.")
        # Too many jobs are a refusal; too many requests say nothing about the requested job.
        if status < 500 and (status != 429 or has_sent):
            return Refused(detail)
        trouble = NotReachable if _busy(answer) is None else StillBusy
        return trouble(f"the service at {self.server} has a problem: {detail}")

    def _job(self, answer: Answer) -> Job:
        return self._checked(answer.json())

    def _list(self, answer: Answer, name: str) -> list[Any]:
        found = answer.json()
        entries = found.get(name) if isinstance(found, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._stranger()
        return entries

    def _checked(self, job: Any) -> Job:
        """A job, checked for the fields that all commands rely on."""
        if not isinstance(job, dict) or not isinstance(job.get("id"), str):
            raise self._stranger()
        if job.get("status") not in list(Status) or job.get("reason") not in (None, *Reason):
            raise self._stranger()
        return job

    def _stranger(self) -> NotReachable:
        return NotReachable(
            f"{self.server} answers, but not as a minimizer service of this version does: check --server, and that both "
            "sides have the same version (`minimizer --version`)"
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a redirected script would arrive as a request to list the jobs, and the token with another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def _multipart(fields: Mapping[str, Any], archive: bytes) -> tuple[bytes, str]:
    """The body of a request with a file, and its media type; a list is a field for each of its values."""
    boundary = secrets.token_hex(16)
    texts = [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, values in fields.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in texts
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="archive"; filename="project.zip"\r\n'
    parts += [f"{head}Content-Type: application/zip\r\n\r\n".encode(), archive, f"\r\n--{boundary}--\r\n".encode()]
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _host_of(server: str) -> str:
    try:
        parts = urllib.parse.urlsplit(server)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not re.search(r"\s", server):
            return parts.hostname
    except ValueError:
        pass
    raise Refused(f"--server {server}: not an address; it looks like {DEFAULT_SERVER}")


def _is_no_tls(reason: object) -> bool:
    """Whether a handshake failed as it does with a server without TLS."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return False
    return isinstance(reason, ssl.SSLError | ConnectionResetError) or (
        isinstance(reason, TimeoutError) and "handshake" in str(reason)
    )


def _token() -> str:
    """The token, without the line break that secrets of CI systems often end with."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable():
        raise Refused(
            f"{TOKEN_VARIABLE} holds characters that no token has: set it to what was printed when it was made"
        )
    return token


def _received(status: int, headers: Message, body: bytes) -> Answer:
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)


def _busy(answer: Answer) -> float | None:
    """The seconds after which to ask a service again that is too busy; ``None`` if it is not."""
    if answer.status == 429:
        return answer.retry_after or BUSY_SECONDS
    return answer.retry_after if answer.status == 503 else None


def _job_path(job_id: str) -> str:
    return "/api/v1/jobs/" + urllib.parse.quote(job_id, safe="")

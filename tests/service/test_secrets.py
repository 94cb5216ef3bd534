"""Database and broker break under load, and nothing that the service tells of it holds a secret.

Planted in both web servers and a worker: every password, token and address that they are given. Searched: all their logs,
the events and reports of jobs, the metrics, and the body of every answer that is an error.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import servers
from checkout import ROOT
from line import Line
from sqlalchemy import make_url

from minimizer.store import Store
from minimizer.vocabulary import Role, Scope
from web.access.passwords import hash_password

PATIENCE_SECONDS = 90
WEB = "from minimizer.settings import Settings; from web.server.serve import serve; serve(Settings())"

REFUSED = 50
"""Answers of each web server, several to each question that is asked all along."""
REDIS_TROUBLE = ["the shared request counter cannot be reached", "the broker cannot be reached"]
DATABASE_TROUBLE = ["the database does not answer", "cannot read job versions"]
WORKER_TROUBLE = [
    "this round of the reaper failed",
    "this round of the courier failed",
    "no heartbeat, the database is",
]


class Installation:
    """Two web servers and a worker on lines to PostgreSQL and Redis, and all that was planted in them."""

    def __init__(self, folder: Path, database_url: str, broker_url: str, log_format: str, opened: ExitStack) -> None:
        self.folder = folder
        self.planted: dict[str, str] = {}
        self.told: dict[str, list[str]] = {"error bodies": [], "metrics": [], "events and reports": []}
        self.unavailable: Counter[str] = Counter()
        self._opened = opened
        self._lock = threading.Lock()
        database, broker = make_url(database_url), urllib.parse.urlsplit(broker_url)
        self.database = opened.enter_context(Line(database.host or "127.0.0.1", database.port or 5432))
        self.redis = opened.enter_context(Line(broker.hostname or "127.0.0.1", broker.port or 6379))
        database = database.set(
            host="127.0.0.1",
            port=self.database.port,
            password=self.plant("database password", str(database.password or "")),
            query={"sslmode": "disable"},  # or the line could not be broken at a text
        )
        user, password = broker.username or "default", self.plant("broker password", broker.password or "")
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIMIZER_")} | {
            "MINIMIZER_DATA_DIR": str(folder / "data"),
            "MINIMIZER_DATABASE_URL": database.render_as_string(hide_password=False),
            "MINIMIZER_BROKER_URL": f"redis://{user}:{password}@127.0.0.1:{self.redis.port}{broker.path}",
            "MINIMIZER_ACCESS": "on",
            "MINIMIZER_LOG_FORMAT": log_format,
            "MINIMIZER_REQUESTS_PER_MINUTE": "1000000",
            "MINIMIZER_LEASE_SECONDS": "1000",
            "MINIMIZER_HEARTBEAT_SECONDS": "0.1",
            "MINIMIZER_REAP_SECONDS": "0.1",
            "MINIMIZER_OIDC_ISSUER": f"http://127.0.0.1:{servers.free_port()}",
            "MINIMIZER_OIDC_CLIENT_ID": "minimizer",
            "MINIMIZER_OIDC_CLIENT_SECRET": self.plant("secret of the OpenID client"),
            "PYTHONPATH": str(ROOT),
        }
        self.ports = {"gunicorn": servers.free_port(), "serve": servers.free_port()}

    def plant(self, what: str, value: str = "") -> str:
        self.planted[what] = value or secrets.token_hex(12)
        return self.planted[what]

    def plant_one_more(self, what: str, value: str) -> None:
        with self._lock:
            number = sum(name.startswith(what) for name in self.planted) + 1
            self.plant(f"{what} {number}", value)

    def start(self) -> None:
        bind = f"--bind=127.0.0.1:{self.ports['gunicorn']}"
        gunicorn = str(Path(sys.executable).with_name("gunicorn"))
        self._start("gunicorn", gunicorn, "--config=python:web.gunicorn", bind, "web.wsgi:app")
        self._start("serve", sys.executable, "-c", WEB, MINIMIZER_PORT=str(self.ports["serve"]))
        for web in self.ports:
            until(f"{web} to be ready", lambda web=web: self.ask(web, "GET", "/readyz")[0] == 200)
        self._start("worker", sys.executable, str(Path(__file__).with_name("fake_worker.py")), str(self.folder))

    def _start(self, name: str, *command: str, **variables: str) -> None:
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(command, env=self._environment | variables, stdout=log, stderr=log)
        self._opened.callback(process.wait)
        self._opened.callback(process.kill)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def log(self, name: str) -> str:
        return self._log(name).read_text()

    def until_logged(self, name: str, what: str) -> None:
        until(f"{what!r} in the log of {name}", lambda: what in self.log(name))

    def ask(self, web: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Ask a web server; errors and keys that it gives are kept for the search, and 0 stands for no answer."""
        form = isinstance(body, bytes)
        data = body if form or body is None else json.dumps(body).encode()
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        url = f"http://127.0.0.1:{self.ports[web]}"
        request = urllib.request.Request(
            url + path, data, {"Content-Type": kind, "Origin": url, **headers}, method=method
        )
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE_SECONDS) as answer:
                text = answer.read().decode()
                if path.endswith("/tokens"):
                    self.plant_one_more("token", json.loads(text)["secret"])
                return answer.status, text
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            if error.code >= 400:
                self.told["error bodies"].append(f"{error.headers}{text}")
                self.unavailable[web] += error.code == 503
            elif cookie := re.match(r"minimizer_session=([^;]+)", error.headers.get("Set-Cookie", "")):
                self.plant_one_more("session cookie", cookie[1])
            return error.code, text
        except OSError:
            return 0, ""

    def searched(self) -> dict[str, list[str]]:
        """All lines by where they were told."""
        # JSON has those of a traceback in one.
        logs = {f"log of {name}": re.split(r"\n|\\n", self.log(name)) for name in ("gunicorn", "serve", "worker")}
        return logs | {what: "\n".join(texts).splitlines() for what, texts in self.told.items()}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.05)


@pytest.fixture(params=["text", "json"])
def installed(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, redis_url: str
) -> Iterator[Installation]:
    with ExitStack() as opened:
        installation = Installation(tmp_path, postgres_url, redis_url, request.param, opened)
        store = Store.open(postgres_url)
        password = installation.plant("password typed at sign-in")
        store.users.create("admin", Role.ADMIN, password_hash=hash_password(password))
        _, installation.planted["token of the admin"] = store.tokens.create("admin", "all", Scope.WRITE, None)
        store.close()
        installation.start()
        yield installation


def test_no_secret_is_told_when_database_and_broker_break(
    installed: Installation, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    planted, database = installed.planted, installed.database
    token = {"Authorization": f"Bearer {planted['token of the admin']}"}
    typed = urllib.parse.urlencode({"name": "admin", "secret": planted["password typed at sign-in"]}).encode()
    assert installed.ask("serve", "POST", "/login", typed)[0] == 303
    cookie = {"Cookie": f"minimizer_session={planted['session cookie 1']}"}
    installed.plant("wrong password typed at sign-in")
    installed.plant("line of a script")

    with ExitStack() as running:
        receiver = running.enter_context(Receiver(database.cut))
        hook = {"url": f"{receiver}/{installed.plant('address of a webhook')}"}
        status, answer = installed.ask("serve", "POST", "/api/v1/webhooks", hook, **token)
        assert status == 201, answer
        planted["secret of a webhook"] = json.loads(answer)["secret"]

        held = submit(installed, "# hold", token)
        until("the job to run", lambda: state(installed, held, token) == "running")
        running.enter_context(Load(installed, held, token, cookie))

        installed.redis.cut()
        for web in installed.ports:
            for trouble in REDIS_TROUBLE:
                installed.until_logged(web, trouble)
        installed.until_logged("worker", "onnect")
        installed.redis.mend()

        # The message about its end reaches the receiver, which cuts the database before the courier can write that down.
        installed.ask("serve", "POST", f"/api/v1/jobs/{submit(installed, '# done', token)}/cancel", **token)
        for web in installed.ports:
            for trouble in DATABASE_TROUBLE:
                installed.until_logged(web, trouble)
            until("every question to be refused", lambda web=web: installed.unavailable[web] >= REFUSED)
        for trouble in WORKER_TROUBLE:
            installed.until_logged("worker", trouble)
        database.mend()
        for web in installed.ports:
            until(f"{web} to be ready again", lambda web=web: installed.ask(web, "GET", "/readyz")[0] == 200)

        # In the middle of a statement: its parameters are in what SQLAlchemy says of it.
        database.break_at(installed.plant("address of a webhook that is not stored").encode())
        hook = {"url": f"{receiver}/{planted['address of a webhook that is not stored']}"}
        assert installed.ask("gunicorn", "POST", "/api/v1/webhooks", hook, **token)[0] == 503
        assert database.broken_at.is_set()
        database.mend()
        (tmp_path / "go").touch()
        until("the job to end", lambda: state(installed, held, token) == "minimized")

    for path in (f"/jobs/{held}/events", f"/jobs/{held}/report.json", f"/jobs/{held}", "/audit"):
        status, text = installed.ask("serve", "GET", f"/api/v1{path}", **token)
        assert status == 200 and text, text
        installed.told["events and reports"].append(text)
    for web in installed.ports:
        installed.told["metrics"].append(installed.ask(web, "GET", "/metrics", **token)[1])

    searched = installed.searched()
    lines = {where: len(found) for where, found in searched.items()}
    print(f"{len(planted)} secrets planted; {sum(lines.values())} lines searched: {lines}")
    assert all(lines.values())
    for name in ("gunicorn", "serve", "worker"):
        assert "Traceback (most recent call last)" in installed.log(name)
    leaks = {
        (where, what): count
        for where, found in searched.items()
        for what, secret in planted.items()
        if (count := sum(secret in line for line in found))
    }
    assert leaks == {}


def submit(installed: Installation, script: str, token: dict[str, str]) -> str:
    body = {"script": f"{script}\npassword = '{installed.planted['line of a script']}'", "filename": "a.py"}
    status, answer = installed.ask("serve", "POST", "/api/v1/jobs", body, **token)
    assert status == 202, answer
    return str(json.loads(answer)["id"])


def state(installed: Installation, job: str, token: dict[str, str]) -> str:
    _, answer = installed.ask("serve", "GET", f"/api/v1/jobs/{job}", **token)
    return str(json.loads(answer).get("status"))


class Load:
    """Clients that ask all along for everything that takes a secret."""

    def __init__(self, installed: Installation, job: str, token: dict[str, str], cookie: dict[str, str]) -> None:
        planted, self._over = installed.planted, threading.Event()
        wrong = urllib.parse.urlencode({"name": "admin", "secret": planted["wrong password typed at sign-in"]}).encode()
        right = urllib.parse.urlencode({"name": "admin", "secret": planted["password typed at sign-in"]}).encode()
        script = f"password = '{planted['line of a script']}'"
        asked: list[tuple[str, str, Any, dict[str, str]]] = [
            ("GET", "/jobs", None, cookie),
            ("POST", "/login", right, {}),
            ("GET", "/api/v1/jobs", None, token),
            ("POST", "/login", wrong, {}),
            ("GET", "/login/oidc", None, {}),
            ("GET", "/metrics", None, token),
            ("POST", "/api/v1/tokens", {"name": "another"}, token),
        ]
        waits: tuple[str, str, Any, dict[str, str]] = ("GET", f"/api/v1/jobs/{job}?wait=60", None, token)

        def ask(web: str, questions: list[tuple[str, str, Any, dict[str, str]]]) -> None:
            number = 0
            while not self._over.is_set():
                for method, path, body, headers in questions:
                    installed.ask(web, method, path, body, **headers)
                number += 1
                if len(questions) > 1 and number < 20:  # jobs that ring
                    body = {"script": f"{script}  # {web} {number}", "filename": "a.py"}
                    installed.ask(web, "POST", "/api/v1/jobs", body, **token)

        self._threads = [
            threading.Thread(target=ask, args=(web, questions))
            for web in installed.ports
            for questions in (asked, asked[::-1], [waits])
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Receiver:
    """A receiver of webhooks that does something when the first message comes; its address."""

    def __init__(self, when_told: Callable[[], None]) -> None:
        told = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if not told.is_set():
                    told.set()
                    when_told()
                self.send_response(500)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

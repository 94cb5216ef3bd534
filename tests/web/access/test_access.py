"""Access control: every route, asked by everybody; and the ways in and out."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider
from webtest import SCRIPT, Hands, client_of, minimized_report, refused
from werkzeug.test import TestResponse
from zips import zipped

from minimizer.options import Options
from minimizer.report.identity import fingerprint
from minimizer.settings import Settings
from minimizer.store import Job, NewJob, Store
from minimizer.vocabulary import Role, Scope
from web.access.passwords import hash_password

PASSWORD = "correct horse battery"
PASSWORD_HASH = hash_password(PASSWORD)
PEOPLE = ("owner", "mate", "viewer", "stranger", "reader", "admin", "anonymous")

OPEN = dict.fromkeys(PEOPLE, True)
SIGNED_IN = {**OPEN, "anonymous": 401}
# A stranger is told the same as of a job that does not exist.
READS_JOB = {**SIGNED_IN, "stranger": 404}
WRITES_JOB = {**READS_JOB, "viewer": 403, "reader": 403}
READS = SIGNED_IN
WRITES = {**SIGNED_IN, "viewer": 403, "reader": 403}
KEYS = {**SIGNED_IN, "reader": 403}
ADMIN = {**dict.fromkeys(PEOPLE, 403), "admin": True, "anonymous": 401}

JOB = "/jobs/<job_id>"
RELU = fingerprint(minimized_report().to_json()) or ""
API = "/api/v1"
# Who may do what: True, or the status of the refusal. Nothing is left out (test_every_route_is_in_the_table).
TABLE: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/static/<path:filename>"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/<name>"): OPEN,
    ("GET", "/docs/swagger/<path:name>"): OPEN,
    ("GET", API): OPEN,
    ("GET", f"{API}/openapi.json"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/favicon.ico"): OPEN,
    ("GET", "/login"): OPEN,
    ("POST", "/login"): OPEN,
    ("POST", "/logout"): OPEN,
    ("GET", "/login/oidc"): OPEN,
    ("GET", "/login/oidc/callback"): OPEN,
    ("GET", "/metrics"): ADMIN,
    ("GET", f"{API}/audit"): ADMIN,
    ("GET", f"{API}/webhooks"): ADMIN,
    ("POST", f"{API}/webhooks"): ADMIN,
    ("DELETE", f"{API}/webhooks/<webhook_id>"): {**ADMIN, "admin": 404},
    ("GET", f"{API}/webhooks/<webhook_id>/deliveries"): {**ADMIN, "admin": 404},
    ("GET", f"{API}/me"): SIGNED_IN,
    ("GET", f"{API}/projects"): SIGNED_IN,
    ("GET", f"{API}/workers"): SIGNED_IN,
    ("GET", "/workers"): SIGNED_IN,
    ("GET", f"{API}/tokens"): SIGNED_IN,
    ("POST", f"{API}/tokens"): KEYS,
    ("DELETE", f"{API}/tokens/<token_id>"): {**dict.fromkeys(PEOPLE, 404), "reader": 403, "anonymous": 401},
    ("GET", "/tokens"): SIGNED_IN,
    ("POST", "/tokens"): KEYS,
    ("POST", "/tokens/<token_id>/revoke"): {**dict.fromkeys(PEOPLE, 404), "reader": 403, "anonymous": 401},
    ("GET", f"{API}/jobs"): READS,
    ("GET", f"{API}/failures"): READS,
    ("GET", f"{API}/failures/<signature>"): READS_JOB,
    ("PATCH", f"{API}/failures/<signature>"): WRITES_JOB,
    ("POST", f"{API}/failures/<signature>/merge"): WRITES_JOB,
    ("POST", f"{API}/failures/<signature>/split"): WRITES_JOB,
    ("POST", f"{API}/failures/<signature>/retest"): WRITES_JOB,
    ("GET", "/failures"): READS,
    ("GET", "/failures/<signature>"): READS_JOB,
    ("POST", "/failures/<signature>"): WRITES_JOB,
    ("GET", f"{API}{JOB}"): READS_JOB,
    ("GET", f"{API}{JOB}/events"): READS_JOB,
    ("GET", f"{API}{JOB}/artifacts"): READS_JOB,
    ("GET", f"{API}{JOB}/artifacts/<name>"): READS_JOB,
    ("GET", f"{API}{JOB}/<any('repro.py','report.json','report.md','issue.md','run.log','script.py'):name>"): READS_JOB,
    ("GET", f"{API}{JOB}/files.zip"): READS_JOB,
    ("GET", f"{JOB}/edit"): READS_JOB,
    ("GET", "/"): READS,
    ("GET", "/jobs"): READS,
    ("GET", JOB): READS_JOB,
    ("GET", f"{JOB}/script"): READS_JOB,
    ("POST", f"{API}/jobs"): WRITES,
    ("POST", f"{API}/batches"): WRITES,
    ("POST", f"{API}{JOB}/cancel"): WRITES_JOB,
    ("POST", f"{API}{JOB}/skip"): WRITES_JOB,
    ("POST", f"{API}{JOB}/retry"): WRITES_JOB,
    ("PUT", f"{API}{JOB}/pin"): WRITES_JOB,
    ("DELETE", f"{API}{JOB}/pin"): WRITES_JOB,
    ("DELETE", f"{API}{JOB}"): WRITES_JOB,
    ("POST", "/jobs"): WRITES,
    ("POST", f"{JOB}/cancel"): WRITES_JOB,
    ("POST", f"{JOB}/skip"): WRITES_JOB,
    ("POST", f"{JOB}/retry"): WRITES_JOB,
    ("POST", f"{JOB}/delete"): WRITES_JOB,
}


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, database_url=sqlite_url, access="on", requests_per_minute=100_000)


@pytest.fixture
def tokens(store: Store) -> dict[str, str]:
    """A key of everybody: owner, mate, viewer and reader are in the project of the job, the stranger is in another."""
    for project in ("ours", "theirs"):
        store.projects.create(project)
    store.users.create("admin", Role.ADMIN)
    store.users.create("owner", Role.MEMBER, ["ours"], PASSWORD_HASH)
    store.users.create("mate", Role.MEMBER, ["ours"])
    store.users.create("viewer", Role.VIEWER, ["ours"])
    store.users.create("stranger", Role.MEMBER, ["theirs"])
    keys = {
        name: store.tokens.create(name, "test", Scope.WRITE)[1]
        for name in ("owner", "mate", "viewer", "stranger", "admin")
    }
    return {**keys, "reader": store.tokens.create("owner", "test", Scope.READ)[1], "anonymous": ""}


@pytest.fixture
def client(settings: Settings, store: Store, tokens: dict[str, str]) -> Iterator[FlaskClient]:
    with client_of(settings, store) as client:
        yield client


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        provider.claims["email"] = "owner"
        yield provider


@pytest.fixture
def client_of_all(
    settings: Settings, store: Store, tokens: dict[str, str], provider: IdentityProvider
) -> Iterator[FlaskClient]:
    """A client of an application that has every route there can be."""
    single_sign_on = Settings(
        data_dir=settings.data_dir,
        database_url=settings.database_url,
        access="on",
        requests_per_minute=settings.requests_per_minute,
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
    )
    with client_of(single_sign_on, store) as client:
        yield client


@pytest.fixture
def job(store: Store, tokens: dict[str, str]) -> Job:
    job = store.submissions.submit(SCRIPT, "model.py", Options(), project="ours")[0]
    return Hands(store, job).minimize()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def ask(
    client: FlaskClient, provider: IdentityProvider, method: str, rule: str, job_id: str, token: str, key: str
) -> TestResponse:
    """A request that is in order, so that only who asks can be at fault."""
    path = rule.replace("<job_id>", job_id).replace("<token_id>", "5f1b9a3c2d4e")
    path = path.replace("<webhook_id>", "5f1b9a3c2d4e")
    path = (
        path.replace("<signature>", RELU)
        .replace("<path:filename>", "app.css")
        .replace("<path:name>", "css/swagger-ui.css")
    )
    path = path.replace("/artifacts/<name>", "/artifacts/run.log").replace("/docs/<name>", "/docs/index")
    if "<any(" in path:
        path = path.partition("<any(")[0] + "repro.py"
    script = {"script": SCRIPT.decode(), "filename": "new.py"}
    bodies: dict[str, dict[str, Any]] = {
        f"{API}/jobs": {"json": script},
        f"{API}/batches": {"json": {"jobs": [script]}},
        f"{API}/tokens": {"json": {"name": "mine"}},
        f"{API}/webhooks": {"json": {"url": "https://ci.example/hook"}},
        "/jobs": {"data": {"source": SCRIPT.decode()}},
        "/login": {"data": {"secret": key}},
        "/tokens": {"data": {"name": "mine", "scope": "read"}},
        f"{API}/failures/{RELU}": {"json": {"note": "seen"}},
        f"{API}/failures/{RELU}/merge": {"json": {"other": RELU}},
        f"{API}/failures/{RELU}/split": {"json": {"jobs": [job_id]}},
        f"{API}/failures/{RELU}/retest": {"json": {}},
        f"/failures/{RELU}": {"data": {"action": "describe", "note": "seen"}},
    }
    if path == "/login/oidc/callback":
        path = provider.visit(client.get("/login/oidc").headers["Location"]).removeprefix("http://localhost")
    body = bodies.get(path, {}) if method in ("POST", "PATCH") else {}
    response = client.open(path, method=method, headers=bearer(token), **body)
    client.delete_cookie("minimizer_session")
    return response


def routes_of(client: FlaskClient) -> set[tuple[str, str]]:
    return {
        (method, rule.rule)
        for rule in client.application.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }


def test_every_route_is_in_the_table(client: FlaskClient, client_of_all: FlaskClient) -> None:
    assert routes_of(client_of_all) == set(TABLE)
    assert routes_of(client) == {(method, rule) for method, rule in TABLE if not rule.startswith("/login/oidc")}


@pytest.mark.parametrize("person", PEOPLE)
def test_every_route_opens_to_those_it_should(
    client_of_all: FlaskClient,
    store: Store,
    job: Job,
    tokens: dict[str, str],
    provider: IdentityProvider,
    person: str,
) -> None:
    # Deleting comes last, or the rest would find nothing.
    for (method, rule), wanted in sorted(TABLE.items(), key=lambda entry: "delete" in f"{entry[0]}".lower()):
        if not any(one.id == job.id for one in store.jobs.page()[0]):
            job = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options(), project="ours")[0]).minimize()
        response = ask(client_of_all, provider, method, rule, job.id, tokens[person], tokens["owner"])
        where = f"{person}: {method} {rule}: {response.status_code} {response.data[:300]!r}"
        if wanted[person] is True:
            assert response.status_code not in (401, 403, 404) and response.status_code < 500, where
        else:
            assert response.status_code == wanted[person], where
            assert response.mimetype == "application/problem+json", where
        response.close()
        if "retry" in rule and response.status_code < 400:
            store.jobs.request_cancel(job.id)
            store.jobs.delete(job.id)


def test_files_of_a_foreign_job_go_with_no_script(client: FlaskClient, store: Store, tokens: dict[str, str]) -> None:
    """The form names the job that files are taken from, and a form is written by whoever sends it."""
    new = NewJob(SCRIPT, "main.py", Options(), archive=zipped({"main.py": SCRIPT, "secret.py": "key = 1\n"}))
    ((foreign, _),) = store.submissions.submit_many([new], project="theirs")
    sent = {"source": "x = 1", "base": foreign.id, "project": "ours"}
    refused = client.post("/jobs", data=sent, headers=bearer(tokens["owner"]))
    assert refused.status_code == 404 and "secret.py" not in refused.text
    assert client.post("/jobs", data={**sent, "base": ""}, headers=bearer(tokens["owner"])).status_code == 303


def test_lists_hold_only_what_is_open(client: FlaskClient, store: Store, job: Job, tokens: dict[str, str]) -> None:
    foreign = store.submissions.submit(SCRIPT, "theirs.py", Options(), project="theirs")[0]
    store.workers.register("w", device="cpu", torch="2.13.0")
    assert store.leases.claim_job(foreign.id, "w", lease_seconds=60)

    def seen(person: str, path: str) -> str:
        return client.get(path, headers=bearer(tokens[person])).text

    for path in ("/api/v1/jobs", "/jobs", "/", "/api/v1/jobs?q=.py", "/api/v1/workers", "/workers", "/api/v1/failures"):
        assert foreign.id not in seen("owner", path), path
        assert job.id not in seen("stranger", path), path
    assert foreign.id in seen("stranger", "/api/v1/workers") and foreign.id in seen("stranger", "/workers")
    assert "theirs.py" not in seen("owner", "/workers")
    assert {foreign.id, job.id} <= {
        one["id"] for one in client.get("/api/v1/jobs", headers=bearer(tokens["admin"])).get_json()["jobs"]
    }
    assert "Queued (0)" in seen("owner", "/jobs") and "Running (0)" in seen("owner", "/jobs")


def test_a_job_goes_to_a_project_that_is_open(client: FlaskClient, store: Store, tokens: dict[str, str]) -> None:
    body = {"script": SCRIPT.decode()}
    mine = client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])).get_json()
    assert mine["project"] == "ours" and mine["submitted_by"].startswith("owner/")
    refused(
        client.post("/api/v1/jobs", json={**body, "project": "theirs"}, headers=bearer(tokens["owner"])), 404, "theirs"
    )
    store.users.change("owner", join=["theirs"])
    refused(client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])), 422, "ours, theirs")
    store.users.change("owner", leave=["ours", "theirs"])
    refused(client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])), 422, "ask an admin")


def choices(page: str) -> tuple[list[str], list[str]]:
    """The projects that the form offers, and what is chosen."""
    (select,) = re.findall(r'<select id="project".*?</select>', page, re.DOTALL) or [""]
    offered = re.findall(r'<option value="([^"]*)"([^>]*)>', select)
    return [value for value, _ in offered], [value for value, more in offered if "selected" in more]


def test_the_project_is_chosen_in_the_form(client: FlaskClient, store: Store, tokens: dict[str, str]) -> None:
    def shown(person: str) -> tuple[list[str], list[str]]:
        return choices(client.get("/", headers=bearer(tokens[person])).text)

    assert shown("owner") == shown("viewer") == ([], []), "there is nothing to choose"
    assert shown("admin") == (["default", "ours", "theirs"], ["default"])
    store.users.change("owner", join=["theirs"])
    assert shown("owner") == (["", "ours", "theirs"], [""])
    assert shown("reader") == ([], [])

    def sent(**fields: str) -> TestResponse:
        return client.post("/jobs", data={"source": SCRIPT.decode(), **fields}, headers=bearer(tokens["owner"]))

    job_id = sent(project="theirs").headers["Location"].rpartition("/")[2]
    assert store.jobs.get(job_id).project == "theirs"
    refused_for_its_text = sent(project="theirs", source="def f(:")
    assert refused_for_its_text.status_code == 422
    assert choices(refused_for_its_text.text) == (["ours", "theirs"], ["theirs"]), "the choice is not lost"
    assert sent().status_code == 422
    assert sent(project="default").status_code == 404


def test_the_same_question_of_another_project_is_not_answered_from_ours(
    client: FlaskClient, job: Job, tokens: dict[str, str]
) -> None:
    body = {"script": SCRIPT.decode(), "filename": "model.py"}
    key = {"Idempotency-Key": "one"}
    ours = client.post("/api/v1/jobs", json=body, headers=bearer(tokens["mate"]) | key)
    theirs = client.post("/api/v1/jobs", json=body, headers=bearer(tokens["stranger"]) | key)
    assert (ours.status_code, ours.get_json()["id"]) == (200, job.id)
    assert theirs.status_code == 202 and theirs.get_json()["id"] != job.id


def test_a_token_counts_until_it_expires_or_is_revoked(
    client: FlaskClient, store: Store, tokens: dict[str, str]
) -> None:
    now = datetime.now(UTC)
    token, secret = store.tokens.create("owner", "short", Scope.READ, now + timedelta(hours=1))
    _, expired = store.tokens.create("owner", "over", Scope.READ, now - timedelta(seconds=1))
    assert client.get("/api/v1/me", headers=bearer(secret)).get_json() == {
        "name": "owner",
        "role": "member",
        "scope": "read",
        "projects": ["ours"],
    }
    assert next(one for one in store.tokens.all("owner") if one.id == token.id).last_used_at is not None
    refused(client.get("/api/v1/me", headers=bearer(expired)), 401, "expired")
    refused(client.get("/api/v1/me", headers=bearer(secret[:-1])), 401, "")
    url = f"/api/v1/tokens/{token.id}"
    refused(client.delete(url, headers=bearer(tokens["mate"])), 404, "no token")
    assert client.delete(url, headers=bearer(tokens["owner"])).status_code == 204
    response = client.get("/api/v1/me", headers=bearer(secret))
    refused(response, 401, "")
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("way", ["token", "browser"])
def test_a_token_makes_none_that_outlives_it(
    client: FlaskClient, store: Store, tokens: dict[str, str], way: str
) -> None:
    parent, secret = store.tokens.create("owner", "short", Scope.WRITE, datetime.now(UTC) + timedelta(days=10))
    headers = bearer(secret)
    if way == "browser":
        client.post("/login", data={"secret": secret})
        headers = {"Origin": "http://localhost"}

    def made(days: int | None) -> datetime:
        answer = client.post("/api/v1/tokens", json={"name": "child", "days": days}, headers=headers).get_json()
        return datetime.fromisoformat(answer["expires_at"])

    assert made(None) == made(90) == parent.expires_at
    assert made(5) < parent.expires_at


def test_a_password_makes_tokens_that_last(client: FlaskClient, tokens: dict[str, str]) -> None:
    sign_in(client, "owner", PASSWORD)
    body = {"name": "for ever", "days": None}
    made = client.post("/api/v1/tokens", json=body, headers={"Origin": "http://localhost"})
    assert (made.status_code, made.get_json()["expires_at"]) == (201, None)


def test_a_user_who_is_no_longer_active_is_out(client: FlaskClient, store: Store, tokens: dict[str, str]) -> None:
    store.users.change("owner", active=False)
    refused(client.get("/api/v1/me", headers=bearer(tokens["owner"])), 401, "")
    assert client.post("/login", data={"name": "owner", "secret": PASSWORD}).status_code == 401


def test_a_secret_is_shown_once_and_kept_nowhere(
    client: FlaskClient, store: Store, tokens: dict[str, str], sqlite_url: str
) -> None:
    made = client.post("/api/v1/tokens", json={"name": "CI"}, headers=bearer(tokens["owner"]))
    secret = made.get_json()["secret"]
    assert made.status_code == 201 and len(secret) >= 43
    assert secret not in client.get("/api/v1/tokens", headers=bearer(tokens["owner"])).text
    store._database.close()  # so that SQLite writes its log back
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    kept = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert secret.encode() not in kept and PASSWORD.encode() not in kept


@pytest.mark.parametrize("end", ["revoked", "out of the project", "inactive"])
def test_a_stream_ends_with_the_right_to_see_it(
    client: FlaskClient, store: Store, tokens: dict[str, str], end: str
) -> None:
    hands = Hands(store, store.submissions.submit(SCRIPT, "model.py", Options(), project="ours")[0])
    headers = bearer(tokens["mate"])
    if end == "inactive":
        sign_in(client, "owner", PASSWORD)
        headers = {}
    response = client.get(f"/api/v1/jobs/{hands.claim.job_id}/events", headers=headers)
    chunks = (chunk.decode() for chunk in response.iter_encoded())
    seen = ""
    while "event: status" not in seen:
        seen += next(chunks)
    if end == "revoked":
        store.tokens.revoke(store.tokens.all("mate")[0].id)
    elif end == "inactive":
        store.users.change("owner", active=False)
    else:
        store.users.change("mate", leave=["ours"])
    hands.event("progress", nodes=5, nodes_before=9, elapsed=1.0)
    assert "".join(islice(chunks, 3)) == ""
    response.close()


def test_a_password_counts_as_it_is_typed_and_a_token_as_it_is_pasted(
    client: FlaskClient, store: Store, tokens: dict[str, str]
) -> None:
    spaced = "  a word and a space "
    store.users.create("anna", Role.MEMBER, ["ours"], hash_password(spaced))
    assert sign_in(client, "anna", spaced.strip()).status_code == 401
    assert sign_in(client, "anna", spaced).status_code == 303
    assert client.post("/login", data={"secret": f" {tokens['mate']}\n"}).status_code == 303


@pytest.mark.parametrize("way", ["password", "token"])
def test_a_browser_signs_in_and_out(client: FlaskClient, job: Job, tokens: dict[str, str], way: str) -> None:
    page = {"Accept": "text/html"}
    asked = client.get(f"/jobs/{job.id}", headers=page)
    assert (asked.status_code, asked.location) == (303, f"/login?next=/jobs/{job.id}")
    secrets = {"name": "owner", "secret": PASSWORD} if way == "password" else {"secret": tokens["owner"]}
    entered = client.post("/login", data={**secrets, "next": f"/jobs/{job.id}"}, headers=page)
    assert (entered.status_code, entered.location) == (303, f"/jobs/{job.id}")
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    for path in (f"/jobs/{job.id}", "/docs", "/docs/index"):
        assert "Sign out" in client.get(path, headers=page).text, path
    own = {"Origin": "http://localhost"}
    assert client.post(f"/jobs/{job.id}/retry", headers=own).status_code == 303
    refused(client.post(f"/jobs/{job.id}/cancel"), 403, "Origin")
    refused(client.post(f"/jobs/{job.id}/cancel", headers={"Origin": "https://evil.example"}), 403, "another origin")
    assert client.post("/logout", headers=own).status_code == 303
    assert client.get(f"/jobs/{job.id}", headers=page).status_code == 303
    assert "Sign out" not in client.get("/docs/index", headers=page).text


def test_a_cookie_that_was_kept_opens_nothing_after_signing_out(client: FlaskClient, tokens: dict[str, str]) -> None:
    client.post("/login", data={"secret": tokens["owner"]})
    kept = client.get_cookie("minimizer_session")
    assert kept is not None
    client.post("/logout", headers={"Origin": "http://localhost"})
    client.set_cookie("minimizer_session", kept.value)
    refused(client.get("/api/v1/me"), 401, "")


def test_revoking_a_token_ends_the_sessions_it_opened(
    client: FlaskClient, store: Store, tokens: dict[str, str]
) -> None:
    token, secret = store.tokens.create("owner", "browser", Scope.WRITE)
    client.post("/login", data={"secret": secret})
    assert client.get("/api/v1/me").status_code == 200
    store.tokens.revoke(token.id)
    refused(client.get("/api/v1/me"), 401, "")


@pytest.mark.parametrize(
    "following",
    [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example/",
        "////evil.example/",
        "/\t/evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "",
    ],
)
def test_signing_in_leads_to_our_own_pages_only(client: FlaskClient, tokens: dict[str, str], following: str) -> None:
    assert client.post("/login", data={"secret": tokens["owner"], "next": following}).location == "/"


def test_guessing_ends_soon(client: FlaskClient, tokens: dict[str, str]) -> None:
    answers = [client.get("/api/v1/me", headers=bearer("mnz_guess")) for _ in range(21)]
    assert [one.status_code for one in answers[:20]] == [401] * 20
    refused(answers[20], 429, "attempts")
    assert int(answers[20].headers["Retry-After"]) >= 1
    assert client.get("/api/v1/me", headers=bearer(tokens["owner"])).status_code == 200


def sign_in(client: FlaskClient, name: str, password: str, address: str = "127.0.0.1") -> TestResponse:
    return client.post("/login", data={"name": name, "secret": password}, environ_overrides={"REMOTE_ADDR": address})


def test_a_right_guess_comes_too_late(client: FlaskClient, tokens: dict[str, str]) -> None:
    """Of one who has guessed too often no password is looked at, whichever user it is for."""
    for number in range(20):
        assert sign_in(client, "owner" if number % 2 else "mate", "a guess").status_code == 401
    refused(sign_in(client, "owner", PASSWORD), 429, "this address")
    assert sign_in(client, "owner", PASSWORD, "192.0.2.7").status_code == 303


def test_many_addresses_guess_slowly_and_lock_nobody_out(client: FlaskClient, tokens: dict[str, str]) -> None:
    """Whose password is tried from everywhere still comes in with the right one."""
    for number in range(20):
        assert sign_in(client, "owner", "a guess", f"192.0.2.{number}").status_code == 401
    assert sign_in(client, "owner", PASSWORD, "192.0.2.99").status_code == 303
    assert sign_in(client, "owner", "a guess", "192.0.2.98").status_code == 401
    for password in ("another guess", PASSWORD):
        refused(sign_in(client, "owner", password, "192.0.2.98"), 429, "this user: from here one a minute")
    refused(sign_in(client, "owner", PASSWORD, "192.0.2.0"), 429, "this user")
    assert sign_in(client, "mate", "a guess", "192.0.2.98").status_code == 401, "it is for this user only"
    assert client.post("/login", data={"secret": tokens["owner"]}).status_code == 303


def test_a_network_of_ipv6_counts_as_one_address(client: FlaskClient, tokens: dict[str, str]) -> None:
    """Whoever has an address of it has 2 ** 64."""
    for number in range(20):
        assert sign_in(client, f"user{number}", "a guess", f"2001:db8::{number + 1:x}").status_code == 401
    refused(sign_in(client, "mate", "a guess", "2001:db8::ffff"), 429, "this address")
    assert sign_in(client, "mate", "a guess", "2001:db8:0:1::1").status_code == 401
    assert sign_in(client, "mate", "a guess", "::ffff:192.0.2.1").status_code == 401


def test_one_user_cannot_take_all_event_streams(settings: Settings, store: Store, tokens: dict[str, str]) -> None:
    job = store.submissions.submit(SCRIPT, "a.py", Options(), project="ours")[0]
    with client_of(settings.model_copy(update={"event_streams": 2}), store) as client:

        def stream(key: str) -> TestResponse:
            return client.get(f"/api/v1/jobs/{job.id}/events", headers=bearer(tokens[key]))

        first = stream("owner")
        other_token = stream("reader")
        assert other_token.status_code == 503
        refused(other_token, 503, "of one user")
        mates = stream("mate")
        assert mates.status_code == 200
        for response in (first, mates):
            response.close()
        again = stream("reader")
        assert again.status_code == 200
        again.close()


def test_who_does_not_come_in_is_in_the_audit_log(client: FlaskClient, store: Store, tokens: dict[str, str]) -> None:
    sign_in(client, "owner", "a guess", "192.0.2.1")
    sign_in(client, "correct horse battery staple", "owner")  # the other way round
    sign_in(client, "hunter2hunter2", "owner")
    client.post("/login", data={"secret": "mnz_guess"})
    failed = [(one.actor, one.action, one.subject, one.address) for one in reversed(store.audit.latest())][-4:]
    assert failed == [
        ("-", "sign_in_failed", "owner", "192.0.2.1"),
        ("-", "sign_in_failed", "password", "127.0.0.1"),
        ("-", "sign_in_failed", "password", "127.0.0.1"),
        ("-", "sign_in_failed", "token", "127.0.0.1"),
    ]


def test_a_tab_that_was_left_open_guesses_nothing(client: FlaskClient, tokens: dict[str, str]) -> None:
    client.set_cookie("minimizer_session", "of a session that is over")
    assert {client.get("/api/v1/jobs").status_code for _ in range(25)} == {401}
    client.delete_cookie("minimizer_session")
    assert sign_in(client, "owner", PASSWORD).status_code == 303


def test_a_user_who_asks_too_often_waits(settings: Settings, store: Store, tokens: dict[str, str]) -> None:
    with client_of(settings.model_copy(update={"requests_per_minute": 3}), store) as client:
        answers = [client.get("/api/v1/me", headers=bearer(tokens["owner"])) for _ in range(4)]
        assert [one.status_code for one in answers[:3]] == [200] * 3
        refused(answers[3], 429, "too often")
        refused(
            client.get("/api/v1/me", headers=bearer(tokens["reader"])), 429, "too often"
        )  # another token of the owner
        assert client.get("/api/v1/me", headers=bearer(tokens["mate"])).status_code == 200


def test_a_user_has_so_many_open_jobs(settings: Settings, store: Store, tokens: dict[str, str]) -> None:
    with client_of(settings.model_copy(update={"max_open_jobs": 2}), store) as client:
        body = {"script": SCRIPT.decode(), "force": True}
        answers = [client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])) for _ in range(3)]
        assert [one.status_code for one in answers[:2]] == [202] * 2
        refused(answers[2], 429, "2 jobs of 'owner' ")
        _, another = store.tokens.create("owner", "another", Scope.WRITE)
        refused(client.post("/api/v1/jobs", json=body, headers=bearer(another)), 429, "2 jobs of 'owner' ")
        sign_in(client, "owner", PASSWORD)
        own = {"Origin": "http://localhost"}
        refused(client.post("/api/v1/jobs", json=body, headers=own), 429, "2 jobs of 'owner' ")
        store.jobs.request_cancel(answers[0].get_json()["id"])
        assert client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])).status_code == 202
        assert client.post("/api/v1/jobs", json=body, headers=bearer(tokens["mate"])).status_code == 202


def test_running_again_counts_like_submitting(
    settings: Settings, store: Store, job: Job, tokens: dict[str, str]
) -> None:
    """Whoever runs it again: it stays the submitter's."""
    with client_of(settings.model_copy(update={"max_open_jobs": 1}), store) as client:
        body = {"script": SCRIPT.decode(), "force": True}
        first = client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])).get_json()["id"]
        store.jobs.request_cancel(first)
        second = client.post("/api/v1/jobs", json=body, headers=bearer(tokens["owner"])).get_json()["id"]
        for person in ("owner", "mate"):
            again = client.post(f"/api/v1/jobs/{first}/retry", headers=bearer(tokens[person]))
            refused(again, 429, "1 jobs of 'owner' ")
        store.jobs.request_cancel(second)
        assert client.post(f"/api/v1/jobs/{first}/retry", headers=bearer(tokens["mate"])).status_code == 202


def test_viewers_are_offered_nothing_that_is_refused(client: FlaskClient, job: Job, tokens: dict[str, str]) -> None:
    buttons = ("Run again", "Delete", "Minimize it", "New job")
    for person, offered in (("owner", True), ("viewer", False), ("reader", False)):
        seen = "".join(
            client.get(path, headers=bearer(tokens[person])).text for path in ("/", "/jobs", f"/jobs/{job.id}")
        )
        assert [name for name in buttons if (f">{name}<" in seen) is not offered] == [], person
        assert ("not submit any" in seen) is not offered


def test_changes_are_audited(client: FlaskClient, job: Job, tokens: dict[str, str]) -> None:
    client.post(f"/api/v1/jobs/{job.id}/retry", headers=bearer(tokens["owner"]))
    client.post(f"/api/v1/jobs/{job.id}/cancel", headers=bearer(tokens["viewer"]))
    made = client.post("/api/v1/jobs", json={"script": "x = 1"}, headers=bearer(tokens["mate"])).get_json()
    batch = {"jobs": [{"script": "x = 2"}, {"script": "x = 3"}]}
    many = client.post("/api/v1/batches", json=batch, headers=bearer(tokens["mate"])).get_json()["jobs"]
    token = client.post("/api/v1/tokens", json={"name": "ci"}, headers=bearer(tokens["mate"])).get_json()
    hook = {"project": "default", "url": "http://127.0.0.1:9/"}
    hook = client.post("/api/v1/webhooks", json=hook, headers=bearer(tokens["admin"])).get_json()
    entries = client.get("/api/v1/audit", headers=bearer(tokens["admin"])).get_json()["entries"]
    assert [(one["actor"].partition("/")[0], one["action"], one["subject"]) for one in entries] == [
        ("admin", "webhooks.create_webhook", hook["id"]),
        ("mate", "account.create_token", token["id"]),
        *(("mate", "api.submit_batch", job["id"]) for job in reversed(many)),
        ("mate", "api.submit_job", made["id"]),
        ("owner", "api.retry_job", job.id),
    ]
    assert entries[0]["address"] == "127.0.0.1"


def test_the_first_start_makes_an_admin_once(
    settings: Settings, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with client_of(settings, store) as client:
        secret = next(word for word in capsys.readouterr().err.split() if word.startswith("mnz_"))
        assert client.get("/api/v1/me", headers=bearer(secret)).get_json()["role"] == "admin"
    with client_of(settings, store):
        assert "mnz_" not in capsys.readouterr().err


def test_without_access_control_there_is_nothing_to_log_into(settings: Settings, store: Store) -> None:
    with client_of(settings.model_copy(update={"access": "off"}), store) as client:
        assert client.get("/login").location == "/"
        assert client.get("/api/v1/me").get_json()["name"] == "local"
        page = client.get("/", headers={"Accept": "text/html"}).text
        assert "Sign out" not in page and "Tokens" not in page
        refused(client.post("/api/v1/tokens", json={"name": "x"}), 409, "Access control is off")
        refused(client.get("/tokens"), 409, "Access control is off")
        upload = {"script": (io.BytesIO(SCRIPT), "model.py")}
        assert client.post("/api/v1/jobs", data=upload).get_json()["submitted_by"] == ""
    assert store.users.all() == []

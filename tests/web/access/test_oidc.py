"""Single sign-on, against a provider that signs, and against one that gets it wrong."""

from __future__ import annotations

import logging
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, as_json, identity_provider, rsa_key
from pydantic import ValidationError
from webtest import client_of
from werkzeug.test import TestResponse

from minimizer.errors import MissingTool, UserError
from minimizer.settings import Settings
from minimizer.store import Store
from minimizer.vocabulary import Role
from web import create_app
from web.access.provider import Provider

ANNA = "anna@example.com"
# What a browser says when another site sends it here.
ARRIVING = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
OVER = int(time.time()) - 3600


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path, provider: IdentityProvider) -> Settings:
    return settings_of(sqlite_url, tmp_path, provider)


@pytest.fixture
def store(store: Store) -> Store:
    """A project, its member Anna, and an administrator."""
    store.users.create("admin", Role.ADMIN)
    store.projects.create("ours")
    store.users.create(ANNA, Role.MEMBER, ["ours"])
    return store


@pytest.fixture
def client(settings: Settings, store: Store) -> Iterator[FlaskClient]:
    with client_of(settings, store) as client:
        yield client


def settings_of(url: str, folder: Path, provider: IdentityProvider, **others: Any) -> Settings:
    return Settings(
        data_dir=folder,
        database_url=url,
        access="on",
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        **others,
    )


def leave(client: FlaskClient, following: str = "/jobs") -> str:
    """Click on the button; returns where the browser is sent to."""
    response = client.get("/login/oidc", query_string={"next": following})
    assert response.status_code == 303, response.text
    return response.headers["Location"]


def arrive(client: FlaskClient, address: str) -> TestResponse:
    """Come back from the provider."""
    parts = urllib.parse.urlsplit(address)
    assert (parts.scheme, parts.netloc, parts.path) == ("http", "localhost", "/login/oidc/callback")
    return client.get(f"{parts.path}?{parts.query}", headers=ARRIVING)


def sign_in(client: FlaskClient, provider: IdentityProvider, following: str = "/jobs") -> TestResponse:
    return arrive(client, provider.visit(leave(client, following)))


def who(client: FlaskClient) -> str | None:
    """Who is signed in."""
    response = client.get("/api/v1/me")
    return response.get_json()["name"] if response.status_code == 200 else None


def turned_away(client: FlaskClient, response: TestResponse, status: int, words: str) -> None:
    """The response is the login page with this status and these words, and nobody is signed in."""
    assert response.status_code == status, response.text
    assert "Not signed in." in response.text and words in response.text, response.text
    assert "Traceback" not in response.text
    assert client.get_cookie("minimizer_session") is None and who(client) is None


def test_a_known_user_signs_in(client: FlaskClient, store: Store, provider: IdentityProvider) -> None:
    assert "Sign in with single sign-on" in client.get("/login?next=/failures").text
    entered = sign_in(client, provider, "/failures?kind=crash")
    assert (entered.status_code, entered.location) == (303, "/failures?kind=crash")
    cookie = next(one for one in entered.headers.getlist("Set-Cookie") if one.startswith("minimizer_session="))
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Max-Age=1209600" in cookie
    assert client.get("/api/v1/me").get_json() == {
        "name": ANNA,
        "role": "member",
        "scope": "write",
        "projects": ["ours"],
    }
    newest = store.audit.latest()[0]
    assert (newest.actor, newest.action, newest.subject, newest.address) == (ANNA, "sign_in", "oidc", "127.0.0.1")
    client.post("/logout", headers={"Origin": "http://localhost"})
    assert who(client) is None


def test_the_session_holds_the_sign_in_under_way_and_nothing_else(
    client: FlaskClient, provider: IdentityProvider
) -> None:
    begun = client.get("/login/oidc?next=/jobs")
    cookie = next(one for one in begun.headers.getlist("Set-Cookie") if one.startswith("minimizer_sign_in="))
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/login/oidc" in cookie
    path = "/login/oidc"
    with client.session_transaction(path) as session:
        assert set(session) == {"under_way"}
        assert set(session["under_way"]) == {"state", "nonce", "code_verifier", "callback", "next"}
    arrive(client, provider.visit(begun.headers["Location"]))
    assert client.get_cookie("minimizer_sign_in", path=path) is None
    assert client.get_cookie("minimizer_session") is not None


def test_a_sign_in_ends_in_another_process(
    client: FlaskClient, settings: Settings, store: Store, provider: IdentityProvider
) -> None:
    location = provider.visit(leave(client))
    kept = client.get_cookie("minimizer_sign_in", path="/login/oidc")
    assert kept is not None
    with client_of(settings, store) as other:
        other.set_cookie("minimizer_sign_in", kept.value, path="/login/oidc")
        assert arrive(other, location).status_code == 303
        assert who(other) == ANNA


def test_a_cookie_that_was_signed_with_another_secret_does_not_count(
    client: FlaskClient, settings: Settings, store: Store, provider: IdentityProvider
) -> None:
    foreign = Settings(**{**settings.model_dump(), "oidc_client_secret": "another"})
    with client_of(foreign, store) as other:
        location = provider.visit(leave(other))
        kept = other.get_cookie("minimizer_sign_in", path="/login/oidc")
    assert kept is not None
    client.set_cookie("minimizer_sign_in", kept.value, path="/login/oidc")
    turned_away(client, arrive(client, location), 401, "not begun in this browser")


def test_without_a_role_nobody_is_created(client: FlaskClient, store: Store, provider: IdentityProvider) -> None:
    provider.claims["email"] = "eve@example.com"
    turned_away(client, sign_in(client, provider), 403, "There is no user eve@example.com here")
    assert {user.name for user in store.users.all()} == {"admin", ANNA}


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_a_new_user_gets_the_role_of_the_setting_once(
    sqlite_url: str, tmp_path: Path, store: Store, provider: IdentityProvider, role: str
) -> None:
    provider.claims["email"] = "eve@example.com"
    with client_of(settings_of(sqlite_url, tmp_path, provider, oidc_role=role), store) as client:
        assert sign_in(client, provider).status_code == 303
        me = client.get("/api/v1/me").get_json()
        assert (me["name"], me["role"], me["projects"]) == ("eve@example.com", role, [])
        assert [(one.actor, one.action, one.subject) for one in store.audit.latest()] == [
            ("eve@example.com", "sign_in", "oidc"),
            ("oidc", "user.add", "eve@example.com"),
        ]
        store.users.change("eve@example.com", role=Role.ADMIN)
        assert sign_in(client, provider).status_code == 303
        assert client.get("/api/v1/me").get_json()["role"] == "admin"


def test_a_user_who_is_no_longer_active_is_out(
    sqlite_url: str, tmp_path: Path, store: Store, provider: IdentityProvider
) -> None:
    store.users.change(ANNA, active=False)
    with client_of(settings_of(sqlite_url, tmp_path, provider, oidc_role="member"), store) as client:
        turned_away(client, sign_in(client, provider), 403, "may not come in any more")


def test_a_sign_in_counts_in_the_browser_that_began_it_and_once(
    client: FlaskClient, settings: Settings, store: Store, provider: IdentityProvider
) -> None:
    location = provider.visit(leave(client))
    with client_of(settings, store) as victim:
        turned_away(victim, arrive(victim, location), 401, "not begun in this browser")
        leave(victim)
        turned_away(victim, arrive(victim, location), 401, "not begun in this browser")
    assert "/token" not in provider.asked
    assert arrive(client, location).status_code == 303
    client.delete_cookie("minimizer_session")
    turned_away(client, arrive(client, location), 401, "not begun in this browser")


@pytest.mark.parametrize("state", ["", "another", "\N{SNOWMAN}"])
def test_a_wrong_state_does_not_count(client: FlaskClient, provider: IdentityProvider, state: str) -> None:
    parts = urllib.parse.urlsplit(provider.visit(leave(client)))
    query = {**dict(urllib.parse.parse_qsl(parts.query)), "state": state}
    address = parts._replace(query=urllib.parse.urlencode(query)).geturl()
    turned_away(client, arrive(client, address), 401, "not begun in this browser")
    assert "/token" not in provider.asked


def test_the_code_is_bound_to_its_verifier(
    client: FlaskClient, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    parts = urllib.parse.urlsplit(leave(client))
    query = {**dict(urllib.parse.parse_qsl(parts.query)), "code_challenge": "x" * 43}
    address = parts._replace(query=urllib.parse.urlencode(query)).geturl()
    turned_away(client, arrive(client, provider.visit(address)), 401, "does not count")
    assert "invalid_grant" in caplog.text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": None, "nonce_supported": False}, "nonce"),
        ({"aud": "another"}, "aud"),
        ({"aud": "another", "azp": CLIENT_ID}, "aud"),
        ({"aud": [CLIENT_ID, "another"], "azp": "another"}, "azp"),
        ({"iss": "https://another.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"exp": OVER}, "expired"),
        ({"exp": None}, "exp"),
        ({"iat": OVER + 7200}, "in the future"),
    ],
)
def test_an_id_token_for_something_else_does_not_count(
    client: FlaskClient,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    claims: dict[str, Any],
    words: str,
) -> None:
    provider.claims.update(claims)
    turned_away(client, sign_in(client, provider), 401, "does not count")
    assert words in caplog.text


@pytest.mark.parametrize(
    ("algorithm", "key", "words"),
    [("RS256", "another", "bad_signature"), ("HS256", "right", "not allowed"), ("none", "right", "not allowed")],
)
def test_an_id_token_of_another_key_does_not_count(
    client: FlaskClient,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    algorithm: str,
    key: str,
    words: str,
) -> None:
    provider.algorithm, provider.key = algorithm, key
    turned_away(client, sign_in(client, provider), 401, "does not count")
    assert words in caplog.text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"email_verified": False}, "is not verified"),
        ({"email_verified": "false"}, "is not verified"),
        ({"email": None}, "does not say what your email is"),
        ({"email": [ANNA]}, "does not say what your email is"),
        ({"email": "anna+ci@example.com"}, "cannot be a name here"),
        # The Kelvin sign, whose lower case is a plain k.
        ({"email": "\N{KELVIN SIGN}im@example.com"}, "cannot be a name here"),
    ],
    ids=str,
)
def test_an_email_that_is_no_name_is_refused(
    client: FlaskClient, store: Store, provider: IdentityProvider, claims: dict[str, Any], words: str
) -> None:
    store.users.create("kim@example.com", Role.MEMBER)
    provider.claims.update(claims)
    turned_away(client, sign_in(client, provider), 403, words)


@pytest.mark.parametrize("claims", [{"email_verified": None}, {"email": "Anna@Example.COM"}], ids=str)
def test_an_email_counts_in_any_case_and_unless_it_is_not_verified(
    client: FlaskClient, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    provider.claims.update(claims)
    assert sign_in(client, provider).status_code == 303
    assert who(client) == ANNA


def test_another_claim_counts_as_it_is(
    sqlite_url: str, tmp_path: Path, store: Store, provider: IdentityProvider
) -> None:
    store.users.create("anna", Role.VIEWER)
    with client_of(settings_of(sqlite_url, tmp_path, provider, oidc_claim="preferred_username"), store) as client:
        provider.claims.update(preferred_username="Anna", email_verified=False)
        turned_away(client, sign_in(client, provider), 403, "cannot be a name here")
        provider.claims.update(preferred_username="anna")
        assert sign_in(client, provider).status_code == 303
        assert who(client) == "anna"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [("access_denied", 403, "did not let you in"), ("temporarily_unavailable", 502, "could not sign you in")],
)
def test_a_refusal_of_the_provider_is_told(
    client: FlaskClient, provider: IdentityProvider, error: str, status: int, words: str
) -> None:
    provider.refuses_with = error
    turned_away(client, sign_in(client, provider), status, words)


def test_a_provider_that_is_down_is_told_at_the_form(store: Store, sqlite_url: str, tmp_path: Path) -> None:
    with identity_provider() as provider, client_of(settings_of(sqlite_url, tmp_path, provider), store) as client:
        location = provider.visit(leave(client))
    turned_away(client, arrive(client, location), 502, "does not answer as it should")
    turned_away(client, client.get("/login/oidc"), 502, "does not answer as it should")


def test_a_provider_that_calls_itself_otherwise_is_another(
    client: FlaskClient, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.metadata["issuer"] = provider.claims["iss"] = "https://another.example"
    turned_away(client, client.get("/login/oidc"), 502, "does not answer as it should")
    assert "calls itself 'https://another.example'" in caplog.text
    provider.metadata["issuer"] = provider.claims["iss"] = f"{provider.issuer}/"
    assert sign_in(client, provider).status_code == 303


@pytest.mark.parametrize("answer", [(500, {}, b"oh no"), as_json(["what"]), as_json({})])
def test_a_provider_that_begins_with_nonsense_is_told_and_asked_again(
    client: FlaskClient, provider: IdentityProvider, answer: Any
) -> None:
    path = "/.well-known/openid-configuration"
    provider.answers[path] = answer
    turned_away(client, client.get("/login/oidc"), 502, "does not answer as it should")
    del provider.answers[path]
    assert sign_in(client, provider).status_code == 303


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/token", (500, {}, b"oh no")),
        ("/token", (200, {}, b"oh no")),
        ("/token", as_json({"error": "invalid_client"}, 401)),
        ("/token", as_json({"access_token": "x", "token_type": "Bearer"})),
        ("/keys", (500, {}, b"oh no")),
        ("/keys", as_json(["what"])),
    ],
)
def test_a_provider_that_ends_with_nonsense_is_told_and_asked_again(
    client: FlaskClient, provider: IdentityProvider, path: str, answer: Any
) -> None:
    provider.answers[path] = answer
    turned_away(client, sign_in(client, provider), 502, "does not answer as it should")
    del provider.answers[path]
    assert sign_in(client, provider).status_code == 303


def test_a_key_that_was_exchanged_is_asked_for_again(client: FlaskClient, provider: IdentityProvider) -> None:
    provider.answers["/keys"] = as_json({"keys": [rsa_key("another").as_dict(private=False)]})
    turned_away(client, sign_in(client, provider), 401, "does not count")
    del provider.answers["/keys"]
    assert sign_in(client, provider).status_code == 303


@pytest.mark.parametrize(
    "following",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "//[", "/" + "x" * 5000],
)
def test_signing_in_leads_to_our_own_pages_only(
    client: FlaskClient, provider: IdentityProvider, following: str
) -> None:
    assert sign_in(client, provider, following).location == "/"


def test_a_session_that_was_there_before_is_not_taken_over(
    client: FlaskClient, store: Store, provider: IdentityProvider
) -> None:
    store.users.create("eve", Role.MEMBER)
    planted = store.sessions.create("eve")
    client.set_cookie("minimizer_session", planted)
    assert sign_in(client, provider).status_code == 303
    cookie = client.get_cookie("minimizer_session")
    assert cookie is not None and cookie.value != planted and who(client) == ANNA
    whose = store.sessions.identify(planted)
    assert whose is not None and whose.name == "eve"


def test_failing_counts_as_guessing(client: FlaskClient) -> None:
    answers = [client.get("/login/oidc/callback?state=guess").status_code for _ in range(21)]
    assert answers == [401] * 20 + [429]


def test_who_guesses_does_not_make_us_ask_the_provider(
    client: FlaskClient, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cookie of a sign-in under way can be kept, and sent again and again with codes that are none."""
    address = urllib.parse.urlsplit(leave(client))
    state = dict(urllib.parse.parse_qsl(address.query))["state"]
    kept = client.get_cookie("minimizer_sign_in", path="/login/oidc")
    assert kept is not None
    asked = []
    finish = Provider.finish
    monkeypatch.setattr(Provider, "finish", lambda *given: asked.append(1) or finish(*given))
    for _ in range(25):
        client.set_cookie("minimizer_sign_in", kept.value, path="/login/oidc")
        last = client.get("/login/oidc/callback", query_string={"state": state, "code": "junk"}, headers=ARRIVING)
    assert last.status_code == 429
    assert len(asked) == 20
    assert client.get("/login/oidc").status_code == 429


def test_the_callback_is_where_the_proxy_says(
    sqlite_url: str, tmp_path: Path, store: Store, provider: IdentityProvider
) -> None:
    settings = settings_of(sqlite_url, tmp_path, provider, trusted_proxies=1, allowed_hosts="minimizer.example")
    with client_of(settings, store) as client:
        headers = {"Host": "minimizer.example", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
        begun = client.get("/login/oidc", headers=headers)
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.headers["Location"]).query))
        assert query["redirect_uri"] == "https://minimizer.example/login/oidc/callback"
        assert "Secure" in begun.headers["Set-Cookie"]
        refused = client.get("/login/oidc", headers={**headers, "Host": "evil.example"})
        assert refused.status_code == 403


def test_it_is_offered_only_where_it_is_set(sqlite_url: str, tmp_path: Path, store: Store) -> None:
    with client_of(Settings(data_dir=tmp_path, database_url=sqlite_url, access="on"), store) as client:
        assert "single sign-on" not in client.get("/login").text
        assert client.get("/login/oidc").status_code == 404
    halves = Settings(data_dir=tmp_path, database_url=sqlite_url, oidc_issuer="https://id.example")
    with client_of(halves, store) as client:
        assert client.get("/login/oidc").status_code == 404


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"oidc_client_id": ""}, "set MINIMIZER_OIDC_CLIENT_ID too"),
        ({"oidc_client_secret": None}, "set MINIMIZER_OIDC_CLIENT_SECRET too"),
        ({"oidc_issuer": ""}, "set MINIMIZER_OIDC_ISSUER too"),
        ({"oidc_issuer": "", "oidc_client_id": ""}, "MINIMIZER_OIDC_ISSUER and MINIMIZER_OIDC_CLIENT_ID too"),
        ({"oidc_issuer": "http://id.example"}, "https://"),
        ({"oidc_issuer": "id.example"}, "https://"),
        ({"oidc_issuer": "https://["}, "https://"),
    ],
    ids=str,
)
def test_a_single_sign_on_that_cannot_be_does_not_start(
    settings: Settings, store: Store, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        create_app(settings.model_copy(update=changes), store, lambda job: None)


def test_without_authlib_it_says_what_to_install(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "web.access.provider", raising=False)
    monkeypatch.setitem(sys.modules, "authlib", None)
    monkeypatch.setitem(sys.modules, "authlib.integrations.base_client", None)
    with pytest.raises(MissingTool, match=r"pip install '.\[oidc\]'"):
        create_app(settings, store, lambda job: None)


def test_nobody_becomes_an_admin_by_a_setting() -> None:
    with pytest.raises(ValidationError):
        Settings(oidc_role="admin")


def test_no_secret_is_logged(
    client: FlaskClient, provider: IdentityProvider, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.answers["/token"] = (500, {}, b"oh no")
    sign_in(client, provider)
    assert caplog.records and CLIENT_SECRET not in caplog.text and CLIENT_SECRET not in repr(settings)

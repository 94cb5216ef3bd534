"""A small OpenID provider: discovery, keys, authorization with PKCE, id tokens that are really signed.

What it gets wrong is up to the test.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import requests
from joserfc import jws
from joserfc.jwk import OctKey, RSAKey

CLIENT_ID = "minimizer"
CLIENT_SECRET = "a secret of the two"

Answer = tuple[int, dict[str, str], bytes]


@cache
def rsa_key(which: str) -> RSAKey:
    """A key pair; all have the same id, so that only the signature tells them apart."""
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)


class IdentityProvider:
    """Knows one client. `claims` are what an id token says beyond, or in place of, what it should; ``None`` omits one."""

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {"email": "anna@example.com", "email_verified": True}
        self.key = "right"
        self.algorithm = "RS256"
        self.metadata: dict[str, Any] = {}
        self.refuses_with = ""
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}

    def visit(self, address: str) -> str:
        """Be the browser that is sent to ``address`` and signs in there; returns where the provider sends it back to."""
        response = requests.get(address, allow_redirects=False, timeout=10)
        assert response.status_code == 302, response.text
        return response.headers["Location"]

    def app(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        path = environ["PATH_INFO"]
        self.asked.append(path)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode()
        query = dict(urllib.parse.parse_qsl(body or environ["QUERY_STRING"]))
        views = {
            "/.well-known/openid-configuration": self._discovery,
            "/keys": self._keys,
            "/authorize": lambda: self._authorize(query),
            "/token": lambda: self._token(query, environ.get("HTTP_AUTHORIZATION", "")),
        }
        status, headers, content = self.answers.get(path) or views[path]()
        start_response(f"{status} so", list(headers.items()))
        return [content]

    def _discovery(self) -> Answer:
        return as_json(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
                **self.metadata,
            }
        )

    def _keys(self) -> Answer:
        return as_json({"keys": [rsa_key("right").as_dict(private=False)]})

    def _authorize(self, query: dict[str, str]) -> Answer:
        assert query["response_type"] == "code" and query["client_id"] == CLIENT_ID
        assert "openid" in query["scope"].split() and query["nonce"] and query["state"]
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        answer = {"error": self.refuses_with} if self.refuses_with else {"code": code}
        location = f"{query['redirect_uri']}?{urllib.parse.urlencode({**answer, 'state': query['state']})}"
        return 302, {"Location": location}, b""

    def _token(self, query: dict[str, str], authorization: str) -> Answer:
        if base64.b64decode(authorization.removeprefix("Basic ")).decode() != f"{CLIENT_ID}:{CLIENT_SECRET}":
            return as_json({"error": "invalid_client"}, 401)
        begun = self._codes.pop(query.get("code", ""), None)
        digest = hashlib.sha256(query.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            begun is None
            or query["grant_type"] != "authorization_code"
            or query["redirect_uri"] != begun["redirect_uri"]
            or challenge != begun["code_challenge"]
        ):
            return as_json({"error": "invalid_grant"}, 400)
        return as_json({"access_token": "x", "token_type": "Bearer", "id_token": self._id_token(begun["nonce"])})

    def _id_token(self, nonce: str) -> str:
        now = int(time.time())
        right = {"iss": self.issuer, "sub": "1", "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {name: value for name, value in {**right, **self.claims}.items() if value is not None}
        header = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm == "none":
            parts = (json.dumps(header).encode(), json.dumps(claims).encode(), b"")
            return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        # The classic: what everybody may know of the right key, taken for a shared secret.
        key = OctKey.import_key(json.dumps(rsa_key("right").as_dict(private=False)).encode(), {"kid": "one"})
        chosen = key if self.algorithm == "HS256" else rsa_key(self.key)
        return jws.serialize_compact(header, json.dumps(claims).encode(), chosen, algorithms=[self.algorithm])


def as_json(content: object, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """One that answers on loopback until the end of the block."""
    provider = IdentityProvider()
    with make_server("127.0.0.1", 0, provider.app, handler_class=_Quiet) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()

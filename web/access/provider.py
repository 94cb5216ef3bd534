"""The OpenID provider: the redirect, and the claims about the returning browser. Needs the extra ``oidc``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import FlaskIntegration, FlaskOAuth2App
from joserfc.errors import JoseError

from web.problems import Problem

log = logging.getLogger(__name__)

# A stranger can make us ask: a provider that does not answer must not hold our threads for long.
_TIMEOUT_SECONDS = 5
# Of its addresses and keys. A key it has taken back counts no longer than this.
_KEPT_SECONDS = 600
# Asymmetric only: "none" signs nothing, and a shared secret lets everybody who knows it sign.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")


class Provider:
    """One provider, which knows this service as a client of its."""

    def __init__(self, issuer: str, client_id: str, client_secret: str) -> None:
        self._issuer = issuer.rstrip("/")
        self._client_id = client_id
        self._client_secret = client_secret
        self._known: tuple[float, Any] | None = None

    def begin(self, callback: str) -> tuple[str, dict[str, str]]:
        """The redirect address for a browser, and the data that `finish` needs at ``callback``; both contain `state`.

        Raises:
            Problem: 502, the provider does not answer correctly.
        """
        with self._asked() as client:
            made = client.create_authorization_url(callback)
        return made.pop("url"), {**made, "callback": callback}

    def finish(self, code: str, kept: Mapping[str, str]) -> dict[str, Any]:
        """The provider's claims about the bearer of ``code``, after all possible checks.

        Raises:
            Problem: 401, the claims are invalid for this sign-in; 502, the provider does not answer correctly.
        """
        with self._asked() as client:
            token = client.fetch_access_token(kept["callback"], code=code, code_verifier=kept["code_verifier"])
            wanted = {
                "iss": {"essential": True, "value": client.server_metadata["issuer"]},
                "aud": {"essential": True, "value": self._client_id},
            }
            claims = client.parse_id_token(token, kept["nonce"], wanted)
            if claims is None:
                raise ValueError("there is no id token in the answer")
            return dict(claims)

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        try:
            yield self._client()
        except Exception as error:  # a provider can answer anything, and Authlib then raise anything
            self._known = None  # its cached metadata may be out of date
            if isinstance(error, JoseError) or (isinstance(error, OAuthError) and error.error == "invalid_grant"):
                log.warning("the word of the OpenID provider does not count: %s", error)
                raise Problem(
                    401, "sign-in", "What the provider says does not count for this sign-in. Begin again."
                ) from None
            log.warning("the OpenID provider %s does not answer as it should", self._issuer, exc_info=error)
            raise Problem(
                502, "provider-failed", "The provider does not answer as it should. Try again soon, or ask an admin."
            ) from None

    def _client(self) -> Any:
        if self._known is not None and time.monotonic() - self._known[0] < _KEPT_SECONDS:
            return self._known[1]
        client = FlaskOAuth2App(
            FlaskIntegration("oidc"),
            client_id=self._client_id,
            client_secret=self._client_secret,
            server_metadata_url=f"{self._issuer}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid email profile",
                "code_challenge_method": "S256",
                "default_timeout": _TIMEOUT_SECONDS,
            },
        )
        found = client.load_server_metadata()
        # Auth0 and others end their name with a slash; an id token must contain it exactly as here.
        if found["issuer"].rstrip("/") != self._issuer:
            raise ValueError(f"it calls itself {found['issuer']!r}: set MINIMIZER_OIDC_ISSUER to that if it is right")
        found["id_token_signing_alg_values_supported"] = _ALGORITHMS
        self._known = (time.monotonic(), client)
        return client

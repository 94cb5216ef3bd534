"""Single sign-on: redirects a browser to an OpenID provider, which vouches for its user on return.

Which user that is here, with which rights, is decided by the store as for every sign-in. Flask's session holds only the
sign-in in progress, and is sent to these two addresses only.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Blueprint, Flask, current_app, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from werkzeug.wrappers import Response as BaseResponse

from minimizer.errors import MissingTool, UserError
from minimizer.settings import Settings
from minimizer.store import InvalidName, NameTaken, UnknownUser, User
from minimizer.store.access.projects import check_name
from minimizer.vocabulary import Role
from web.access.security import is_loopback
from web.access.sign_in import let_in, limits, own_path, turn_away
from web.problems import Problem
from web.service import service

if TYPE_CHECKING:
    from web.access.provider import Provider

log = logging.getLogger(__name__)

_PATH = "/login/oidc"
# Time for a second factor and a forgotten password.
_UNDER_WAY_SECONDS = 900
# Stored in a cookie, and browsers drop those of more than 4 KiB.
_MAX_PATH = 1000

oidc_pages = Blueprint("oidc", __name__, url_prefix=_PATH)


class _UnderWay(SecureCookieSessionInterface):
    """Flask's session, marked as secure exactly if the request was."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure


def install(app: Flask, settings: Settings) -> None:
    """Offer single sign-on if access control is on and a provider is set.

    Raises:
        UserError: a requirement is missing.
    """
    secret = settings.oidc_client_secret.get_secret_value() if settings.oidc_client_secret else ""
    parts = {
        "MINIMIZER_OIDC_ISSUER": settings.oidc_issuer,
        "MINIMIZER_OIDC_CLIENT_ID": settings.oidc_client_id,
        "MINIMIZER_OIDC_CLIENT_SECRET": secret,
    }
    if settings.access == "off" or not any(parts.values()):
        return
    if missing := [name for name, value in parts.items() if not value]:
        raise UserError(f"single sign-on is set by halves: set {' and '.join(missing)} too (docs/deploy.md)")
    if not _is_safe(settings.oidc_issuer):
        raise UserError(
            f"MINIMIZER_OIDC_ISSUER is {settings.oidc_issuer!r}: set an address that begins with https://, or whoever is "
            "on the way could say who signs in"
        )
    try:
        from web.access.provider import Provider
    except ModuleNotFoundError as error:
        raise MissingTool(
            f"single sign-on needs {error.name}, which is not installed: pip install '.[oidc]' in the checkout, or set no "
            "MINIMIZER_OIDC_ISSUER"
        ) from error
    app.extensions["minimizer.oidc"] = Provider(settings.oidc_issuer, settings.oidc_client_id, secret)
    # Derived, so that a sign-in that begins in one web process can end in another.
    app.secret_key = hmac.digest(secret.encode(), b"minimizer: the sign-in under way", "sha256")
    app.config.update(
        SESSION_COOKIE_NAME="minimizer_sign_in",
        SESSION_COOKIE_PATH=_PATH,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",  # not "Strict": it must come along when the provider sends the browser back
        PERMANENT_SESSION_LIFETIME=_UNDER_WAY_SECONDS,
    )
    app.session_interface = _UnderWay()
    app.register_blueprint(oidc_pages)


@oidc_pages.get("")
def start() -> BaseResponse | tuple[str, int]:
    following = own_path(request.args.get("next"))
    if len(following) > _MAX_PATH:
        following = url_for("pages.index")
    try:
        limits().refuse_guessing(request.remote_addr or "")
        address, kept = _provider().begin(url_for("oidc.callback", _external=True))
    except Problem as problem:
        return turn_away(problem.detail, problem.status, following, by="oidc")
    session["under_way"] = {**kept, "next": following}
    return redirect(address, 303)


@oidc_pages.get("/callback")
def callback() -> BaseResponse | tuple[str, int]:
    kept = session.pop("under_way", {})  # it counts once, however it ends
    following = kept.get("next", url_for("pages.index"))
    try:
        limits().refuse_guessing(request.remote_addr or "")  # before a request to the provider in our name
        user = _user(_name(_claims(kept)))
    except Problem as problem:
        return turn_away(problem.detail, problem.status, following, by="oidc")
    return let_in(user.name, following, by="oidc")


def _is_safe(issuer: str) -> bool:
    """Whether only the provider can answer at this address."""
    try:
        parts = urlsplit(issuer)
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _claims(kept: Mapping[str, str]) -> Mapping[str, Any]:
    """The provider's claims about the browser that has returned."""
    state = request.args.get("state", "")
    if not kept or not hmac.compare_digest(state.encode(), kept["state"].encode()):
        raise Problem(401, "sign-in", "This sign-in was not begun in this browser, or a while ago. Begin again.")
    refusal = request.args.get("error")
    if refusal == "access_denied":
        raise Problem(403, "forbidden", "The provider did not let you in, or you have not agreed to it.")
    if refusal:
        log.warning("the OpenID provider answered with the error %r", refusal[:100])
        raise Problem(502, "provider-failed", "The provider could not sign you in. Try again soon, or ask an admin.")
    return _provider().finish(request.args.get("code", ""), kept)


def _name(claims: Mapping[str, Any]) -> str:
    """The user name here.

    Email addresses are case-insensitive. Other claims count unchanged: two people may differ by case there.
    """
    claim = service().settings.oidc_claim
    name = claims.get(claim)
    if not isinstance(name, str):
        raise Problem(403, "forbidden", f"The provider does not say what your {claim} is. Ask an admin.")
    if claim == "email":
        if claims.get("email_verified") in (False, "false"):
            raise Problem(403, "forbidden", "Your email address is not verified. Verify it at the provider first.")
        # Some letters beyond ASCII have the same lower case as another letter.
        name = name.lower() if name.isascii() else name
    try:
        check_name(name)
    except InvalidName as error:
        raise Problem(403, "forbidden", f"Your {claim} cannot be a name here: {error}.") from None
    return name


def _user(name: str) -> User:
    """The active user of this name, created if the settings allow it."""
    here = service()
    try:
        user = here.store.users.get(name)
    except UnknownUser:
        if not here.settings.oidc_role:
            raise Problem(403, "forbidden", f"There is no user {name} here. Ask an admin to add one.") from None
        with suppress(NameTaken):  # by another tab of the same person
            here.store.users.create(name, Role(here.settings.oidc_role))
            here.store.audit.record("oidc", "user.add", name, request.remote_addr or "")
        user = here.store.users.get(name)
    if not user.active:
        raise Problem(403, "forbidden", f"The user {name} may not come in any more. Ask an admin.")
    return user


def _provider() -> Provider:
    found: Provider = current_app.extensions["minimizer.oidc"]
    return found

"""Signing in and out with a browser: by name and password, or by a token. `web.access.oidc` has the third way."""

from __future__ import annotations

import re

from flask import Blueprint, current_app, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from minimizer.store import InvalidName, UnknownUser
from minimizer.store.access.projects import check_name
from web.access import passwords
from web.access.limits import Limits
from web.access.table import COOKIE
from web.service import service

sign_in_pages = Blueprint("sign_in", __name__)

_SESSION_SECONDS = 14 * 86_400
_NOBODY = "-"
"""The actor of anonymous actions; not a valid user name."""
# Two slashes are the beginning of a host to a browser, to which a backslash is one, too, and a line break is nothing at all.
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f\x7f]*")


@sign_in_pages.get("/login")
def form() -> BaseResponse | str:
    if service().settings.access == "off":
        return redirect(url_for("pages.index"), 303)
    return _page(own_path(request.args.get("next")))


@sign_in_pages.post("/login")
def sign_in() -> BaseResponse | tuple[str, int]:
    here = service()
    if here.settings.access == "off":
        return redirect(url_for("pages.index"), 303)
    following = own_path(request.form.get("next"))
    name, secret = request.form.get("name", "").strip(), request.form.get("secret", "")
    limits().refuse_guessing(request.remote_addr or "", _account(name))
    found = None if name else here.store.tokens.identify(secret.strip())
    user, token = (found.name, found.token) if found else (name, None)
    if found is None and not (name and passwords.is_right(here.store, name, secret)):
        error = "This password is not the one of this user." if name else "This token is unknown, expired or revoked."
        return turn_away(error, 401, following, by="password" if name else "token", name=name)
    return let_in(user, following, by=token or "", token=token)


@sign_in_pages.post("/logout")
def sign_out() -> BaseResponse:
    if cookie := request.cookies.get(COOKIE):
        service().store.sessions.end(cookie)
    response = redirect(url_for("sign_in.form"), 303)
    response.delete_cookie(COOKIE, httponly=True, secure=request.is_secure, samesite="Lax")
    return response


def let_in(user: str, following: str, *, by: str, token: str | None = None) -> BaseResponse:
    """Sign the browser in as a proven active user, and go on.

    Args:
        following: a path of ours.
        by: the proof, for the audit log.
        token: the session ends with it.
    """
    store = service().store
    response = redirect(following, 303)
    response.set_cookie(
        COOKIE,
        store.sessions.create(user, token),
        max_age=_SESSION_SECONDS,
        httponly=True,
        secure=request.is_secure,
        samesite="Lax",
    )
    store.audit.record(user, "sign_in", by, request.remote_addr or "")
    return response


def turn_away(error: str, status: int, following: str, *, by: str, name: str = "") -> tuple[str, int]:
    """The form again, with the error; counted against guessing, and audited.

    Args:
        by: the proof, for the audit log.
        name: the user whose password was tried.

    Raises:
        Problem: 429, too many tries from this address.
    """
    here, address = service(), request.remote_addr or ""
    limits().count_stranger(address, _account(name))
    here.store.audit.record(_NOBODY, "sign_in_failed", name if _is_user(name) else by, address)
    return _page(following, error, name), status


def own_path(wanted: str | None) -> str:
    """Where to go afterwards: a path of ours, never another site's address."""
    return wanted if wanted and _OWN_PATH.fullmatch(wanted) else url_for("pages.index")


def limits() -> Limits:
    found: Limits = current_app.extensions["minimizer.limits"]
    return found


def _account(name: str) -> str:
    """The name under which tries are counted; invalid names are not counted."""
    try:
        check_name(name)
    except InvalidName:
        return ""
    return name


def _is_user(name: str) -> bool:
    """Whether the user exists. A password typed into the name field by mistake must not appear in a log."""
    try:
        return service().store.users.get(name).name == name
    except UnknownUser:
        return False


def _page(following: str, error: str = "", name: str = "") -> str:
    single_sign_on = "oidc" in current_app.blueprints
    return render_template("login.html", following=following, error=error, name=name, single_sign_on=single_sign_on)

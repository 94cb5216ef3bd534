"""Authentication and authorization: decided once per request, before any view runs.

One table lists what each endpoint requires. An endpoint missing there is closed, so that a new route is never open by
accident. A job of somebody else's project looks exactly like one that does not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from flask import Flask, Response, g, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from minimizer.settings import Settings
from minimizer.store import DEFAULT_PROJECT, Identity, Store, Submitter, UnknownJob, UnknownProject
from minimizer.vocabulary import Role, Scope
from web.access.limits import Limits
from web.access.security import SAFE_METHODS
from web.problems import Problem, wants_page

COOKIE = "minimizer_session"

LOCAL = Identity("local", Role.ADMIN, Scope.WRITE, None)
"""The identity of everybody on this machine if access control is off."""


class Need(Enum):
    """The required permission of a request."""

    NOTHING = auto()
    """Open to everybody."""
    OPEN_PAGE = auto()
    """The same, but a signed-in user is greeted as on every other page."""
    SIGNED_IN = auto()
    """Reading what does not belong to a project."""
    READ = auto()
    """Looking at jobs of one's projects."""
    WRITE = auto()
    """Changing them."""
    OWN_KEYS = auto()
    """Making and revoking one's own tokens: any role, but no read-only token."""
    ADMIN = auto()
    """Looking after the service: reading with either scope, changing with a write one."""


NEEDS: dict[str, Need] = {
    "static": Need.NOTHING,
    "documentation.docs": Need.OPEN_PAGE,
    "manual.page": Need.OPEN_PAGE,
    "documentation.openapi_json": Need.NOTHING,
    "documentation.root": Need.NOTHING,
    "documentation.swagger_file": Need.NOTHING,
    "operations.healthz": Need.NOTHING,
    "operations.readyz": Need.NOTHING,
    "pages.favicon": Need.NOTHING,
    "sign_in.form": Need.NOTHING,
    "sign_in.sign_in": Need.NOTHING,
    "sign_in.sign_out": Need.NOTHING,
    "oidc.start": Need.NOTHING,
    "oidc.callback": Need.NOTHING,
    "account.me": Need.SIGNED_IN,
    "account.list_projects": Need.SIGNED_IN,
    "operations.list_workers": Need.SIGNED_IN,
    "worker_pages.page": Need.SIGNED_IN,
    "account.list_tokens": Need.SIGNED_IN,
    "account.create_token": Need.OWN_KEYS,
    "account.revoke_token": Need.OWN_KEYS,
    "keys.page": Need.SIGNED_IN,
    "keys.create": Need.OWN_KEYS,
    "keys.revoke": Need.OWN_KEYS,
    "operations.metrics": Need.ADMIN,
    "account.list_audit": Need.ADMIN,
    "webhooks.list_webhooks": Need.ADMIN,
    "webhooks.create_webhook": Need.ADMIN,
    "webhooks.delete_webhook": Need.ADMIN,
    "webhooks.list_deliveries": Need.ADMIN,
    "api.list_jobs": Need.READ,
    "api.get_job": Need.READ,
    "api.get_events": Need.READ,
    "files.list_artifacts": Need.READ,
    "files.get_artifact": Need.READ,
    "files.get_file": Need.READ,
    "files.get_all": Need.READ,
    "pages.index": Need.READ,
    "pages.jobs": Need.READ,
    "pages.job": Need.READ,
    "pages.script": Need.READ,
    "pages.edit": Need.READ,
    "failures.list_failures": Need.READ,
    "failures.get_failure": Need.READ,
    "failures.describe_failure": Need.WRITE,
    "failures.merge_failures": Need.WRITE,
    "failures.split_failure": Need.WRITE,
    "failures.retest_failure": Need.WRITE,
    "failure_pages.index": Need.READ,
    "failure_pages.page": Need.READ,
    "failure_pages.change": Need.WRITE,
    "api.submit_job": Need.WRITE,
    "api.submit_batch": Need.WRITE,
    "api.pin_job": Need.WRITE,
    "api.unpin_job": Need.WRITE,
    "api.cancel_job": Need.WRITE,
    "api.skip_step": Need.WRITE,
    "api.retry_job": Need.WRITE,
    "api.delete_job": Need.WRITE,
    "pages.submit": Need.WRITE,
    "pages.cancel": Need.WRITE,
    "pages.skip": Need.WRITE,
    "pages.retry": Need.WRITE,
    "pages.delete": Need.WRITE,
}


def install(app: Flask, settings: Settings, store: Store) -> None:
    """Make ``app`` authenticate requests. Without access control everybody is `LOCAL`."""
    limits = Limits(settings)
    app.extensions["minimizer.limits"] = limits
    app.jinja_env.globals.update(identity=identity, access_is_on=settings.access == "on")
    if settings.access == "on":
        _welcome_first_admin(store)

    @app.before_request
    def authorize() -> BaseResponse | None:
        if request.endpoint is None:  # the router has already found that there is no such page
            return None
        need = NEEDS.get(request.endpoint)
        if settings.access == "off":
            g.identity = LOCAL
            g.ask_again = lambda: LOCAL
            return None
        g.identity = None
        if need is Need.NOTHING:
            return None
        g.ask_again = _key(store)
        found = g.ask_again()
        if need is Need.OPEN_PAGE:
            g.identity = found
            return None
        if found is None:
            # A cookie that is over is no guess: a tab that was left open goes on asking with it.
            if "Authorization" in request.headers:
                limits.count_stranger(request.remote_addr or "")
            return _ask_to_sign_in()
        g.identity = found
        limits.count(found.name)
        _check(found, need, store)
        return None

    @app.after_request
    def keep_private(response: Response) -> Response:
        # A cache must not show one user's page to another.
        if settings.access == "on" and g.get("identity") is not None:
            response.headers["Vary"] = "Authorization, Cookie"
            if "Cache-Control" not in response.headers:
                response.headers["Cache-Control"] = "private, no-cache"
        return response


def identity() -> Identity:
    """Who asks. Only for views that need to know; whether they may was settled before."""
    found = g.get("identity")
    if found is None:
        raise _sign_in_first()
    assert isinstance(found, Identity)
    return found


def still_sees(project: str) -> Callable[[], bool]:
    """A question for what outlives its request: may whoever has sent that one see this project even now?"""
    ask_again: Callable[[], Identity | None] = g.ask_again

    def answer() -> bool:
        who = ask_again()
        return who is not None and who.sees(project)

    return answer


def submitter(settings: Settings) -> Submitter:
    """In whose name a job is submitted, and how many may be open."""
    if settings.access == "off":
        return Submitter()
    return Submitter(identity().label, settings.max_open_jobs)


def home(project: str | None) -> str:
    """The project of a new job: the requested one, else the only one, else the default.

    Raises:
        UnknownProject: the requester has no access to it.
        Problem: there are several, and none was named.
    """
    who = identity()
    if project:
        if not who.sees(project):
            raise UnknownProject(project)
        return project
    if who.sees(DEFAULT_PROJECT):
        return DEFAULT_PROJECT
    mine = sorted(who.projects or ())
    if len(mine) == 1:
        return mine[0]
    names = ", ".join(mine) or "none: ask an admin to let you into one"
    raise Problem(422, "no-project", f"Say which project the job goes to (field 'project'). Yours are {names}.")


def _key(store: Store) -> Callable[[], Identity | None]:
    """The key that the request shows, to be looked up as often as need be."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return partial(store.tokens.identify, secret.strip())
    cookie = request.cookies.get(COOKIE)
    if not cookie:
        return lambda: None
    # A browser names the origin of a write; a request with a cookie and without an origin is not from our pages.
    if request.method not in SAFE_METHODS and not {"Origin", "Sec-Fetch-Site"} & set(request.headers.keys()):
        raise Problem(403, "cross-origin", "A request that writes and has a cookie must say its Origin; use a token.")
    return partial(store.sessions.identify, cookie)


def _check(who: Identity, need: Need | None, store: Store) -> None:
    safe = request.method in SAFE_METHODS
    if need is None:
        raise Problem(403, "forbidden", "This address is not open to anybody.")
    if need is Need.ADMIN and who.role is not Role.ADMIN:
        raise Problem(403, "forbidden", "Only an admin may do that.")
    if not safe and who.scope is not Scope.WRITE:
        raise Problem(403, "read-only", "This token may only read. Make one with the scope 'write'.")
    job_id: Any = (request.view_args or {}).get("job_id")
    if job_id is not None and not who.sees(store.projects.of_job(job_id)):
        raise UnknownJob
    if need is Need.WRITE and not who.may_write:
        raise Problem(403, "read-only", "A viewer may look at jobs, not change them.")


def _ask_to_sign_in() -> BaseResponse:
    if request.method in SAFE_METHODS and wants_page() and not request.headers.get("Authorization"):
        return redirect(url_for("sign_in.form", next=request.full_path.rstrip("?")), 303)
    raise _sign_in_first()


def _sign_in_first() -> Problem:
    return Problem(
        401,
        "sign-in",
        "Send a valid token as 'Authorization: Bearer TOKEN', or sign in under /login. The one that was sent, if any, is unknown, expired or revoked.",
        {"WWW-Authenticate": "Bearer"},
    )


def _welcome_first_admin(store: Store) -> None:
    secret = store.tokens.create_first_admin()
    if secret is not None:
        print(  # noqa: T201 - shown once, and kept out of the log
            "\nThere was no user yet: 'admin' was created. This token signs in, and is never shown again:\n\n"
            f"    {secret}\n",
            file=sys.stderr,
            flush=True,
        )

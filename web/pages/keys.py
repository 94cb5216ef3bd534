"""The page of one's own tokens."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request, url_for
from pydantic import ValidationError
from werkzeug.wrappers import Response as BaseResponse

from web.access.table import identity
from web.api.account import NewTokenBody, new_token, require_users
from web.problems import Problem
from web.service import service

keys = Blueprint("keys", __name__)


@keys.get("/tokens")
def page() -> str:
    require_users()
    return _page()


@keys.post("/tokens")
def create() -> str:
    try:
        body = NewTokenBody.model_validate_strings(request.form.to_dict())
    except ValidationError:
        raise Problem(422, "invalid-body", "A token has a name, a scope and 1 to 3650 days to live.") from None
    _, secret = new_token(body)
    return _page(secret)


@keys.post("/tokens/<token_id>/revoke")
def revoke(token_id: str) -> BaseResponse:
    service().store.tokens.revoke(token_id, identity().name)
    return redirect(url_for("keys.page"), 303)


def _page(secret: str | None = None) -> str:
    return render_template("tokens.html", tokens=service().store.tokens.all(identity().name), secret=secret)

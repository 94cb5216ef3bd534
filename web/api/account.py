"""REST for one's own keys and projects, and for admins the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from minimizer.store import AuditEntry, Project, Token
from minimizer.vocabulary import Role, Scope
from web.access import audit
from web.access.table import identity
from web.api.answers import BROKEN, COMMON, SECURITY, operation_id, problem_response
from web.problems import Problem
from web.service import service

account = APIBlueprint(
    "account",
    __name__,
    url_prefix="/api/v1",
    abp_tags=[Tag(name="account", description="Who you are, your keys and your projects.")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)


class MeBody(BaseModel):
    """Who asks."""

    name: str = Field(examples=["anna"])
    role: Role
    scope: Scope = Field(description="How far the token that was sent goes.")
    projects: list[str] | None = Field(description="The projects whose jobs are open to you; null: all.")


class TokenBody(BaseModel):
    """A token without its secret."""

    id: str = Field(examples=["5f1b9a3c2d4e"])
    name: str = Field(examples=["nightly CI"])
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute.")


class TokensBody(BaseModel):
    tokens: list[TokenBody]


class NewTokenBody(BaseModel):
    """What a token is to be."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100, description="What it is for.", examples=["nightly CI"])
    scope: Scope = Field(Scope.READ, description="How far it goes.")
    days: StrictInt | None = Field(90, ge=1, le=3650, description="Days until it expires; null: never.")


class SecretBody(TokenBody):
    """A new token. Its secret is shown here and never again."""

    secret: str = Field(examples=["mnz_dGhpcyBpcyBub3QgYSByZWFsIHRva2VuLCBpcyBpdD8"])


class TokenPath(BaseModel):
    token_id: str = Field(description="Id of the token.")


class ProjectBody(BaseModel):
    """A project."""

    name: str = Field(examples=["default"])
    keep_days: int | None = Field(description="Days after which a job that has ended is deleted; null: never.")
    keep_bytes: int | None = Field(description="Bytes above which the oldest jobs are deleted; null: no limit.")
    members: list[str]


class ProjectsBody(BaseModel):
    projects: list[ProjectBody]


class AuditQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=1000, description="Entries, the newest first.")


class AuditEntryBody(BaseModel):
    """A change that somebody has made."""

    time: datetime
    actor: str = Field(description="User, and the token if one was used.", examples=["anna/5f1b9a3c2d4e"])
    action: str = Field(examples=["api.submit_job"])
    subject: str = Field(description="What was changed.")
    address: str = Field(description="Where the request came from.")


class AuditBody(BaseModel):
    entries: list[AuditEntryBody]


@account.get("/me", operation_id="get_me", summary="Who you are", responses={200: MeBody})
def me() -> dict[str, Any]:
    who = identity()
    projects = None if who.projects is None else sorted(who.projects)
    return MeBody(name=who.name, role=who.role, scope=who.scope, projects=projects).model_dump(mode="json")


@account.get("/projects", summary="The projects that are open to you", responses={200: ProjectsBody})
def list_projects() -> dict[str, Any]:
    mine = [project_body(project) for project in service().store.projects.all() if identity().sees(project.name)]
    return ProjectsBody(projects=mine).model_dump(mode="json")


@account.get("/tokens", summary="Your tokens", responses={200: TokensBody})
def list_tokens() -> dict[str, Any]:
    mine = [token_body(token) for token in service().store.tokens.all(identity().name)]
    return TokensBody(tokens=mine).model_dump(mode="json")


@account.post(
    "/tokens",
    summary="Make a token",
    description="A token makes none that lives longer than itself.",
    responses={
        201: SecretBody,
        409: problem_response("Access control is off, so there are no users to have tokens."),
        **BROKEN,
    },
)
def create_token(body: NewTokenBody) -> tuple[dict[str, Any], int]:
    token, secret = new_token(body)
    made = SecretBody(**token_body(token).model_dump(), secret=secret)
    return made.model_dump(mode="json"), 201


@account.delete(
    "/tokens/<token_id>",
    summary="Revoke a token",
    responses={204: None, 404: problem_response("You have no such token.")},
)
def revoke_token(path: TokenPath) -> tuple[str, int]:
    service().store.tokens.revoke(path.token_id, identity().name)
    return "", 204


@account.get("/audit", summary="Who has changed what", responses={200: AuditBody})
def list_audit(query: AuditQuery) -> dict[str, Any]:
    entries = [audit_body(entry) for entry in service().store.audit.latest(query.limit)]
    return AuditBody(entries=entries).model_dump(mode="json")


def require_users() -> None:
    """Refuse operations that make sense only with user accounts.

    Raises:
        Problem: there are no users to have tokens.
    """
    if service().settings.access == "off":
        raise Problem(409, "access-off", "Access control is off: there are no users, and nobody needs a token.")


def new_token(body: NewTokenBody) -> tuple[Token, str]:
    """A token of whoever asks, and its secret. A token makes none that lives longer than itself.

    Raises:
        Problem: there are no users to have tokens.
    """
    require_users()
    expires = None if body.days is None else datetime.now(UTC) + timedelta(days=body.days)
    who = identity()
    token, secret = service().store.tokens.create(who.name, body.name, body.scope, expires, asked_with=who.token)
    audit.made(token.id)
    return token, secret


def token_body(token: Token) -> TokenBody:
    """A token as the API shows it."""
    return TokenBody(
        id=token.id,
        name=token.name,
        scope=token.scope,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )


def project_body(project: Project) -> ProjectBody:
    """A project as the API shows it."""
    return ProjectBody(
        name=project.name,
        keep_days=project.keep_days,
        keep_bytes=project.keep_bytes,
        members=list(project.members),
    )


def audit_body(entry: AuditEntry) -> AuditEntryBody:
    """An entry of the audit log as the API shows it."""
    return AuditEntryBody(
        time=entry.time, actor=entry.actor, action=entry.action, subject=entry.subject, address=entry.address
    )

"""REST for webhooks: who is told when a job ends, and what became of every message. For admins: an address may be anywhere."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field

from minimizer.store import DEFAULT_PROJECT, Delivery, Webhook
from minimizer.store.webhooks import ADDRESS, MAX_URL
from web.access import audit
from web.api.answers import BROKEN, COMMON, NO_PROJECT, SECURITY, operation_id, problem_response
from web.formats import ProjectName
from web.service import service

webhooks = APIBlueprint(
    "webhooks",
    __name__,
    url_prefix="/api/v1/webhooks",
    abp_tags=[Tag(name="webhooks", description="Messages to other services when a job ends.")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)


class NewWebhookBody(BaseModel):
    """An address to be told."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(
        max_length=MAX_URL,
        description="http or https.",
        examples=["https://ci.example/hooks/minimizer"],
        json_schema_extra={"pattern": ADDRESS},
    )
    project: ProjectName = Field(DEFAULT_PROJECT, description="Whose jobs it is told of.", examples=["default"])


class WebhookBody(BaseModel):
    """An address that is told."""

    id: str = Field(examples=["0f3c5a7b9d1e"])
    project: str
    url: str
    created_at: datetime
    deliveries: str = Field(description="Where its log is.")


class WebhookSecretBody(WebhookBody):
    """A new webhook. The secret that its messages are signed with is shown here and never again."""

    secret: str


class WebhooksBody(BaseModel):
    webhooks: list[WebhookBody]


class WebhookPath(BaseModel):
    webhook_id: str = Field(description="Id of the webhook.")


class DeliveryBody(BaseModel):
    """What became of a message."""

    number: int = Field(description="The X-Minimizer-Delivery header of the message.")
    job_id: str
    created_at: datetime
    attempts: int
    next_at: datetime | None = Field(description="When it is tried again; null once it has arrived or was given up.")
    delivered_at: datetime | None
    answer: str = Field(description="Of the last attempt.", examples=["204 No Content"])


class DeliveriesBody(BaseModel):
    deliveries: list[DeliveryBody]


_UNKNOWN: dict[Any, Any] = {404: problem_response("There is no such webhook.")}


@webhooks.get("", summary="All webhooks", responses={200: WebhooksBody})
def list_webhooks() -> dict[str, Any]:
    found = [WebhookBody(**_fields(one)) for one in service().store.webhooks.all()]
    return WebhooksBody(webhooks=found).model_dump(mode="json")


@webhooks.post(
    "",
    summary="Tell an address when a job ends",
    description="A message is a POST of JSON: `event` (`job.ended`), `time`, and `job` with `id`, `project`, `filename`, "
    "`status`, `reason`, `summary`, `kind`, `signature` (as in the report) and `group` (the signature under `/failures`; "
    "null without a failure). It is signed in `X-Minimizer-Signature`: `sha256=` and the HMAC-SHA256, under the "
    "secret, of `X-Minimizer-Timestamp`, a dot and the body. It is repeated until it is answered with 2xx, 8 times in "
    "three hours.",
    responses={201: WebhookSecretBody, 404: NO_PROJECT, **BROKEN},
)
def create_webhook(body: NewWebhookBody) -> tuple[dict[str, Any], int]:
    webhook, secret = service().store.webhooks.create(body.project, body.url)
    audit.made(webhook.id)
    return WebhookSecretBody(**_fields(webhook), secret=secret).model_dump(mode="json"), 201


@webhooks.delete("/<webhook_id>", summary="Forget a webhook and its log", responses={204: None, **_UNKNOWN})
def delete_webhook(path: WebhookPath) -> tuple[str, int]:
    service().store.webhooks.delete(path.webhook_id)
    return "", 204


@webhooks.get(
    "/<webhook_id>/deliveries",
    summary="The last messages to a webhook and what became of them",
    responses={200: DeliveriesBody, **_UNKNOWN},
)
def list_deliveries(path: WebhookPath) -> dict[str, Any]:
    found = [_delivery(one) for one in service().store.webhooks.deliveries(path.webhook_id)]
    return DeliveriesBody(deliveries=found).model_dump(mode="json")


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "project": webhook.project,
        "url": webhook.url,
        "created_at": webhook.created_at,
        "deliveries": f"/api/v1/webhooks/{webhook.id}/deliveries",
    }


def _delivery(delivery: Delivery) -> DeliveryBody:
    return DeliveryBody(
        number=delivery.number,
        job_id=delivery.job_id,
        created_at=delivery.created_at,
        attempts=delivery.attempts,
        next_at=delivery.next_at,
        delivered_at=delivery.delivered_at,
        answer=delivery.answer,
    )

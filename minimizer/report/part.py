"""What every part of a report is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of every part: unknown fields are an error, so that the contract cannot drift unseen."""

    model_config = ConfigDict(extra="forbid")

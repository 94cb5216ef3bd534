"""The base of every part of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of every part: unknown fields are an error, so that the contract cannot drift unseen."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Read a stored contract form; fields of another version that this one does not know are left out.

        Raises:
            pydantic.ValidationError: it is not of that form.
        """
        return cls.model_validate(data, extra="ignore")

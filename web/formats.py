"""Formats of texts in the OpenAPI document that no pattern can express. Clients generated from it have to know them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

PYTHON = "python"
"""A text that parses as Python."""
Cursor = Annotated[str, Field(max_length=200, json_schema_extra={"format": "cursor"})]
"""A value that an earlier answer has given."""
ProjectName = Annotated[str, Field(max_length=64, json_schema_extra={"format": "project"})]
"""The name of a project that is open to whoever asks."""

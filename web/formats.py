"""Formats of texts in the OpenAPI document, for what no pattern can say. Whoever makes requests from the document has to know them."""

from __future__ import annotations

PYTHON = "python"
"""A text that parses as Python."""
CURSOR = "cursor"
"""A value that an earlier answer has given."""
PROJECT = "project"
"""The name of a project that is open to whoever asks."""

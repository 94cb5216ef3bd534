"""Bounds and cleans data before it is stored, since results ultimately come from a hostile script.

PostgreSQL rejects NUL in text, JSON has no NaN, and UTF-8 has no lone surrogates. All of them occur in the messages and figures of
failing scripts, and none may make a write fail.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_TEXT = 8 << 10
"""Characters of a stored string."""
MAX_ITEMS = 500
"""Items of a stored list or dict."""
MAX_DEPTH = 12
"""Levels of nesting in stored JSON."""
MAX_JSON_BYTES = 64 << 10
"""Bytes of the JSON of one event's data."""


def text(value: str, limit: int = MAX_TEXT) -> str:
    """The string without characters that a database rejects, cut to ``limit`` characters."""
    clean = value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def plain(value: Any, items: int = MAX_ITEMS, depth: int = MAX_DEPTH) -> Any:
    """The value as strict JSON: strings cleaned and cut, containers cut in length and depth, NaN and infinities as ``None``."""
    match value:
        case str():
            return text(value)
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int():
            return value
        case dict() | list() | tuple() if depth == 0:
            return None
        case dict():
            return {text(str(key), 200): plain(item, items, depth - 1) for key, item in list(value.items())[:items]}
        case list() | tuple():
            return [plain(item, items, depth - 1) for item in value[:items]]
        case _:
            return text(str(value))


def event_data(data: dict[str, Any]) -> dict[str, Any]:
    """The data of an event as strict JSON of bounded size."""
    clean: dict[str, Any] = plain(data)
    size = len(json.dumps(clean))
    if size <= MAX_JSON_BYTES:
        return clean
    return {"truncated": True, "message": f"{size:,} bytes of event data were left out"}

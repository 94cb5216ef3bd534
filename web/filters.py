"""What a page of a list is filtered by, read from its address."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from flask import request

_MAX_TEXT = 200

Word = TypeVar("Word", bound=StrEnum)


def one_of(words: type[Word], name: str) -> Word | None:
    """The filter of this name, or ``None`` if it is no word of ours: an old bookmark still opens the list."""
    value = request.args.get(name)
    return words(value) if value in list(words) else None


def text() -> str:
    """What is searched for."""
    return (request.args.get("q") or "").strip()[:_MAX_TEXT]

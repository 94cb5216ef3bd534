"""What a client asks for in an address or a header, read so that no text of his or hers does harm."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from flask import request

_MAX_TEXT = 200
_MAX_DIGITS = 10

Word = TypeVar("Word", bound=StrEnum)


def one_of(words: type[Word], name: str) -> Word | None:
    """The filter of this name, or ``None`` if it is no word of ours: an old bookmark still opens the list."""
    value = request.args.get(name)
    return words(value) if value in list(words) else None


def number(digits: str) -> int | None:
    """The number that is written there, or ``None``. No line or event has one of more digits, and Python gives up at 4,300."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None


def text() -> str:
    """What is searched for."""
    return (request.args.get("q") or "").strip()[:_MAX_TEXT]

"""Filters in a client's address or headers, parsed so that no text can do harm."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from flask import request

_MAX_TEXT = 200
_MAX_DIGITS = 10

Word = TypeVar("Word", bound=StrEnum)


def one_of(words: type[Word], name: str) -> Word | None:
    """The filter of this name, or ``None`` for an unknown value: an old bookmark still opens the list."""
    value = request.args.get(name)
    return words(value) if value in list(words) else None


def number(digits: str) -> int | None:
    """The number in the text, or ``None``. No line or event number has more digits, and Python refuses more than 4,300."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None


def text() -> str:
    """The search text."""
    return (request.args.get("q") or "").strip()[:_MAX_TEXT]

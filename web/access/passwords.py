"""Passwords: hashed with scrypt by werkzeug, and checked in the same time whether or not there is such a user."""

from __future__ import annotations

from werkzeug.security import check_password_hash, generate_password_hash

from minimizer.errors import InvalidOption
from minimizer.store import Store

MIN_LENGTH = 12
# The hash of no password: guessing names must take as long as guessing passwords.
_NOBODY = generate_password_hash("")


def hash_password(password: str) -> str:
    """The stored form of a password.

    Raises:
        InvalidOption: it is too short.
    """
    if len(password) < MIN_LENGTH:
        raise InvalidOption(f"a password has at least {MIN_LENGTH} characters: several words do well")
    return generate_password_hash(password)


def is_right(store: Store, user: str, password: str) -> bool:
    """Whether this is the password of an active user."""
    known = store.users.password_hash(user)
    return check_password_hash(known or _NOBODY, password) and known is not None

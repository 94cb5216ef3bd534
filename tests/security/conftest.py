"""Attacks on pages and requests, on SQLite: the answers are the same on every database."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone."""
    return sqlite_url

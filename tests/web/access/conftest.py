"""Who may do what, on SQLite: the checks are the same on every database."""

from __future__ import annotations

import pytest


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone."""
    return sqlite_url

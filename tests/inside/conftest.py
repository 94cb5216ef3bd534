"""Tests of the package that runs in the user's Python, with torch in this process.

torch warns where it imports itself (numpy is missing, its own deprecated decorators). That is no concern of tests that turn
warnings into errors.
"""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"))
